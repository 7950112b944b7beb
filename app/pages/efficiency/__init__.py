"""The page of efficiency."""
