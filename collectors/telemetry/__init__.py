"""The state of a device while something is measured on it: one file for each source that tells it."""
