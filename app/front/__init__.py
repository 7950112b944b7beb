"""npulens: where the time of a job goes, and what gives the most of it back.

This file is the package `npulens` itself; setup.py puts it above the folders of the repository.
"""
