"""One recording with what its maker knows of it: when its steps began and ended, by whom, and what was planted.

torch.profiler is asked twice. Beside the trace that it writes, its events are read from memory and written down by us:
two exports of one recording, as torch_npu writes text and a database.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from npulens.collectors import profilers
from npulens.collectors.backends.backend import Backend
from npulens.collectors.settings import Settings

_NOTHING: Mapping[str, Any] = {}
TRUTH, SECOND, TRACES = "truth.json", "second.json", "capture"


def record(
    home: Path, backend: Backend, settings: Settings, step: Callable[[int], None], about: Mapping[str, Any] = _NOTHING
) -> dict[str, Any]:  # fmt: skip
    """Records the steps; what was written beside the trace. ``step`` gets the number of the step, from 0."""
    traces, ready = home / TRACES, [False]
    left_out: list[str] = []
    traces.mkdir(parents=True, exist_ok=_rank() is not None)
    theirs = backend.name == "npu"
    wanted = replace(settings, defer=not theirs)

    def written() -> None:
        ready[0] = True

    begun = _now()
    profiler = profilers.make(backend.name, wanted, traces, written, left_out)
    profiler.start()
    steps = []
    try:
        for number in range(settings.steps):
            first = time.time_ns()
            step(number)
            backend.synchronize()
            steps.append([first, time.time_ns()])
            profiler.step()
    finally:
        profiler.stop()
    second = None
    if not theirs and profiler.kept is not None:
        second = _events(profiler.kept)
        profiler.write_out()
    ended = _now()
    if not ready[0]:
        raise RuntimeError("the profiler ended without writing a trace")
    told = {
        "pid": os.getpid(), "rank": _rank(), "backend": backend.name, "settings": asdict(settings),
        "left_out": left_out, "begun": begun, "ended": ended, "steps": steps[-settings.active :], **about,
    }  # fmt: skip
    if second is not None:
        (home / _ranked(SECOND)).write_text(json.dumps(second), encoding="utf-8")
    (home / _ranked(TRUTH)).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return told


def _events(profile: Any) -> list[list[Any]] | None:
    """Name, start and length in ns of every event in the profiler's memory; older releases tell microseconds only."""
    found = profile.profiler.kineto_results.events()
    if found and not hasattr(found[0], "start_ns"):
        return None
    return [[each.name(), each.start_ns(), each.duration_ns()] for each in found]


def _now() -> dict[str, int]:
    """The wall clock and the clock that counts from the start of the machine, read together."""
    return {"wall_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}


def _rank() -> int | None:
    told = os.environ.get("RANK", "")
    return int(told) if told.isdecimal() else None


def _ranked(name: str) -> str:
    """A name of its own for each process of a job of several."""
    rank = _rank()
    stem, _, suffix = name.partition(".")
    return name if rank is None else f"{stem}_{rank}.{suffix}"
