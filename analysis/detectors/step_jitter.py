"""Some steps take longer than the others and nothing else explains it.

## What it measures

Per rank, what each step holds that has no cause of its own. One part is idle time in which the device had its next task
and did not start it. Neither the host nor another stream accounts for it. The other is kernels that are all slower than
usual in that one step. A step in which this is far beyond the median step is slow for this reason. What a known cause
took, single slow kernels (`slow_tail`), a low clock (`frequency_drop`) and waits for peers (`late_rank`) do not count.
Host time (`host_late`, `gc`, `dataloader`...) is not counted here.

## Why it costs

Every rank of a job waits for the slowest in each step. With n ranks, a pause that hits one rank in a hundred steps hits
nearly every step of a hundred ranks.

## What to do

Look at what the machine did at those moments: other processes on host or device, power and thermal events. Also ECC
repair, network retransmission and the system's own jobs (cron, monitoring, log rotation). Collect more steps, with
host_sys=[CPU, OSRT] and sys_io, on the rank and around the time that are named. Compare with other ranks: all at once
points to storage, network or scheduler, one alone to its device or host.

## Limits of the method

Needs four steps, and most of them ordinary. It says when and what grew, not why: nothing recorded does. Work that only
some steps have (evaluation, checkpoints, logging) makes them longer with kernels of their own and is not counted.

## References

Median and MAD: Leys et al. 2013, doi:10.1016/j.jesp.2013.03.013. Jitter at scale: Petrini, Kerbyson, Pakin 2003, "The
Case of the Missing Supercomputer Performance", SC'03.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import SIGMA, compared, kernels, step_slowdown, usual
from npulens.analysis.device.kinds import Bools
from npulens.analysis.device.tail import usual_tail
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.pieces import CODE, Idle, idle
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run, Step
from npulens.analysis.split import rows as split_rows

NEEDS = ("steps", "kernels")


@dataclass(frozen=True)
class Limits(limits.Limits):
    least_steps: float = limits.limit(4, "steps", "with fewer nobody knows which one is ordinary")
    least_extra: float = limits.limit(0.01, "share of the median step", "healthy steps differ by less (real captures)")
    deviations: float = limits.limit(5.0, "robust standard deviations", "beyond chance for hundreds of steps")
    least_piece_ns: float = limits.limit(10_000, "ns", "launches and streams vary by some us; a pause is longer")
    least_pace: float = limits.limit(1.03, "times usual", "the median kernel of a healthy step stays within 3 %")


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: step {steps} takes up to {total_longer_ns} longer than the median step; {total_extra_ns} "
            "there nothing recorded explains",
            "See what the machine did at those moments: other processes[[npu|cuda|rocm: , power or ECC events]], "
            "system jobs. Collect more steps[[npu:  with host_sys and sys_io]] around them. What grew: "
            "device idle without cause {total_pause_ns}, kernels slower all at once {total_slower_ns}. Longest step "
            "against the median one: computing {total_computing_ns}, communication {total_communication_ns}, idle "
            "{total_idle_ns}.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：第 {steps} 步比中位步最多长 {total_longer_ns}，其中 {total_extra_ns} 没有任何记录能解释",
            "请查看这些时刻机器在做什么：其他进程[[npu|cuda|rocm: 、功耗或 ECC 事件]]、系统任务；"
            "并在其前后[[npu: 用 host_sys 与 sys_io ]]多采几步。增长的部分：设备无故空闲 {total_pause_ns}，"
            "算子整体变慢 {total_slower_ns}；"
            "最长一步与中位步之差：计算 {total_computing_ns}、通信 {total_communication_ns}、空闲 {total_idle_ns}。",
        )
    },
}


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    ranks = [rank for rank in run.ranks if len(run.steps[rank]) >= limits.least_steps]
    if not ranks:
        most = max((len(steps) for steps in run.steps.values()), default=0)
        raise NotMeasured(
            f"{most} step{'s are' if most != 1 else ' is'} too few to tell which are ordinary",
            f"只有 {most} 步，无法判断哪些正常", "schedule(active=5 or more)",
        )  # fmt: skip
    every, found = run.get(kernels), run.get(idle)
    slower = slower_steps(run, limits.least_pace)
    bounds = limits.least_extra, limits.deviations, limits.least_piece_ns
    slow = [extra for rank in ranks for extra in extras(run, rank, found, slower, *bounds)]
    if not slow:
        compared(run)
        return
    pieces = np.concatenate([extra.pieces for extra in slow])
    rows = np.concatenate([extra.rows for extra in slow])
    pauses = found.end[pieces] - found.start[pieces]
    known = found.task[pieces] != NONE
    seen = [
        *(Evidence(int(found.rank[piece]), int(found.start[piece]), int(ns), None, "idle")
          for piece, ns in zip(pieces, pauses, strict=True)),
        *(Evidence(int(every.rank[r]), int(every.ts[r]), int(every.dur[r]), int(every.span_id[r]),
                   every.kinds[every.kind[r]].type) for r in rows[np.argsort(-slower[rows])[:20]]),
    ]  # fmt: skip
    worst = max(slow, key=lambda extra: extra.step.dur_ns)
    lost = max(
        int(pauses[found.rank[pieces] == rank].sum() + slower[rows[every.rank[rows] == rank]].sum()) for rank in ranks
    )
    yield Candidate(
        "step_jitter", "found",
        {
            "steps": sorted({extra.step.step for extra in slow}),
            "ranks": said(tuple(sorted({extra.step.rank for extra in slow}))),
            "total_extra_ns": int(pauses.sum() + slower[rows].sum()), "total_pause_ns": int(pauses.sum()),
            "total_slower_ns": int(slower[rows].sum()), **_grown(run, worst.step),
        },
        tuple(sorted(seen, key=lambda one: -one.dur_ns)[:20]),
        Change(tasks=every.span_id[rows], task_ns=slower[rows],
               delays=found.task[pieces][known], delay_ns=pauses[known]),
        "medium", measured_ns=lost,
    )  # fmt: skip


def _grown(run: Run, slow_step: Step) -> dict[str, int]:
    """How much longer the step is than the median of its rank and phase, and by what."""
    steps = [step for step in host_steps(run, slow_step.rank) if step.phase == slow_step.phase]
    windows: list[tuple[int | None, int, int]] = [(step.step, step.ts_ns, step.end_ns) for step in steps]
    parts = list(split_rows(slow_step.rank, windows, run.activity(slow_step.rank)))
    at = steps.index(slow_step)

    def beyond(values: list[int]) -> int:
        return values[at] - int(np.median(values))

    return {
        "total_longer_ns": beyond([step.dur_ns for step in steps]),
        "total_computing_ns": beyond([part.computing_ns or 0 for part in parts]),
        "total_communication_ns": beyond([part.communication_not_overlapped_ns or 0 for part in parts]),
        "total_idle_ns": beyond([part.idle_ns or 0 for part in parts]),
    }


# What single steps hold too much of without a cause of its own: pauses of the device, kernels slow all at once.
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
    *others, last = run.steps[rank]
    return *others, replace(last, dur_ns=min(last.dur_ns, run.get(_on_host)[rank, last.step]))


def _on_host(run: Run) -> dict[tuple[int, int], int]:
    """How long each rank's host was at each step."""
    rows = run.con.execute(
        "SELECT rank, step, coalesce(host_dur_ns, dur_ns) FROM step ORDER BY rank, ts_ns"
    ).fetchall()  # fmt: skip
    return {(rank, step): ns for rank, step, ns in rows}


def extras(
    run: Run, rank: int, found: Idle, slower: Ints, least_extra: float, deviations: float, least_piece_ns: float
) -> Iterator[Extra]:
    """The steps of a rank whose unexplained time is far beyond its median step's."""
    every, steps = run.get(kernels), host_steps(run, rank)
    begins = np.array([step.ts_ns for step in steps], np.int64)
    last = steps[-1].end_ns
    own = found.on(rank)
    long = (found.end[own] - found.start[own] >= least_piece_ns) & (found.start[own] < last)
    long &= found.gap_start[own] > steps[0].ts_ns  # before that the device was at work that was not captured
    pieces = own.start + np.flatnonzero((found.cause[own] == CODE["unknown"]) & long)
    own = every.on(rank)
    mine = own.start + np.flatnonzero((slower[own] > 0) & (every.ts[own] < last))
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
    all_slow: Bools = run.get(step_slowdown) >= least_pace
    excess = every.dur - np.nan_to_num(normal.median, nan=np.inf) - run.get(clocked).cut - run.get(usual_tail)
    return np.where(all_slow & (excess > 0), excess, 0).astype(np.int64)
