"""Hundreds of before/after pairs of simulated captures with one planted change each: what compare makes of them."""
