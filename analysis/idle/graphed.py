"""What is in a graph or was compiled already: advice to do so would be about a job that does not run."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from npulens.analysis.idle.issue import launches, tasks
from npulens.analysis.intervals import Intervals
from npulens.analysis.run import Run

#: Names of frames and ranges in which code runs that torch.compile made.
_MADE = r"^nn\.Module: OptimizedModule_|torch/_inductor/|Torch-Compiled Region|\bCompiledFxGraph\b|\bCompiledFunction\b"
_FRAME = re.compile(r"\.py\(\d+\): ")
_MODULES = """
    SELECT 1 FROM span f JOIN span m ON m.track = f.track AND m.kind = 'python' AND starts_with(m.name, 'nn.Module: ')
        AND m.ts_ns <= f.ts_ns AND m.ts_ns + m.dur_ns >= f.ts_ns + f.dur_ns
    WHERE f.kind = 'python' AND (f.name = $1 OR ends_with(f.name, '/' || $1)) LIMIT 1
"""
Place = Literal["entry", "made", "model", ""]


def in_graphs(run: Run, ranks: tuple[int, ...]) -> bool:
    """Whether calls that launch a graph launched most of these ranks' device tasks."""
    calls = run.get(launches)
    graphs = np.unique(calls["source"][calls["graph"].astype(np.bool_)]).astype(np.int64)
    every = [did for rank, did in run.get(tasks).items() if rank in ranks]
    held = sum(int((did.linked & np.isin(did.source, graphs)).sum()) for did in every)
    return 2 * held > sum(len(did.ids) for did in every)


def frame_of(run: Run, code: str, idle: dict[int, Intervals]) -> Place:
    """What a line of code is, by the idle time in its frames. It is named by the last part of its path at least.

    `made`: most of it is in code that torch.compile made, below. `entry`: a module's frame, and most is before or after
    such code. `model`: there is no such code, and the frame is a module's forward.
    """
    if _FRAME.search(code) is None:
        return ""
    outside = inside = 0
    holds = False
    for rank, idles in idle.items():
        named = "kind = 'python' AND (name = $2 OR ends_with(name, '/' || $2))"
        frames = _times(run, f"rank = $1 AND {named}", [rank, code])
        if not len(frames.starts):
            continue
        made = _times(
            run, "rank = ? AND kind IN ('python', 'cpu_op', 'annotation') AND ts_ns BETWEEN ? AND ? "
            "AND regexp_matches(name, ?)", [rank, int(frames.starts[0]), int(frames.ends.max()), _MADE],
        )  # fmt: skip
        made = frames & made
        holds |= made.total() > 0
        inside += (idles & made).total()
        outside += (idles & (frames - made)).total()
    if holds and inside >= outside:
        return "made"
    if not (holds or code.endswith(": forward")) or not run.con.execute(_MODULES, [code]).fetchall():
        return ""
    return "entry" if holds else "model"


def _times(run: Run, where: str, values: list[int | str]) -> Intervals:
    rows = run.columns(f"SELECT ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE {where}", values)
    return Intervals.union_of(rows["ts_ns"].astype(np.int64), rows["end_ns"].astype(np.int64))
