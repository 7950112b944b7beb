"""Span and track numbers that a browser can hold.

A number carries its rank in the bits above 44 (spans) or 22 (tracks). JavaScript counts exactly to 2**53 and a track
travels in 32 bits. So ranks from 512 on borrow a number below that no rank of the run has, from 511 downwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

SPAN_BITS, TRACK_BITS = 44, 22
_SAFE = 512


class Slots:
    """The numbers of one run's ranks on the wire, and back."""

    def __init__(self, ranks: Iterable[int]) -> None:
        every = sorted(set(ranks))
        taken = {rank for rank in every if 0 <= rank < _SAFE}
        free = (slot for slot in range(_SAFE - 1, -1, -1) if slot not in taken)
        self._slot = {rank: rank if rank in taken else slot for rank, slot in _lend(every, taken, free)}
        self._rank = {slot: rank for rank, slot in self._slot.items()}
        self.plain = all(rank == slot for rank, slot in self._slot.items())

    def out(self, values: Any, bits: int) -> Any:
        """Numbers of the store as they travel: one, or an array of them. Negative ones (gap tracks) stay."""
        if self.plain:
            return values
        if isinstance(values, int):
            return self._moved(values, bits, self._slot)
        return np.array([self._moved(int(value), bits, self._slot) for value in values], np.int64)

    def back(self, value: int, bits: int) -> int:
        """A number from the wire as the store has it; one of the store's own is taken as it is."""
        return value if self.plain or value >> bits in self._slot else self._moved(value, bits, self._rank)

    @staticmethod
    def _moved(value: int, bits: int, to: dict[int, int]) -> int:
        if value < 0:
            return value
        return (to.get(value >> bits, value >> bits) << bits) | (value & ((1 << bits) - 1))


def _lend(ranks: list[int], taken: set[int], free: Any) -> list[tuple[int, int]]:
    return [(rank, rank if rank in taken else next(free, rank)) for rank in ranks]
