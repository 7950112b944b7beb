"""The device: what it can do, and every kernel that ran on it."""
