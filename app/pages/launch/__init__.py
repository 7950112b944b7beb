"""The page of launches."""
