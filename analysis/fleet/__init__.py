"""Thousands of ranks: a small summary of each rank and step, and what follows from all of them together."""
