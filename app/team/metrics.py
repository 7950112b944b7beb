"""What a server counts of itself, as Prometheus reads it, and its log: one line of JSON for a request."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from npulens.app.team.who import Visitor

#: Upper ends of what an answer may have taken, in seconds.
_ENDS = (0.005, 0.02, 0.1, 0.5, 1.5, 5.0, 30.0)
_lock = Lock()
_answers: Counter[tuple[str, str]] = Counter()
_took: Counter[int] = Counter()
_seconds = [0.0]
_refusals: Counter[str] = Counter()
_open: Counter[str] = Counter()
_BEGAN = time.time()


@contextmanager
def open_of(kind: str) -> Iterator[None]:
    """Counts a request or a websocket while it is open."""
    with _lock:
        _open[kind] += 1
    try:
        yield
    finally:
        with _lock:
            _open[kind] -= 1


def answered(kind: str, status: int, took: float) -> None:
    """Counts an answer; how long it took, where it is not a websocket that stays."""
    with _lock:
        _answers[kind, f"{status // 100}xx" if status else "none"] += 1
        if kind == "http":
            _took[bisect_left(_ENDS, took)] += 1
            _seconds[0] += took


def refused(key: str) -> None:
    """Counts a refusal by its reason."""
    with _lock:
        _refusals[key] += 1


def log(scope: Mapping[str, Any], status: int, took: float, request: str, visitor: Visitor, why: str) -> None:
    """One line on standard error. No query and no token: an address of Perfetto's windows holds one."""
    path = str(scope["path"])
    said = {
        "at": round(time.time(), 3), "request": request, "kind": scope["type"], "method": scope.get("method"),
        "path": "/perfetto/window/..." if "/perfetto/window/" in path else path, "status": status,
        "ms": round(took * 1e3, 1), "who": visitor.name, "by": visitor.by, "refused": why or None,
    }  # fmt: skip
    print(json.dumps({key: value for key, value in said.items() if value not in (None, "")}), file=sys.stderr)


def text(gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> str:
    """Everything in Prometheus' text format. ``gauges``: name -> what it is, and a value for each set of labels."""
    with _lock:
        lines = list(_counted())
    for name, (what, values) in {**_process(), **gauges}.items():
        lines += [*_head(name, what, "gauge")]
        lines += [f"npulens_{name}{labels} {value:.15g}" for labels, value in values.items()]
    return "\n".join(lines) + "\n"


def label(name: str, value: str) -> str:
    """One label, escaped."""
    plain = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{{name}="{plain}"}}'


def _counted() -> Iterator[str]:
    yield from _head("answers_total", "Answers by kind and class of status.")
    for (kind, status), n in sorted(_answers.items()):
        yield f'npulens_answers_total{{kind="{kind}",status="{status}"}} {n}'
    yield from _head("refusals_total", "Refused requests by reason.")
    for key, n in sorted(_refusals.items()):
        yield f"npulens_refusals_total{label('reason', key)} {n}"
    yield from _head("answer_seconds", "How long answers took.", "histogram")
    below = 0
    for place, end in enumerate(_ENDS):
        below += _took[place]
        yield f'npulens_answer_seconds_bucket{{le="{end}"}} {below}'
    total = sum(_took.values())
    yield f'npulens_answer_seconds_bucket{{le="+Inf"}} {total}'
    yield f"npulens_answer_seconds_sum {_seconds[0]:.6f}"
    yield f"npulens_answer_seconds_count {total}"


def _head(name: str, what: str, kind: str = "counter") -> tuple[str, str]:
    return f"# HELP npulens_{name} {what}", f"# TYPE npulens_{name} {kind}"


def _process() -> dict[str, tuple[str, dict[str, float]]]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if os.path.exists("/proc/self/statm") else 0
    return {
        "open": ("Open requests and websockets.", {label("kind", kind): n for kind, n in sorted(_open.items())}),
        "up_seconds": ("Seconds since the server began.", {"": time.time() - _BEGAN}),
        "cpu_seconds": ("Processor time of the server's process.", {"": used.ru_utime + used.ru_stime}),
        "memory_bytes": ("Memory of the server's process.", {"": float(pages * resource.getpagesize())}),
        "open_files": ("Open files of the server's process.", {"": float(len(os.listdir("/proc/self/fd")))})
        if os.path.isdir("/proc/self/fd") else ("Open files of the server's process.", {}),
        "python_blocks": ("Blocks of Python's own memory that are in use.", {"": float(sys.getallocatedblocks())}),
        "heap_bytes": ("Memory in use that libraries took of the C library.", _heap()),
    }  # fmt: skip


def _heap() -> dict[str, float]:
    """By mallinfo2 of glibc: small pieces of every arena, and large ones that are mapped alone."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return {}
    ask.restype = _MallInfo
    told: _MallInfo = ask()
    return {"": float(told.uordblks + told.hblkhd)}


class _MallInfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    ))  # fmt: skip
