"""The job that faults are planted in: healthy, so that whatever a detector finds there is wrong.

It is bound by the device. Its steps take 70 to 150 ms, and their host needs a few ms. An input is ready when it is
asked for. Gradients are of adapters only, so that their all-reduce hides behind the backward pass. Kernels vary by
about one per cent. What is left, the moment after the loss is read, is below 0.5 % of the step.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from npulens.collectors.planting.fault import Capture, Fault
from npulens.collectors.simulator.config import SimConfig

RANKS = (1, 2, 2, 4, 4)
FORMATS = ("text", "text", "db", "db", "kineto")
LEVELS = (0, 1, 1, 2)
FREE = ("operator_details.csv", "op_statistic.csv", "api_statistic.csv", "npu_module_mem.csv", "memory_record.csv")
MINUTES_NS = 600 * 10**9


def base_config(draw: random.Random) -> SimConfig:
    """A healthy job of a size that is written and read in a second."""
    hidden = draw.choice((4096, 5120, 6144))
    layers = draw.choice((2, 3))
    tokens = draw.choice((4096, 6144, 8192))
    while _step_ms(hidden, layers, tokens) > 120:
        tokens -= 1024
    while _step_ms(hidden, layers, tokens) < 60:
        tokens += 1024
    return SimConfig(
        seed=draw.randrange(1 << 31),
        ranks=draw.choice(RANKS),
        steps=draw.choice((3, 4, 5)),
        layers=layers,
        hidden=hidden,
        tokens=tokens,
        first_step=draw.choice((3, 5, 10)),
        jitter=round(draw.uniform(0.002, 0.01), 4),
        negative_latency_rate=round(draw.uniform(0.0, 0.02), 4),
        trained=128,
        fused=True,
        loader_ns=30_000,
        l2_cache=False,
        keyed=True,
    )


def _step_ms(hidden: int, layers: int, tokens: int) -> float:
    """Roughly: 72 floating point operations per token, layer and square of the width."""
    return 72 * hidden * hidden * tokens * layers / 280e9


def capture_of(
    draw: random.Random, config: SimConfig, allowed: Mapping[str, Sequence[Any]]
) -> tuple[SimConfig, Capture]:
    """How the job was profiled: format, level, clocks, and what of it was kept."""
    kind = draw.choice([name for name in FORMATS if name in allowed["formats"]] or list(allowed["formats"]))
    level = draw.choice([level for level in LEVELS if level in allowed["levels"]] or list(allowed["levels"]))
    clocks = tuple(draw.choice((0, draw.randrange(10**4), draw.randrange(10**7))) for _ in range(config.ranks))
    if draw.random() < 0.1:  # hosts whose clocks nobody set
        clocks = tuple(draw.randrange(MINUTES_NS) for _ in range(config.ranks))
    ranks = tuple(range(config.ranks))
    if config.ranks > 2 and draw.random() < 0.3:
        ranks = tuple(sorted(draw.sample(ranks, draw.choice((2, 3)))))
    dropped = tuple(draw.sample(FREE, 2)) if kind == "text" and draw.random() < 0.3 else ()
    changes: dict[str, Any] = {"clock_offsets_ns": clocks, "frames": draw.random() < 0.8, "shapes": draw.random() < 0.9}
    changes |= {"memory": draw.random() < 0.7, "task_queue": kind != "kineto"}
    return replace(config, **changes), Capture(kind, 1 if kind == "kineto" else level, ranks, dropped)


def fit(
    config: SimConfig, capture: Capture, faults: Sequence[Fault], missing: int | None, skew_ns: int | None
) -> tuple[SimConfig, Capture]:
    """Keeps the ranks that the faults need kept, leaves out the ones they need left out, and as many as asked for."""
    needed = {fault.rank for fault in faults if fault.rank is not None and fault.captured}
    hidden = {fault.rank for fault in faults if fault.rank is not None and not fault.captured} - needed
    ranks = [rank for rank in range(config.ranks) if rank not in hidden and (rank in needed or rank in capture.ranks)]
    if missing is not None:
        ranks = [rank for rank in range(config.ranks) if rank not in hidden]
        free = [rank for rank in ranks if rank not in needed]
        ranks = [rank for rank in ranks if rank not in free[len(free) - max(0, missing - len(hidden)) :]]
    if not ranks:
        ranks = [rank for rank in range(config.ranks) if rank not in hidden][:1]
    if skew_ns is not None:
        config = replace(config, clock_offsets_ns=tuple(skew_ns * rank for rank in range(config.ranks)))
    elif config.pipeline > 1 or any(fault.changes.get("pipeline", 1) > 1 for fault in faults):
        # Stages that do not talk to each other are one run only where their clocks say so.
        config = replace(config, clock_offsets_ns=tuple(ns % 10**7 for ns in config.clock_offsets_ns))
    return config, replace(capture, ranks=tuple(ranks))
