"""How far the device is behind the host when a step begins.

Steps are cut where the host marks them. Where the host runs ahead, the device still does what was launched before.
Then a step's own work lies later than the step, and single steps say little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.issue import Tasks, tasks
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run
from npulens.analysis.say import duration

#: Less work from before than this share of the recorded time is not worth a word.
FROM_BEFORE = 0.01


@dataclass(frozen=True)
class Behind:
    """Of one rank with steps; 0 where its device has nothing left to do when a step begins."""

    lag_ns: int  # median over all marks but the first: until all that was launched before it is done
    early_ns: int  # from the first mark on, until all work from before it is done
    busy_ns: int  # of that: what is recorded of it; nobody knows what the device did in the rest


def behind(run: Run) -> dict[int, Behind]:
    """rank -> how far behind; only ranks with steps, and with launches that are known."""
    found = {}
    for rank, did in run.get(tasks).items():
        marks = np.array([step.ts_ns for step in run.steps[rank]], np.int64)
        if len(marks) and did.linked.any():
            lags = _lags(did, marks[1:])
            begin, early = marks[:1], _early(did, int(marks[0]))
            busy = int(run.activity(rank).work().within(begin, begin + early)[0])
            found[rank] = Behind(int(np.median(lags)) if len(lags) else 0, early, busy)
    return found


def from_before(run: Run) -> dict[int, tuple[int, int]]:
    """When the device of a rank first works off what was launched before its first step, if that takes long.

    That work is of no recorded step. Counted with them, each step would have too much of it, and take too long.
    """
    least, steps = FROM_BEFORE * run.wall_ns, run.steps
    long = {rank: one.early_ns for rank, one in run.get(behind).items() if one.early_ns >= max(1, least)}
    return {rank: (steps[rank][0].ts_ns, steps[rank][0].ts_ns + ns) for rank, ns in long.items()}


def early_said(run: Run) -> tuple[str, str] | None:
    """What is said of work from before the first step, in English and Chinese; None: it takes no time worth a word."""
    found = run.get(behind)
    early, rank = max(((one.early_ns, rank) for rank, one in found.items()), default=(0, 0))
    if rank not in run.get(from_before):
        return None
    steps, busy = run.steps[rank], found[rank].busy_ns
    which, which_zh = ("the mean step", "平均每步") if len(steps) > 1 else ("the step", "该步为")
    mean = duration((steps[-1].end_ns - steps[0].ts_ns - early) // len(steps))
    if early - busy < max(1, FROM_BEFORE * run.wall_ns):
        return (
            f"rank {rank}: work from before the first step keeps the device busy for {duration(early)} of it: without "
            f"that {which} is {mean}",
            f"rank {rank}：第一步开始后，设备仍有 {duration(early)} 在执行之前的任务；扣除后{which_zh} {mean}",
        )
    return (
        f"rank {rank}: work from before the first step ends {duration(early)} after it begins. {duration(busy)} of "
        f"that work is recorded, and what the device did in the rest is not known: without all of it {which} is {mean}",
        f"rank {rank}：第一步开始 {duration(early)} 之后，设备才完成之前的任务，其中有记录的为 {duration(busy)}，"
        f"其余时间设备在做什么未知；全部扣除后{which_zh} {mean}",
    )


def left_out(run: Run) -> dict[int, tuple[int, int]]:
    """What is no part of any step, for who judges steps. Elsewhere sums have to close with those of the device."""
    return {}


def as_judged(run: Run) -> Run:
    """The run as it is judged: the same one where no work is from before its first step."""
    found = run.get(from_before)
    return run.assuming(left_out, found) if found else run


def counted(run: Run, rank: Ints, ts: Ints) -> NDArray[np.bool_]:
    """Which work of the device counts, by its ranks and starts."""
    found = np.ones(len(ts), np.bool_)
    for one, (begin, end) in run.get(left_out).items():
        found &= (rank != one) | (ts < begin) | (ts >= end)
    return found


def _lags(did: Tasks, marks: Ints) -> Ints:
    """Per mark how long the device goes on with what was launched before it."""
    order = np.argsort(did.issued[did.linked], kind="stable")
    issued, done = did.issued[did.linked][order], np.maximum.accumulate(did.ends[did.linked][order])
    before = np.searchsorted(issued, marks)
    lags: Ints = np.where(before > 0, done[np.maximum(before - 1, 0)] - marks, 0)
    return np.maximum(lags, 0)


def _early(did: Tasks, mark: int) -> int:
    """How long after the first mark streams are busy before they come to what was launched since.

    Work without a launch is from before the recording. Where most has none, launches are missing, and it says nothing.
    """
    own = did.linked & (did.issued >= mark)
    told = did.linked | (2 * int(did.linked.sum()) > len(did.linked))
    tracks, place = np.unique(did.tracks, return_inverse=True)
    first = np.full(len(tracks), mark, np.int64)  # a stream without own tasks tells nothing
    at = np.flatnonzero(own)[::-1]
    first[place[at]] = did.starts[at]  # tasks lie by start, so the earliest is written last
    before = did.ends[told & ~own & (did.starts < first[place])]
    return max(0, int(before.max(initial=mark)) - mark)
