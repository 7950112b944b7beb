"""Hostile files, made from seeds, and a runner that loads each one the way everybody's files are loaded.

One file here is one family of files; `python -m tests.hostile` loads them all and prints what became of them.
"""
