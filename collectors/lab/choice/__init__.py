"""Which rewrites together, in which types, for which shapes: plans of a subject, halved by what they were measured."""
