"""``npulens bench``: the harness put to work on one workload, and what it found written down."""
