"""Faults planted into a simulated job, and the truth about them: what each costs, and where it shows."""
