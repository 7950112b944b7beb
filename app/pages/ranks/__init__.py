"""The page of ranks beside each other."""
