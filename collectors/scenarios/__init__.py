"""Faults with a known answer: one file plants one cause into the simulated job, and the truth says what it costs.

A file here is found by its name. Its docstring says what the fault is and how it shows. What a file must hold is
described in ``collectors/planting/fault.py``.
"""
