"""The page of nights."""
