"""Nights that compare commits: the gate of a pull request, and the search for the commit that made a task slower."""
