"""History, the statistics of a comparison, and where a change comes from."""
