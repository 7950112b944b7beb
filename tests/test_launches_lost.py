"""Captures that do not say what launched most tasks: what follows all the same, by hand (times in us)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npulens.analysis.finding import Change
from npulens.analysis.idle.behind import Behind, behind
from npulens.analysis.idle.pieces import CODES, idle
from npulens.analysis.intervals import Intervals
from npulens.analysis.replay.whatif import saved_ns
from npulens.analysis.run import Run
from tests.tablecase import connection

US = 1_000
Span = dict[str, Any]


def span(number: int, kind: str, name: str, at: float, length: float, **more: Any) -> Span:
    return {"id": number, "kind": kind, "name": name, "at": at, "for": length, **more}


def run_of(*spans: Span, steps: bool = False) -> Run:
    return Run(connection({"spans": list(spans), **({} if steps else {"tables": {"step": []}})}))


def blamed(run: Run) -> dict[str, float]:
    found, total = run.get(idle), dict[str, float]()
    for cause, ns in zip(found.cause.tolist(), (found.end - found.start).tolist(), strict=True):
        total[CODES[cause]] = total.get(CODES[cause], 0) + ns / US
    return total


def host(*windows: tuple[float, float]) -> Change:
    edges = np.array(windows, np.float64) * US
    return Change(host={0: Intervals.union_of(*edges.astype(np.int64).T)})


def saved(run: Run, change: Change) -> float:
    return saved_ns(run, change) / US


@pytest.mark.parametrize(("launched", "early"), [((100,), 0), ((100, 200, 300), 90)])
def test_work_without_a_launch_is_from_before_only_where_launches_are_known(
    launched: tuple[int, ...], early: int
) -> None:
    """Four steps of 100, each with a task of 90. The first has no launch: alone in that, it is from before."""
    spans = [span(1 + n, "step_mark", f"ProfilerStep#{n}", 100 * n, 100) for n in range(4)]
    for at in range(0, 400, 100):
        spans.append(span(1000 + at, "kernel", "k", at, 90))
        if at in launched:
            spans[-1]["by"] = 2000 + at
            spans.append(span(2000 + at, "runtime", "Node@launch", at - 1 + 1, 1))
    assert run_of(*spans, steps=True).get(behind) == {0: Behind(0, early * US, early * US)}


def gap(*calls: float, long: float = 2000) -> Run:
    """The device idles from 100 on for so long, while the host builds a mask; nobody knows what launched the rest."""
    end = 100 + long
    return run_of(
        span(1, "annotation", "build_mask", 50, long + 20), span(2, "runtime", "Node@launch", 0, 5),
        span(3, "kernel", "a", 10, 90, by=2), *(span(10 + n, "runtime", "Node@launch", at, 5)
                                                for n, at in enumerate(calls)),
        span(4, "kernel", "b", end, 800), span(5, "kernel", "c", end + 800, 10),
    )  # fmt: skip


def test_a_host_that_launched_nothing_until_shortly_before_was_late() -> None:
    """It comes back at 2,080, and 20 later the task starts: what a launch usually takes."""
    assert blamed(gap(2080)) == {"host_late": 1980, "launch_overhead": 20}


@pytest.mark.parametrize("calls", [(2080, 500), (98, 2080), (1800,), (2101,), ()])
def test_a_task_that_may_have_been_launched_before_is_not_the_hosts(calls: tuple[float, ...]) -> None:
    """A call within the gap, one open when it begins, one too early for the start, one after it, and none at all."""
    assert blamed(gap(*calls)) == {"unknown": 2000}


def test_a_short_gap_may_end_just_after_a_launch_by_chance() -> None:
    assert blamed(gap(1050, long=960)) == {"unknown": 960}


def test_compiling_in_the_queue_is_told_of_a_task_without_a_launch() -> None:
    """The script sits in a read; its queue's thread compiles from 150 to 450."""
    run = run_of(
        span(1, "cpu_op", "aten::item", 50, 500), span(2, "runtime", "Node@launch", 0, 5),
        span(3, "kernel", "a", 10, 90, by=2), span(6, "dequeue", "Dequeue@x", 120, 340, track="queue"),
        span(7, "runtime", "AscendCL@aclopCompileAndExecute", 150, 300, track="queue"), span(4, "kernel", "b", 470, 30),
    )  # fmt: skip
    assert blamed(run) == {"unknown": 70, "compile": 300}


def test_what_the_device_had_in_hand_follows_the_task_before() -> None:
    """Two launches, then the host waits from 10 on. Its second task starts 140 late, and the third has no launch.

    The first takes 60 less. The device is done 60 earlier, whatever let it rest.
    """
    tasks = [
        span(3, "kernel", "a", 10, 100, by=1), span(4, "kernel", "b", 250, 100), span(5, "kernel", "c", 350, 50),
    ]  # fmt: skip
    run = run_of(span(1, "runtime", "Node@launch", 0, 2), span(2, "runtime", "aclrtSynchronizeStream", 10, 395), *tasks)
    assert saved(run, Change(tasks=np.array([3]), task_ns=np.array([60 * US]))) == 60
    busy = span(2, "cpu_op", "aten::cat", 10, 395)
    free = run_of(span(1, "runtime", "Node@launch", 0, 2), busy, *tasks)
    assert saved(free, Change(tasks=np.array([3]), task_ns=np.array([60 * US]))) == 0  # the host may have been late


@pytest.mark.parametrize("wait", [False, True])
def test_a_task_of_the_queue_hangs_on_its_queue(wait: bool) -> None:
    """The script waits from 20 on. Its queue compiles from 150 to 450 and launches something at 460, nobody knows what.

    Without compiling all is 300 earlier: a kernel at 470, or a wait for another stream that lasts as long.
    """
    late = span(8, "wait", "EVENT_WAIT", 470, 5, track="s1") if wait else span(8, "kernel", "b", 470, 50)
    run = run_of(
        span(1, "runtime", "Node@launch", 0, 2), span(2, "kernel", "a", 10, 90, by=1),
        span(3, "enqueue", "Enqueue", 18, 1), span(4, "runtime", "aclrtSynchronizeStream", 20, 600),
        span(5, "dequeue", "Dequeue@x", 120, 345, track="queue", by=3, route="task_queue"),
        span(6, "runtime", "AscendCL@aclopCompileAndExecute", 150, 300, track="queue"), late,
        *([span(9, "kernel", "c", 475, 50, track="s1")] if wait else []),
    )  # fmt: skip
    assert saved(run, host((150, 450))) == 300
