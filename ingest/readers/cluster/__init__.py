"""What msprof-analyze leaves of a whole cluster: sums per rank and step, communication, groups; no spans."""
