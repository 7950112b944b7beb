"""One file, one workload."""
