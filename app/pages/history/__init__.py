"""The page of metrics over nights."""
