"""A run as a selection shows it: some of its ranks, some of its steps, a window of its time."""
