"""What a visitor has chosen to look at, the same on every page."""
