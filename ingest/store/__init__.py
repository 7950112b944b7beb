"""Stored runs: opening, asking, exporting, redacting, deleting; notes about them and their history."""
