"""The findings of a run put together, and what the workspace shows of each."""
