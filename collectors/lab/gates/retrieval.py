"""Retrieval, R@1: how often the nearest of the second result's rows to a row of the first is the one it belongs to.

For programs whose first two results are embeddings of pairs, row by row. A loss of half a point is allowed.
"""

from __future__ import annotations

from npulens.collectors.lab.gates.gate import Batches, NotForThis, Program

K = 1


def at_least(original: float) -> float:
    """Half a point below the original."""
    return original - 0.005


def score(program: Program, batches: Batches) -> float:
    """The share of rows whose own partner is among the nearest ``K``."""
    import torch

    found = rows = 0
    for inputs, _ in batches:
        results = program(inputs)
        if len(results) < 2 or results[0].dim() != 2 or results[0].shape != results[1].shape or len(results[0]) <= K:
            raise NotForThis("its first two results are no two lists of embeddings")
        one, two = (torch.nn.functional.normalize(each.double(), dim=-1) for each in results[:2])
        nearest = (one @ two.T).topk(K, -1).indices
        own = torch.arange(len(one), device=one.device)[:, None]
        found += int((nearest == own).any(-1).sum())
        rows += len(one)
    return found / rows
