"""Jobs that run on any machine with two cores, each with a fault and, with --fixed, without it."""
