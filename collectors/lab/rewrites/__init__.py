"""One file is one rewrite. Its name is how it is asked for; rewrite.py says what it holds."""
