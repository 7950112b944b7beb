"""The page of memory copies."""
