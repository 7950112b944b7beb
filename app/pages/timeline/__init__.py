"""The page of the timeline."""
