"""The roofs of a device: how fast it can multiply, compute and move, and which of them a kernel meets.

Peaks come from analysis/device/device_facts.toml. What no source gives is taken from the machine itself, where its
roofs were measured before the capture (`npulens doctor --roofs`). A processor has no others. What neither gives is
None, and nothing is judged by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from npulens.analysis.device.abilities import Device, Measured
from npulens.analysis.work.families import Work

#: Kernels that multiply fp32 in the shorter TF32 say so in their names.
_TF32 = re.compile(r"tf32|xf32|s1688", re.IGNORECASE)
#: Backends whose peak for fp32 is that of the ordinary cores, where these have none of their own.
_ORDINARY = ("cuda", "rocm")


@dataclass(frozen=True)
class Roofs:
    """Operations and bytes per second; None where no source says it."""

    device: str
    matrix: Mapping[str, float]  # by precision
    vector: float | None
    memory: float | None
    sources: tuple[str, ...]
    measured: Measured | None = None
    own: tuple[str, ...] = ()  # which roofs are measured ones: precisions, and "memory"

    def least_ns(self, work: Work, precision: str | None) -> Least:
        """How long the work takes at least by each roof."""
        peak = self.matrix.get(precision or "")
        return Least(
            _ns(work.matrix, peak), _ns(work.vector, self.vector), _ns(work.bytes, self.memory),
            work.matrix in (0, None) or peak is not None,
        )  # fmt: skip


@dataclass(frozen=True)
class Least:
    """Time by each roof, in ns; None where the roof or the work is not known."""

    matrix: float | None
    vector: float | None
    memory: float | None
    matrix_known: bool

    @cached_property
    def ns(self) -> float | None:
        """By the lowest roof of those that are known."""
        known = [one for one in (self.matrix, self.vector, self.memory) if one is not None]
        return max(known) if known and max(known) > 0 else None

    @property
    def complete(self) -> bool:
        """Whether both roofs that can bind are known: that of the matrix units and that of memory."""
        return self.matrix is not None and self.matrix_known and self.memory is not None

    @property
    def bound(self) -> str | None:
        """Which roof is the lowest; None unless both are known."""
        if not self.complete or self.ns is None:
            return None
        return "memory" if self.memory == self.ns else "compute"


def roofs(device: Device | None, backend: str) -> Roofs | None:
    """What is known of a device; None where nothing is."""
    if device is None:
        return None
    matrix, memory, measured, own = dict(device.flops), device.memory_bytes_per_s, device.measured, []
    if measured is not None:
        own = [name for name in measured.flops if name not in matrix]
        matrix |= {name: measured.flops[name] for name in own}
        if memory is None and measured.memory_bytes_per_s is not None:
            memory, own = measured.memory_bytes_per_s, [*own, "memory"]
    vector = device.vector.get("fp32") or max(device.vector.values(), default=None)
    if backend in _ORDINARY:
        vector = vector or device.flops.get("fp32")
    elif memory is None:  # by itself it says next to nothing: memory binds long before
        vector = None
    return Roofs(device.name, matrix, vector, memory, device.sources, measured, tuple(own))


def precision(work: Work, kernel: str, backend: str, hf32: bool) -> str | None:
    """In which precision the matrix units computed: that of the inputs, unless the kernel or the profiler says less."""
    if work.dtype != "fp32":
        return work.dtype
    if backend == "npu":
        return "hf32" if hf32 else "fp32"
    return "tf32" if _TF32.search(kernel) else "fp32"


def _ns(amount: int | None, per_second: float | None) -> float | None:
    if amount == 0:
        return 0.0
    return None if amount is None or per_second is None else amount * 1e9 / per_second
