"""Which types of kernels have the time that kernels take on a device, all ranks and steps together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import kernels
from npulens.analysis.run import Run

#: Types that are told; the others are told together.
SHOWN = 3


@dataclass(frozen=True)
class TypeTime:
    """All kernels of a type."""

    type: str
    ns: int
    kernels: int


@dataclass(frozen=True)
class KernelTime:
    """The time of the kernels of all ranks and steps; kernels that run at once count each."""

    whole_ns: int
    per: int  # steps of all ranks that the time is of
    most: tuple[TypeTime, ...]  # the largest first
    others: int  # types that are not among them
    others_ns: int

    def as_dict(self) -> dict[str, Any]:
        return {
            "whole_ns": self.whole_ns, "per": self.per, "types": [vars(one) for one in self.most],
            "others": self.others, "others_ns": self.others_ns,
        }  # fmt: skip


def kernel_time(run: Run) -> KernelTime | None:
    """None where no kernel of a device was recorded, and where the operators of a CPU stand for them."""
    every = run.get(kernels)
    counts = (every.step >= 0) | ~np.isin(every.rank, [rank for rank in run.ranks if run.steps[rank]])
    rows = np.flatnonzero(every.of(~every.kinds.memset) & counts)
    whole = int(every.dur[rows].sum())
    if run.get(family) == "cpu" or not whole:
        return None
    known: dict[str, int] = {}
    of = every.kinds.types.map(lambda name: known.setdefault(name, len(known))).ints()[every.kind[rows]]
    ns = np.zeros(len(known), np.int64)
    np.add.at(ns, of, every.dur[rows])
    count = np.bincount(of, minlength=len(known))
    order = np.argsort(-ns, kind="stable")
    order = order[count[order] > 0]
    names = list(known)
    most = tuple(TypeTime(names[one], int(ns[one]), int(count[one])) for one in order[:SHOWN].tolist())
    rest = order[SHOWN:]
    ranks = len(np.unique(every.rank[rows]))
    return KernelTime(whole, run.step_count * ranks, most, len(rest), int(ns[rest].sum()))
