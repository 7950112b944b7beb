"""How much work each captured rank has on its device, kernel by kernel; no clocks are compared in that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: Kernels share one factor if so much of their time lies so near to it.
ALL, NEAR = 0.95, 0.1
_KERNELS = """
SELECT s.rank, s.name, count(*) AS n, sum(s.dur_ns)::BIGINT AS ns,
    sum(hash(coalesce(k.input_shapes, h.input_shapes, '')) % 1000003)::BIGINT AS shapes,
    count(coalesce(k.input_shapes, h.input_shapes)) AS shaped
FROM span s LEFT JOIN kernel k USING (span_id) LEFT JOIN host_op h ON h.span_id = k.op_span_id
WHERE s.kind = 'kernel' AND (s.step IS NOT NULL OR s.rank NOT IN (SELECT rank FROM step))
GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True)
class Work:
    """One row per rank, one column per name of a kernel; all per run."""

    ranks: tuple[int, ...]
    names: tuple[str, ...]
    count: Ints
    ns: Ints
    shapes: Ints  # a hash over the shapes of all; equal where the work is the same
    shaped: bool  # whether shapes were recorded on every rank

    def of(self, ranks: Sequence[int]) -> Work:
        """The same of some ranks."""
        rows = np.array([rank in ranks for rank in self.ranks], np.bool_)
        kept = tuple(rank for rank in self.ranks if rank in ranks)
        return Work(kept, self.names, self.count[rows], self.ns[rows], self.shapes[rows], self.shaped)

    def typical_ns(self, rank: int) -> Ints:
        """What the kernels of each name take on the other ranks: their median."""
        others = np.array([other != rank for other in self.ranks])
        return np.asarray(np.median(self.ns[others], axis=0)).astype(np.int64)

    def more_ns(self, rank: int, broad: float) -> Ints:
        """By how much the rank's kernels of each name take longer because there is more to do.

        More of the same is as many kernels with other shapes, or more kernels of most names. Without shapes it is most
        of the names longer (share `broad` of the time). One name alone that is longer, or is there in addition, is
        another trouble than unequal work.
        """
        row = self.ranks.index(rank)
        others = np.array([other != rank for other in self.ranks])
        own, typical = self.ns[row], self.typical_ns(rank)
        same_count = (self.count[others] == self.count[row]).all(axis=0)
        same_shapes = (self.shapes[others] == self.shapes[row]).all(axis=0)
        known = typical > 0
        longer = known & (own > typical) & ~(same_count & same_shapes if self.shaped else np.zeros_like(known))
        extra = np.where(longer, own - typical, 0)
        if int(own[longer].sum()) < broad * int(own[known].sum()):
            extra[:] = 0
        return np.asarray(extra)

    def one_factor(self, rank: int) -> float | None:
        """How many times as long all of the rank's kernels take, if it is one factor; None: they differ.

        Of names with as many kernels as on the other ranks, which have at least half of the time.
        """
        row = self.ranks.index(rank)
        others = np.array([other != rank for other in self.ranks])
        typical = self.typical_ns(rank)
        mine = np.flatnonzero((typical > 0) & (self.count[others] == self.count[row]).all(axis=0))
        ns = typical[mine]
        if 2 * ns.sum() < typical.sum() or not len(mine):
            return None
        times = self.ns[row][mine] / ns
        order = np.argsort(times, kind="stable")
        factor = float(times[order][np.searchsorted(2 * np.cumsum(ns[order]), ns.sum())])
        near = np.abs(times - factor) <= NEAR * factor
        return factor if ns[near].sum() >= ALL * ns.sum() else None


def work(run: Run) -> Work:
    """The run's kernels by rank and name."""
    rows: dict[str, NDArray[Any]] = run.columns(_KERNELS)
    rank = np.asarray(rows["rank"]).astype(np.int64)
    ranks, r = np.unique(rank, return_inverse=True)
    names, n = np.unique(rows["name"].astype(str), return_inverse=True) if len(rank) else (np.zeros(0, np.str_), rank)
    table = np.zeros((4, len(ranks), len(names)), np.int64)
    for index, column in enumerate(("n", "ns", "shapes", "shaped")):
        table[index, r, n] = np.asarray(rows[column]).astype(np.int64)
    count, ns, shapes, shaped = table
    every = bool(len(ranks)) and bool((shaped.sum(axis=1) > 0).all())
    return Work(tuple(ranks.tolist()), tuple(str(name) for name in names), count, ns, shapes, every)
