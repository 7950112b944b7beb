"""The page that manages runs."""
