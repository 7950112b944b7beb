"""Which sizes to pad to: the edges that waste the least over the job's own mix of sizes."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence


def edges(counts: Mapping[int, int], most: int) -> tuple[int, ...]:
    """The sizes to pad to, ``most`` of them at most: the sum over all calls of what each is padded to is the least.

    Every size goes to the next edge above it, so edges are sizes of the mix and the last one is the largest.

    >>> edges({10: 5, 11: 5, 100: 1}, 2)
    (11, 100)
    """
    sizes = sorted(counts)
    if most < 1 or not sizes:
        raise ValueError("at least one size, and one edge")
    calls = [0]
    for size in sizes:
        calls.append(calls[-1] + counts[size])
    # best[end]: (work, edges) of the sizes up to and including that one, padded to so many edges.
    best: list[tuple[int, tuple[int, ...]]] = [(calls[end + 1] * size, (size,)) for end, size in enumerate(sizes)]
    for _ in range(most - 1):
        better = []
        for end, size in enumerate(sizes):
            cuts = ((best[cut][0] + (calls[end + 1] - calls[cut + 1]) * size, (*best[cut][1], size))
                    for cut in range(end))  # fmt: skip
            better.append(min([best[end], *cuts]))
        best = better
    return best[-1][1]


def edge(size: int, at: Sequence[int]) -> int:
    """The edge that a size is padded to."""
    return at[bisect.bisect_left(at, size)]


def padded(counts: Mapping[int, int], at: Sequence[int]) -> float:
    """What is computed more than without padding, as a share."""
    real = sum(size * calls for size, calls in counts.items())
    return sum(edge(size, at) * calls for size, calls in counts.items()) / real - 1.0 if real else 0.0
