"""What an operator has to do at least, what its device can do at most, and how the two compare."""
