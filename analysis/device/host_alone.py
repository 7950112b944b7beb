"""What a capture without work of a device tells of the host: which calls launched nothing, and what they draw.

The runtime library's calls may be recorded although the work they launched is not. An operator within which none of
them lies then worked on the host itself. Where none lies in any operator of a rank, nothing is known of that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_spans import NONE, OPERATOR, HostSpans
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: Whether a call of the runtime library lies within an operator.
ALONE, CALLED, UNKNOWN = range(3)
#: Operators that draw numbers for whoever calls them.
DRAWS = r"^aten::(?:normal_|normal|uniform_|random_|randn|rand|randint|randperm)$"
#: Calls go on where there are so many over so much of the time. Those that make a model's weights do not.
MANY, SPREAD = 8, 0.5
#: Calls that give a device work.
_LAUNCHES = (
    r"^(?:cuda|cu|hip)(?:Graph|Ext|Module|Cooperative)*Launch|^(?:cuda|hip)Mem(?:cpy|set)\w*Async|^cuMemcpy\w*Async"
)
#: Only a profiler that was asked for a device's work records what its tracer itself costs.
_OF_A_TRACER = (
    "Instrumentation", "Resource", "Buffer Flush", "Activity Buffer Request", "Command Buffer Full",
    "Runtime Triggered Module Loading", "Lazy Function Loading", "Unrecognized", "Driver Compiler",
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """Random numbers that the job goes on drawing."""

    name: str  # of the operator that takes most of it
    calls: int  # of that operator
    own_ns: int  # of all that draw
    alone: bool  # calls of the runtime library were recorded, and none in these


@dataclass(frozen=True)
class Calls:
    """Calls of operators, of all ranks."""

    names: NDArray[np.str_]
    begins: Ints
    own: Ints
    ranks: Ints
    states: Ints  # ALONE, CALLED or UNKNOWN
    windows: dict[int, tuple[int, int]]  # of each rank: its steps, or all that was recorded


def within(operators: HostSpans) -> Ints:
    """Of each operator whether calls of the runtime library lie in it."""
    found = np.full(len(operators.ids), ALONE, np.int64)
    at = operators.parent[operators.kinds != OPERATOR]
    while len(at := np.unique(at[at != NONE])):
        found[at] = CALLED
        at = operators.parent[at]
    if not (found[operators.kinds == OPERATOR] == CALLED).any():
        found[:] = UNKNOWN
    found[operators.kinds != OPERATOR] = UNKNOWN
    return found


def launched(run: Run) -> tuple[str | None, bool]:
    """The call that gave a device work most often, and whether the profiler was asked for that work."""
    said = run.con.execute(
        "SELECT name FROM span WHERE kind = 'runtime' AND regexp_matches(name, ?) "
        "GROUP BY name ORDER BY count(*) DESC, name LIMIT 1", [_LAUNCHES]
    ).fetchall()  # fmt: skip
    ((asked,),) = run.con.execute(
        "SELECT count(*) FROM span WHERE kind = 'host_other' AND list_contains(?, name)", [list(_OF_A_TRACER)]
    ).fetchall()
    return (str(said[0][0]), asked > 0) if said else (None, False)


def drawn(run: Run, calls: Calls) -> Drawn | None:
    """Random numbers that go on being drawn, by operators that are not known to have given a device work."""
    kinds = [name for (name,) in run.con.execute(
        "SELECT DISTINCT name FROM span WHERE kind = 'cpu_op' AND regexp_matches(name, ?) ORDER BY name", [DRAWS]
    ).fetchall()]  # fmt: skip
    keep = np.zeros(len(calls.own), np.bool_)
    for name in kinds:
        for rank in calls.windows:
            mine = (calls.names == name) & (calls.ranks == rank) & (calls.states != CALLED)
            keep |= mine & _goes_on(run, rank, calls.begins[mine], calls.windows[rank])
    if not keep.any():
        return None
    name = max(kinds, key=lambda one: int(calls.own[keep & (calls.names == one)].sum()))
    return Drawn(
        name, int((keep & (calls.names == name)).sum()), int(calls.own[keep].sum()),
        bool((calls.states[keep] == ALONE).all()),
    )  # fmt: skip


def _goes_on(run: Run, rank: int, begins: Ints, window: tuple[int, int]) -> bool:
    """Whether calls that begin then go on: in each of several steps, or many over much of what was recorded."""
    steps = run.steps[rank]
    edges = np.array([step.ts_ns for step in steps] + [steps[-1].end_ns] if steps else [], np.int64)
    if len(steps) > 1 and np.histogram(begins, edges)[0].all():
        return True
    return len(begins) >= MANY and int(begins.max() - begins.min()) >= SPREAD * (window[1] - window[0])
