"""Small captures as torch.profiler writes them: steps of kernels, one after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

#: Between kernels, and before the first and behind the last of a step, in ns.
PAUSE_NS = 2_000


def capture(
    path: Path, steps: Sequence[Sequence[tuple[str, int]]], device: str = "Ascend910B3", rank: int | None = None
) -> Path:  # fmt: skip
    """Each step is its kernels: name and ns."""
    events: list[dict[str, object]] = []
    at, number = 1_000_000, 0
    for step, kernels in enumerate(steps):
        begin = at
        for name, ns in kernels:
            at += PAUSE_NS
            args = {"stream": 7, "device": 0, "correlation": number}
            events.append({"ph": "X", "cat": "kernel", "name": name, "ts": at / 1000, "dur": ns / 1000, "pid": 0,
                           "tid": 7, "args": args})  # fmt: skip
            at, number = at + ns, number + 1
        at += PAUSE_NS
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begin / 1000,
                       "dur": (at - begin) / 1000, "pid": 1, "tid": 1, "args": {}})  # fmt: skip
    said = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": device}], "traceEvents": events}
    path.write_text(json.dumps(said | ({} if rank is None else {"distributedInfo": {"rank": rank}})), "utf-8")
    return path


def varied(kernels: Sequence[tuple[str, int]], steps: int, factor: float = 1.0) -> list[list[tuple[str, int]]]:
    """Steps in which every kernel differs from its usual time by up to 3 per mille, each in its own way."""
    return [
        [(name, round(ns * factor * (1 + ((step * 7 + place * 5) % 13 - 6) / 2000))) for place, (name, ns) in
         enumerate(kernels)] for step in range(steps)
    ]  # fmt: skip
