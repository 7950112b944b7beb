"""The page of hardware counters."""
