"""One file is one gate: a number that has to stay high whatever is done to a program. gate.py says what it holds."""
