"""Token agreement: at how many positions a model of text still prefers the token that the original prefers."""

from __future__ import annotations

from npulens.collectors.lab.gates.gate import Batches, Program
from npulens.collectors.lab.gates.top1 import agreement

at_least = 0.99


def score(program: Program, batches: Batches) -> float:
    """The share of positions."""
    return agreement(program, batches, 3)
