"""The measuring of one benchmark: warm-up, steadiness, latency, throughput, comparison.

Runs on Python 3.9 with torch alone, because that is what a machine with an NPU has. What only counts and sorts needs
not even torch.
"""
