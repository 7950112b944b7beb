"""What the owner of a device runs once, so that others can believe what is said of it."""
