"""What would bound a program on a chip by the chip's facts: an order of magnitude that nothing runs faster than.

Peaks are those of the fact file, each with its source. No operator reaches them, and nothing here was run on a chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npulens.analysis.device.abilities import Model, models

#: Bytes of a number, by precision.
_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True)
class Work:
    """What the operators of one name do."""

    flops: int
    moved: int  # bytes


@dataclass(frozen=True)
class Bound:
    """A program on one chip: the least time of all its operators one by one, and how much of it multiplies."""

    chip: str
    precision: str  # that of the program, or a shorter one where the chip has no peak of that
    least_ns: int
    compute_ns: int  # of the operators that compute bounds
    source: str


def chips() -> list[Model]:
    """Those with peaks and a memory's speed."""
    return [model for model in models() if model.facts.get("flops") and model.facts.get("memory_bytes_per_s")]


def chip(name: str) -> Model | None:
    """The chip of that name."""
    return next((one for one in chips() if name in (one.model, one.model.removeprefix("Ascend"))), None)


def bounded(work: Sequence[Work], precision: str, model: Model) -> Bound | None:
    """``precision`` is the program's; None where the chip has a peak of neither that nor a shorter one."""
    there = [name for name in dict.fromkeys((precision, "bf16", "fp16")) if name in model.facts["flops"]]
    if not there or precision not in _BYTES:
        return None
    peak, speed = float(model.facts["flops"][there[0]]), float(model.facts["memory_bytes_per_s"])
    smaller = _BYTES[there[0]] / _BYTES[precision]
    pairs = [(one.flops * 1e9 / peak, one.moved * smaller * 1e9 / speed) for one in work]
    least, compute = sum(map(max, pairs)), sum(first for first, second in pairs if first > second)
    return Bound(model.model, there[0], round(least), round(compute), model.source)
