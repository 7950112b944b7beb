"""Ranks of one job: their clocks, their collectives, and who waits for whom."""
