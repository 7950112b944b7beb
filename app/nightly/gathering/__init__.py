"""What a night measures: its steps, one process each, and their numbers."""
