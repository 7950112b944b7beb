"""The page of operators on an NPU."""
