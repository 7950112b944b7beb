"""Results of `npulens bench`."""
