"""What each role of an RL job does in the mean step, and when.

It comes from a profile of roles, or from what a log counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

from npulens.analysis.intervals import Intervals
from npulens.analysis.run import Run
from npulens.analysis.serving.stages import IDLE, RlStep, rl_steps

#: What a step's log calls its parts.
_PART = re.compile(r"timing_s/(\w+)")
#: What it counts beside the step: the step itself, the test behind it, the profiler.
_BESIDE = ("step", "testing", "start_profile", "stop_profile")
#: Which role does a part of the log, as a profile of roles calls it.
_DOES = {
    "gen": "rollout", "old_log_prob": "log_prob", "ref": "log_prob", "values": "log_prob", "reward": "reward",
    "update_actor": "update", "update_critic": "update", "update_weights": "weights",
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """The mean step of a job, and every stage with its window, or every part that its log counts."""

    steps: int
    step_ns: int
    roles: Mapping[str, int]  # how long a role works in the mean step, and nobody ("")
    rows: pd.DataFrame  # name, role, step, ts_ns, dur_ns; without windows all begin at 0
    windows: bool = True


def job(con: duckdb.DuckDBPyConnection) -> Job | None:
    """None: no step of a job was recorded."""
    steps = [one for one in rl_steps(Run.of(con)) if one.dur_ns]
    if not steps:
        return None
    rows = con.execute(
        "SELECT coalesce(name, role, '') AS name, coalesce(role, 'other') AS role, step, ts_ns, dur_ns FROM stage "
        "WHERE ts_ns IS NOT NULL AND dur_ns >= 0 ORDER BY ts_ns, name"
    ).fetchdf()
    if not len(rows):
        return _counted(con, steps)
    works: dict[str, int] = {}
    for _, mine in rows.groupby("step", dropna=False):
        ends = mine["ts_ns"] + mine["dur_ns"]
        whole = int(ends.max() - mine["ts_ns"].min())
        for name, some in [*mine.groupby("role"), ("", mine)]:
            union = Intervals.union_of(some["ts_ns"].to_numpy(np.int64), ends[some.index].to_numpy(np.int64)).total()
            works[str(name)] = works.get(str(name), 0) + (union if name else whole - union)
    mean = round(sum(one.dur_ns for one in steps) / len(steps))
    return Job(len(steps), mean, {name: round(ns / len(steps)) for name, ns in works.items()}, rows)


def _counted(con: duckdb.DuckDBPyConnection, steps: list[RlStep]) -> Job:
    """What the log of a job counts: the mean seconds of each part, and what of the step it counts nowhere."""
    mean = round(sum(one.dur_ns for one in steps) / len(steps))
    sums: dict[str, float] = dict(con.execute(
        "SELECT name, sum(value) FROM serving_sample WHERE name LIKE 'timing_s/%' AND value > 0 GROUP BY name"
    ).fetchall())  # fmt: skip
    parts = {found[1]: round(value * 1e9 / len(steps)) for name, value in sums.items()
             if (found := _PART.fullmatch(name)) and found[1] not in _BESIDE}  # fmt: skip
    rest = mean - sum(parts.values())
    rows = [(name, _DOES.get(name, "other"), ns) for name, ns in sorted(parts.items(), key=lambda one: -one[1])]
    rows += [("", "other", rest)] if rest > 0 else []
    frame = pd.DataFrame(rows, columns=["name", "role", "dur_ns"]).assign(step=None, ts_ns=0)
    works = {str(role): int(ns) for role, ns in frame.groupby("role")["dur_ns"].sum().items()}
    waits = [one.lost[IDLE].ns for one in steps if IDLE in one.lost]
    return Job(len(steps), mean, works | ({"": round(sum(waits) / len(waits))} if waits else {}), frame, windows=False)
