"""The page that compares runs, ranks or steps."""
