"""Sentences that must and must not be said of real captures, and what decides whether they are."""
