"""Whether evidence can be believed: everything that can be computed twice is, and the two are compared."""
