"""A folder of detectors for tests that need every outcome, whatever ours say, and a run for them to judge.

The run is 10 steps of 100 us on rank 0. In each the host spends 40 us in an operator called `name`, then launches a
kernel of 40 us and a copy of 10 us, which the device has done before the next step. `longest` finds the operator: all
of it is in the step's way, so without it each step is 40 us shorter. `quiet` finds nothing, `blind` needs what the run
does not have, `broken` raises.
"""

from __future__ import annotations

import json
from pathlib import Path

HEAD = '''"""{name}"""
from dataclasses import dataclass
import numpy as np
from npulens.analysis.finding import Candidate, Change, Evidence, Words
from npulens.analysis.intervals import Intervals
from npulens.analysis.limits import Limits as Base, limit
NEEDS = {needs}
@dataclass(frozen=True)
class Limits(Base):
    most: float = limit(5, "findings", "made up for this test")
TEXT = {{"en": {{"found": Words("{{name}} runs {{length_ns}} of each step", "Make {{name}} faster")}},
        "zh": {{"found": Words("{{name}} 每步耗时 {{length_ns}}", "让 {{name}} 更快")}}}}
def detect(db, run, limits):
'''
FINDS = """    sql = "SELECT rank, ts_ns, dur_ns, span_id, name FROM span WHERE kind = 'cpu_op' ORDER BY ts_ns"
    rows = db.execute(sql).fetchall()
    starts, ns = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    numbers = {"name": rows[0][4], "length_ns": int(ns.sum()) // run.step_count, "late_rank": 3}
    windows = Intervals.union_of(starts, starts + ns)
    yield Candidate("slow_tail", "found", numbers, tuple(Evidence(*row) for row in rows), Change(host={0: windows}))
"""
BODIES = {
    "blind": ('("memory_events",)', "    return iter(())\n"),
    "broken": ("()", '    raise RuntimeError("it broke")\n'),
    "longest": ("()", FINDS),
    "quiet": ("()", "    return iter(())\n"),
}

STEPS, STEP_NS, OPERATOR_NS = 10, 100_000, 40_000


def folder(place: Path) -> Path:
    """npulens.toml that leaves out our own detectors and names these."""
    from npulens.analysis.discovery import detectors
    from npulens.analysis.settings import DEFAULT

    own = place / "own"
    own.mkdir(exist_ok=True)
    for name, (needs, body) in BODIES.items():
        (own / f"{name}.py").write_text(HEAD.format(name=name, needs=needs) + body, "utf-8")
    off = [detector.name for detector in detectors(DEFAULT)]
    config = place / "npulens.toml"
    config.write_text(f'[detectors]\noff = {json.dumps(off)}\nfolder = "own"\n', "utf-8")
    return config


def capture(path: Path, name: str, steps: int = STEPS) -> Path:
    """The run as torch.profiler would write it."""
    events = []
    for step in range(steps):
        at = 1000 + step * 100
        events += [
            _event("user_annotation", f"ProfilerStep#{step}", at, 100, 1, {}),
            _event("cpu_op", name, at + 1, 40, 1, {}),
            _event("cuda_runtime", "cudaLaunchKernel", at + 42, 2, 1, {"correlation": 2 * step + 1}),
            _event("kernel", "matmul", at + 45, 40, 7, {"stream": 7, "device": 0, "correlation": 2 * step + 1}),
            _event("cuda_runtime", "cudaMemcpyAsync", at + 45, 2, 1, {"correlation": 2 * step + 2}),
            _event("gpu_memcpy", "Memcpy HtoD", at + 85, 10, 7,
                   {"stream": 7, "device": 0, "bytes": 64, "correlation": 2 * step + 2}),
        ]
    path.write_text(json.dumps({
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "device"}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4}, "traceEvents": events,
    }), "utf-8")  # fmt: skip
    return path


def _event(cat: str, name: str, ts: int, dur: int, tid: int, args: dict[str, object]) -> dict[str, object]:
    pid = 0 if cat in ("kernel", "gpu_memcpy") else 1
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args}
