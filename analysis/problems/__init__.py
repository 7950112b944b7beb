"""The findings of a run as the workspace shows them."""
