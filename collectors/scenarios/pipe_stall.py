"""Kernels wait: the pipe that should be busy is not.

Planted on one type of kernel, on one rank or on all, in one of three ways. All pipes are idle for most of the time, as
without double buffering. Or the scalar unit computes addresses while they wait. Or a matrix product moves its inputs
again and again while the cube waits, as with a poor tiling. The work of the other pipes stays, so that they are busy
for a smaller part of a longer time. It shows in the counters of PipeUtilization, from Level1 on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.edit import busy_ns, kernels_ns, launches
from npulens.collectors.planting.fault import Fault, Item, SimConfig
from npulens.collectors.simulator.items import KernelSpec, Launch
from npulens.collectors.simulator.pmu import CUBE, VECTOR, Pipes

CAUSE = "pipe_stall"
ALSO = ()
FORMATS = ("text", "db")
LEVELS = (1, 2)

KINDS = ("MatMulV2", "FlashAttentionScore", "FlashAttentionScoreGrad", "GeluGrad", "Gelu", "ReduceSum", "SwiGluGrad")
WAYS = ("idle", "scalar", "moving")
FACTORS = (1.8, 2.2, 3.0, 4.0, 6.0)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    costs, busy = kernels_ns(config), busy_ns(config)
    choices = [
        (kind, factor) for kind in KINDS if kind in costs for factor in FACTORS
        if 0.03 * busy < costs[kind] * (factor - 1) < 0.8 * busy
    ]  # fmt: skip
    kind, factor = draw.choice(choices)
    way = draw.choice(WAYS if kind == "MatMulV2" else WAYS[:2])
    rank = draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        return items if rank is not None and at != rank else [_stalled(item) for item in items]

    def _stalled(item: Item) -> Item:
        if not (isinstance(item, Launch) and launches(item, kind)):
            return item
        return replace(item, kernels=tuple(_slow(kernel) if kernel.op_type == kind else kernel
                                           for kernel in item.kernels))  # fmt: skip

    def _slow(kernel: KernelSpec) -> KernelSpec:
        return replace(kernel, base_ns=int(kernel.base_ns * factor), busy=_pipes(way, factor))

    return Fault(CAUSE, ALSO, rank, edit=edit)


def _pipes(way: str, factor: float) -> Pipes:
    """The pipes of a kernel that takes so many times as long for the same work."""
    found = {pipe: round(share / factor, 3) for pipe, share in (*VECTOR, *CUBE)}
    if way == "scalar":
        found["scalar"] = 0.8
    if way == "moving":
        found["mte2"] = 0.93
    return tuple(found.items())
