"""Scripts of `npulens replay`, run: `python -m tests.replay`."""
