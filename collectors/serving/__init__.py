"""A serving engine without a device: continuous batching in virtual time, faults planted into it, and its files."""
