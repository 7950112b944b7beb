"""npulens beside its rivals: same file, same questions, one run. `make bench`; nothing here is a test."""
