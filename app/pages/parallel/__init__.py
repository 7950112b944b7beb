"""The page of the parallel strategy."""
