"""The page of benchmarks."""
