"""Archives of evidence: a genuine one, and what a forger or a bad line makes of it."""
