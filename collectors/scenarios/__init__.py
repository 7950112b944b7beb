"""Faults with a known answer: one file plants one cause into the simulated job, and the truth says what it costs.

A file here is found by itself; its docstring says what the fault is and how it shows. ``_fault.py`` says what it holds.
"""
