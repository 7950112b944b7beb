"""What single steps hold too much of without a cause of its own: pauses of the device, kernels slow all at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import SIGMA, Bools, kernels, pace, usual
from npulens.analysis.device.tail import usual_tail
from npulens.analysis.idle.pieces import Idle
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run, Step


@dataclass(frozen=True)
class Extra:
    """What one slow step of a rank holds too much of: pieces of idle time and rows of kernels."""

    step: Step
    pieces: Ints
    rows: Ints


def host_steps(run: Run, rank: int) -> tuple[Step, ...]:
    """The steps of a rank, the last only as long as its host was at it.

    A device that works behind its host has work of the step before in every window. Only the last one also has its
    own to the end: it would seem the longest although nothing slowed it down.
    """
    lengths = dict(
        run.con.execute(
            "SELECT step, coalesce(host_dur_ns, dur_ns) FROM step WHERE rank = ? ORDER BY ts_ns", [rank]
        ).fetchall()
    )
    *others, last = run.steps[rank]
    return *others, replace(last, dur_ns=min(last.dur_ns, lengths[last.step]))


def extras(
    run: Run, rank: int, found: Idle, slower: Ints, least_extra: float, deviations: float, least_piece_ns: float
) -> Iterator[Extra]:
    """The steps of a rank whose unexplained time is far beyond its median step's."""
    every, steps = run.get(kernels), host_steps(run, rank)
    begins = np.array([step.ts_ns for step in steps], np.int64)
    last = steps[-1].end_ns
    long = (found.end - found.start >= least_piece_ns) & (found.start < last)
    long &= found.gap_start > steps[0].ts_ns  # before that the device was at work that was not captured
    pieces = np.flatnonzero(found.pick("unknown", rank) & long)
    mine = np.flatnonzero((every.rank == rank) & (slower > 0) & (every.ts < last))
    at_piece = np.maximum(np.searchsorted(begins, found.start[pieces], side="right") - 1, 0)
    at_row = np.maximum(np.searchsorted(begins, every.ts[mine], side="right") - 1, 0)
    extra = np.bincount(at_piece, found.end[pieces] - found.start[pieces], len(steps)).astype(np.float64)
    extra += np.bincount(at_row, slower[mine], len(steps))
    middle, least = np.zeros(len(steps)), np.zeros(len(steps))
    for phase in {step.phase for step in steps}:  # a prefill is no slow decode
        of = np.array([step.phase == phase for step in steps])
        middle[of] = np.median(extra[of])
        spread = deviations * SIGMA * np.median(np.abs(extra - middle)[of])
        least[of] = max(spread, least_extra * np.median([step.dur_ns for step in steps if step.phase == phase]))
    for number in np.flatnonzero(extra - middle > least):
        longest = pieces[at_piece == number]
        longest = longest[np.argsort(found.start[longest] - found.end[longest], kind="stable")]
        lengths = found.end[longest] - found.start[longest]
        excess = extra[number] - middle[number]
        beyond = np.cumsum(lengths) - lengths < excess  # the longest until the excess is reached
        yield Extra(steps[number], longest[beyond], mine[at_row == number])


def slower_steps(run: Run, least_pace: float) -> Ints:
    """What each kernel takes beyond its usual time in a step where all kernels do; 0 elsewhere."""
    every, normal = run.get(kernels), run.get(usual)
    all_slow: Bools = run.get(pace) >= least_pace
    excess = every.dur - np.nan_to_num(normal.median, nan=np.inf) - run.get(clocked).cut - run.get(usual_tail)
    return np.where(all_slow & (excess > 0), excess, 0).astype(np.int64)
