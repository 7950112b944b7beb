"""How long the run takes without what its process does once in the first recorded step.

A library that is loaded in the first step makes the mean of a few steps several times too long. What every step holds
is told as a share of the step without it. What happened once is told as a share of the recorded time. A single step is
what was recorded, whatever happened in it. Nothing marks where a run without steps begins, so that its share is of the
recorded time. A graph that is recorded in a later step may be recorded again.
"""

from __future__ import annotations

from npulens.analysis.finding import Change
from npulens.analysis.idle.pieces import idle
from npulens.analysis.replay import whatif
from npulens.analysis.run import Run


def steady_ns(run: Run) -> int:
    """The run's wall without first use in the first recorded step, as far as a replay gives it back."""
    if not run.stepped or run.step_count < 2:
        return run.wall_ns
    found = run.get(idle)
    lost = {}
    for rank in run.ranks:
        if not run.steps[rank]:
            continue
        first = found.windows(rank, "first_use", run.steps[rank][0].end_ns)
        if len(first.starts):
            lost[rank] = first
    return run.wall_ns - whatif.saved_ns(run, Change(host=lost)) if lost else run.wall_ns


def of_run(run: Run, ns: float) -> float:
    """A time of the whole run as a share of it."""
    whole = run.get(steady_ns)
    return ns / whole if whole else 0.0


def of_step(run: Run, ns: float) -> float:
    """A time of the mean step as a share of it."""
    return of_run(run, ns * run.step_count)
