"""Sixty nights through the real command, with what happened in them known beforehand."""
