"""A simulated job written as profilers write it: torch_npu text and databases, Kineto."""
