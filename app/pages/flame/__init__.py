"""The page of flame graphs."""
