"""Coverage-guided fuzzing of everything that reads somebody else's bytes: `python -m tests.fuzz`."""
