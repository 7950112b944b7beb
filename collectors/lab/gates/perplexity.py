"""Perplexity of a model of text over the job's own texts, with its sign turned: the higher the better.

The first tensor of whole numbers that comes in is the text; what a mask of the same shape hides is not counted. A loss
of one percent is allowed.
"""

from __future__ import annotations

from typing import Any

from npulens.collectors.lab.gates.gate import Batches, NotForThis, Program


def at_least(original: float) -> float:
    """One percent worse than the original."""
    return original - 0.01 * abs(original)


def score(program: Program, batches: Batches) -> float:
    """Minus the exponential of the mean loss of the next token."""
    import torch

    loss, count = 0.0, 0
    for inputs, expected in batches:
        text, mask = _text(inputs, expected)
        told = torch.log_softmax(program(inputs)[0].double()[:, :-1], -1)
        next_ones = told.gather(-1, text[:, 1:, None])[..., 0]
        counts = torch.ones_like(next_ones, dtype=torch.bool) if mask is None else mask[:, 1:] != 0
        loss -= float(next_ones[counts].sum())
        count += int(counts.sum())
    if not count:
        raise NotForThis("its texts have no second token")
    return -float(torch.exp(torch.tensor(loss / count, dtype=torch.float64)))


def _text(inputs: tuple[Any, ...], expected: tuple[Any, ...]) -> tuple[Any, Any]:
    import torch

    whole = [each for each in inputs if each.dtype in (torch.int64, torch.int32) and each.dim() == 2]
    if not whole or expected[0].dim() != 3 or expected[0].shape[:2] != whole[0].shape:
        raise NotForThis("it does not give a distribution for each token of a text")
    if int(whole[0].max()) >= expected[0].shape[-1]:
        raise NotForThis("its texts have tokens that it has no probability for")
    others = [each for each in inputs if each is not whole[0] and each.shape == whole[0].shape]
    mask = next((each for each in others if bool(((each == 0) | (each == 1)).all())), None)
    return whole[0].long(), mask
