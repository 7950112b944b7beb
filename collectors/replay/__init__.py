"""One operator of a capture, alone: the call built again from what was recorded, checked and timed.

What `npulens replay` writes is data and the call of `run.main`. Needs Python 3.9 and torch, as the harness does.
"""
