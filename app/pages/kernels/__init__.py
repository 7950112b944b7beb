"""The page of kernels."""
