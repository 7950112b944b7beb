"""Accesses of Triton kernels outside their tensors, or unaligned: in Triton's interpreter, or by a device's tool."""
