"""Results of `npulens lab`."""
