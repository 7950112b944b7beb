"""What bounds a program here: its operators beside the roofs that were measured on this machine.

Operations and bytes are counted, times are measured, and roofs come from ``npulens doctor --roofs``. Without them there
are no bounds: no speed of a machine is assumed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from npulens.collectors.backends.backend import Backend
from npulens.collectors.doctor import roofs
from npulens.collectors.lab import calls

#: Runs whose calls are timed.
ROUNDS = 7


@dataclass(frozen=True)
class Bound:
    """Operators of one name: what they do in a call of the program, what they take, and what they could not beat."""

    operator: str
    kind: str
    calls: int
    launches: int
    ns: float
    share: float  # of all calls together
    flops: int
    moved: int  # bytes
    least_ns: float | None
    bound: str | None  # compute, memory, launch
    of_roof: float | None


def bounds(program: Any, batch: Sequence[Any], backend: Backend, kept: Mapping[str, Any] | None) -> list[Bound]:
    """The operators of one call of a graph, those that take the most first."""
    found = [call for call in calls.heard(program, batch) if call.kind != calls.VIEW]
    runs = [_timed(program, batch, backend) for _ in range(ROUNDS + 1)][1:]  # the first one builds kernels
    dtype = next((str(each.dtype)[6:] for each in program.parameters() if each.is_floating_point()), "float32")
    groups: dict[str, list[calls.Call]] = {}
    for call in found:
        groups.setdefault(call.name, []).append(call)
    ns = {name: statistics.median(run.get(name, 0) for run in runs) for name in groups}
    total = sum(ns.values()) or 1.0
    told = []
    for name, some in groups.items():
        flops, moved, launches = (sum(getattr(call, part) for call in some) for part in ("flops", "moved", "launches"))
        least, bound = _least(kept, dtype, flops, moved, launches)
        told.append(Bound(name, some[0].kind, len(some), launches, ns[name], ns[name] / total, flops, moved, least,
                          bound, None if least is None or not ns[name] else least / ns[name]))  # fmt: skip
    return sorted(told, key=lambda each: -each.ns)


def _timed(program: Any, batch: Sequence[Any], backend: Backend) -> dict[str, int]:
    run = _Run(program, backend)
    with torch.no_grad():
        run.run(tuple(each.clone() for each in batch))
    return run.ns


class _Run(torch.fx.Interpreter):  # type: ignore[misc]  # mypy does not look into torch
    """What the operators of each name take on the wall, with the threads that the roofs were measured with."""

    def __init__(self, program: Any, backend: Backend) -> None:
        super().__init__(program)
        self._backend = backend
        self.ns: dict[str, int] = {}

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        self._backend.synchronize()
        begun = time.perf_counter_ns()
        found = target(*args, **kwargs)
        self._backend.synchronize()
        name = calls.plain_name(target)
        self.ns[name] = self.ns.get(name, 0) + time.perf_counter_ns() - begun
        return found


def _least(kept: Mapping[str, Any] | None, dtype: str, flops: int, moved: int, launches: int) -> tuple[Any, Any]:
    """The least time by the roofs, and by which; nothing where they are not known."""
    if kept is None:
        return None, None
    best = {(each["kind"], each["name"]): each["best"] for each in kept["roofs"]}
    peak = best.get(("matmul", roofs.TYPES.get(dtype, dtype)))
    memory = max((rate for (kind, _), rate in best.items() if kind == "memory"), default=None)
    launch = next((ns for (kind, _), ns in best.items() if kind == "launch"), None)
    if not peak or not memory or launch is None:
        return None, None
    told = {"compute": flops * 1e9 / peak, "memory": moved * 1e9 / memory, "launch": launches * launch}
    bound = max(told, key=lambda name: told[name])
    return told[bound], bound
