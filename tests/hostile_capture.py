"""A small Kineto capture whose every name tries to be markup, with a split that is easy to work out by hand."""

from __future__ import annotations

import json
from pathlib import Path

MARKUP = '<script>window.pwned=1</script><img src=x onerror="window.pwned=1">![x](http://evil.invalid/beacon.png)'

#: Step 1 lasts from its mark at 1000 us to the next at 1100 us.
#: kernel 1010-1040, NCCL 1030-1050 (10 us beyond the kernel), copy 1060-1070, nothing for the other 50 us.
STEP_1_NS = {"computing": 30_000, "communication": 10_000, "copy": 10_000, "idle": 50_000}
STEP_1_LENGTH_NS = 100_000


def write(path: Path) -> Path:
    """The capture as torch.profiler would write it."""
    path.write_text(json.dumps({
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": MARKUP}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4},
        "host_name": MARKUP,
        "traceEvents": [
            _event("user_annotation", "ProfilerStep#1", 1000, 100, 1, 1),
            _event("cpu_op", MARKUP, 1001, 5, 1, 1, {"External id": 1}),
            _event("user_annotation", "ProfilerStep#2", 1100, 50, 1, 1),
            _event("kernel", MARKUP, 1010, 30, 0, 7, {"stream": 7, "device": 0}),
            _event("kernel", "ncclDevKernel_AllReduce_" + MARKUP, 1030, 20, 0, 8, {"stream": 8, "device": 0}),
            _event("gpu_memcpy", "Memcpy HtoD " + MARKUP, 1060, 10, 0, 7, {"stream": 7, "device": 0, "bytes": 64}),
            _event("kernel", MARKUP, 1110, 20, 0, 7, {"stream": 7, "device": 0}),
        ],
    }), "utf-8")  # fmt: skip
    return path


def _event(
    cat: str, name: str, ts: int, dur: int, pid: int, tid: int, args: dict[str, object] | None = None
) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args or {}}
