"""How long the run takes without its start-up: what its process does once in the first recorded step.

A library that is loaded in the first step makes the mean of a few steps several times too long. What every step holds
is told as a share of the step without it. What happened once is told as a share of the recorded time. The same holds
of a single step, and of a run without steps, where first use takes much of it. The device may have worked off what was
launched before the recording, or before its first step. That time is of no recorded step and is left out as well. While
a graph is recorded nothing runs as it does later, so that such a run is not judged without it. A graph of a later step
may be recorded again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npulens.analysis.finding import Change
from npulens.analysis.idle.behind import from_before
from npulens.analysis.idle.first_use import captures
from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import Intervals
from npulens.analysis.replay import whatif
from npulens.analysis.run import Run
from npulens.analysis.say import Whole

#: Less first use than this share of a single step, or of a run without steps, stays in it.
MUCH = 0.05
#: Without steps what is measured is from the first to the last device task: more of the recorded time outside is said.
OUTSIDE_SHARE = 0.25
#: Of that before the first device task a smaller share is said: a job that starts up, or a device that waits for data.
BEFORE_SHARE = 0.05


@dataclass(frozen=True)
class Outside:
    """Recorded time of a rank without steps before its first device task and after its last."""

    rank: int
    before_ns: int
    after_ns: int
    whole_ns: int
    window: tuple[int, int]

    @property
    def ns(self) -> int:
        return self.before_ns + self.after_ns


def steady_ns(run: Run) -> int:
    """The run's wall without start-up in the first recorded step, as far as a replay gives it back."""
    several = run.step_count > 1
    if not several and run.get(captures).most:
        return run.wall_ns
    found, early = run.get(idle), run.get(from_before)
    lost, cut = {}, {}
    for rank in run.ranks:
        before = found.windows(rank, "backlog")
        if rank in early:
            before = before | Intervals(np.array([early[rank][0]]), np.array([early[rank][1]]))
        if len(before.starts):
            cut[rank] = before
        if several and not run.steps[rank]:
            continue
        first = found.windows(rank, "first_use", *([run.steps[rank][0].end_ns] if several else []))
        if len(first.starts):
            lost[rank] = first
    saved = whatif.saved_ns(run, Change(host=lost, cut=cut)) if lost or cut else 0
    return run.wall_ns - (saved if several or saved >= MUCH * run.wall_ns else 0)


def shares_of(run: Run) -> Whole:
    """What a time that is not over once is a share of."""
    less = run.wall_ns - run.get(steady_ns)
    return Whole(run.stepped, not run.stepped and run.get(outside) is not None, less >= MUCH * run.wall_ns)


def outside(run: Run) -> Outside | None:
    """Of the rank that has most: what no figure holds, where no step is marked; None: little or nothing."""
    rows = run.con.execute(
        "SELECT rank, min(ts_ns), max(ts_ns + dur_ns) FROM span GROUP BY rank ORDER BY rank"
    ).fetchall()
    ranks = []
    for rank, begin, end in rows:
        window = None if run.steps[rank] else run.window(rank)
        if window is not None:
            first, last = window
            length = max(end, last) - min(begin, first)
            ranks.append(Outside(rank, max(0, first - begin), max(0, end - last), length, window))
    large = [one for one in ranks if one.ns > OUTSIDE_SHARE * one.whole_ns]
    early = [replace(one, after_ns=0) for one in ranks if one.before_ns > BEFORE_SHARE * one.whole_ns]
    return max(large or early, key=lambda one: one.ns, default=None)


def of_run(run: Run, ns: float) -> float:
    """A time of the whole run as a share of it."""
    whole = run.get(steady_ns)
    return ns / whole if whole else 0.0


def of_step(run: Run, ns: float) -> float:
    """A time of the mean step as a share of it."""
    return of_run(run, ns * run.step_count)
