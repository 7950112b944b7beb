"""Top-1: in how many rows the first choice of a classifier is still the one of the original, on the job's batches.

A row whose classes are all alike in the original is not counted: rounding alone decides there.
"""

from __future__ import annotations

from npulens.collectors.lab.gates.gate import Batches, NotForThis, Program

at_least = 0.99
#: The first choice leads by less than this share of all that lie between best and worst: a tie.
_TIE = 1e-4


def score(program: Program, batches: Batches) -> float:
    """The share of rows."""
    return agreement(program, batches, 2)


def agreement(program: Program, batches: Batches, dimensions: int) -> float:
    """The share of rows of the first result, which has so many dimensions, with the same largest number."""
    same = rows = 0
    for inputs, expected in batches:
        wanted = expected[0]
        if wanted.dim() != dimensions or not wanted.is_floating_point() or wanted.shape[-1] < 2:
            raise NotForThis(f"its first result has the shape {list(wanted.shape)}")
        best = wanted.double().topk(2, -1).values
        clear = best[..., 0] - best[..., 1] > _TIE * (best[..., 0] - wanted.double().amin(-1))
        found = program(inputs)[0].argmax(-1)
        same += int(((found == wanted.argmax(-1)) & clear).sum())
        rows += int(clear.sum())
    if not rows:
        raise NotForThis("the original decides in no row")
    return same / rows
