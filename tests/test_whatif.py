"""Replays of runs made by hand, whose savings follow from a few additions (times in us)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from npulens.analysis.finding import Change
from npulens.analysis.intervals import Intervals
from npulens.analysis.replay.whatif import saved_ns
from npulens.analysis.run import Run
from tests.random_runs import empty_connection, fill
from tests.tablecase import connection

Span = dict[str, Any]


def run_of(*spans: Span, **case: Any) -> Run:
    return Run(connection({"spans": list(spans), **case}))


def mark(length: float, rank: int = 0, number: int = 1, at: float = 0) -> Span:
    return {"id": 9_000 + 10 * rank + number, "rank": rank, "kind": "step_mark", "name": f"ProfilerStep#{number}",
            "at": at, "for": length, "track": "main"}  # fmt: skip


def call(number: int, at: float, length: float = 2, rank: int = 0, name: str = "Node@launch") -> Span:
    return {"id": number, "rank": rank, "kind": "runtime", "name": name, "at": at, "for": length}


def task(number: int, at: float, length: float, by: int | None, kind: str = "kernel", stream: str = "s0",
         rank: int = 0, **more: Any) -> Span:  # fmt: skip
    return {"id": number, "rank": rank, "kind": kind, "name": f"{kind}{number}", "at": at, "for": length, "by": by,
            "track": stream, **more}  # fmt: skip


def host(*windows: tuple[float, float], rank: int = 0) -> Change:
    edges = np.array([(round(a * 1000), round(b * 1000)) for a, b in windows], np.int64)
    return Change(host={rank: Intervals.union_of(edges[:, 0], edges[:, 1])})


def ids(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def us(run: Run, change: Change) -> float:
    return saved_ns(run, change) / 1000


def test_time_of_a_host_that_decides_is_given_back_to_the_ns() -> None:
    run = run_of(mark(300), call(1, 10), task(2, 22, 30, 1), call(3, 200), task(4, 212, 30, 3))
    assert us(run, host((50, 150))) == 100
    assert us(run, host((50.123, 150.5))) == 100.377
    assert us(run, host((50, 60), (40, 55), (100, 110))) == 30
    assert us(run, Change()) == 0


def test_time_of_a_host_that_is_ahead_of_its_device_gives_nothing_back() -> None:
    """Three kernels of 400 in a row from 22 on; the host is done at 300, 922 before the device."""
    run = run_of(mark(300), call(1, 10), task(2, 22, 400, 1), call(3, 200), task(4, 422, 400, 3), call(5, 290),
                 task(6, 822, 400, 5))  # fmt: skip
    assert us(run, host((50, 150))) == 0
    # Only what lies before the first launch holds the device up.
    assert us(run, host((0, 8), (50, 150))) == 8


def test_a_kernel_counts_where_it_is_waited_for() -> None:
    run = run_of(mark(60), call(1, 10), task(2, 22, 500, 1, stream="s0"), call(3, 20), task(4, 32, 100, 3, stream="s1"))
    assert us(run, Change(tasks=ids(4), task_ns=ids(90_000))) == 0
    assert us(run, Change(tasks=ids(2), task_ns=ids(90_000))) == 90
    # Without the long one, the short one and the host's own step are what is left: 132 of 522.
    assert us(run, Change(tasks=ids(2), task_ns=ids(10**9))) == 390
    assert us(run, Change(tasks=ids(2, 4), task_ns=ids(10**9, 10**9))) == 522 - 60


def test_an_event_makes_one_stream_wait_for_the_other() -> None:
    """b waits on s1 for the record behind a on s0; without a wait it would start 10 after its launch."""
    run = run_of(
        mark(80), call(1, 8), task(2, 20, 280, 1, stream="s0"),
        call(3, 18), task(4, 300, 0.02, 3, "device_other", "s0"),
        call(5, 28), task(6, 40, 260.02, 5, "wait", "s1"),
        call(7, 48), task(8, 300.04, 200, 7, stream="s1"),
    )  # fmt: skip
    assert us(run, Change(tasks=ids(2), task_ns=ids(100_000))) == 100
    # Then b is as early as its launch lets it be, at 60.
    assert us(run, Change(tasks=ids(2), task_ns=ids(270_000))) == pytest.approx(240.04, abs=0.1)


def test_without_a_waiting_call_the_host_goes_on() -> None:
    """The call returns 10 after the kernel; the host launches the next one 20 later, and it starts at 562."""
    run = run_of(mark(600), call(1, 10), task(2, 22, 500, 1),
                 call(3, 30, 502, name="AscendCL@aclrtSynchronizeStreamWithTimeout"), call(4, 550),
                 task(5, 562, 300, 4))  # fmt: skip
    # 862 -> the second kernel right behind the first, at 522.
    assert us(run, Change(syncs=ids(3))) == 40
    # A shorter kernel brings everything behind it forward, the waiting call included.
    assert us(run, Change(tasks=ids(2), task_ns=ids(300_000))) == 300
    # An operator around the call stands for it.
    around = {"id": 7, "kind": "cpu_op", "name": "aten::item", "at": 28, "for": 510}
    run = run_of(mark(600), call(1, 10), task(2, 22, 500, 1), around,
                 call(3, 30, 502, name="AscendCL@aclrtSynchronizeStreamWithTimeout"), call(4, 550),
                 task(5, 562, 300, 4))  # fmt: skip
    assert us(run, Change(syncs=ids(7))) == 40


def test_what_was_waited_for_before_the_window_gives_nothing_back() -> None:
    """Without step marks the window begins with the first kernel, at 1022; the host waited 900 before that."""
    drain = "AscendCL@aclrtSynchronizeStreamWithTimeout"
    run = run_of(call(1, 100, 900, name=drain), call(2, 1010), task(3, 1022, 30, 2), call(4, 1060, 20, name=drain),
                 call(5, 1200), task(6, 1212, 30, 5))  # fmt: skip
    assert us(run, Change(syncs=ids(1))) == 0
    assert us(run, Change(syncs=ids(1, 4))) == us(run, Change(syncs=ids(4))) < 20


def test_a_copy_that_is_waited_for_holds_the_host_up() -> None:
    run = run_of(mark(500), call(1, 100, 300, name="cudaMemcpyAsync"), task(2, 110, 285, 1, "memcpy"), call(3, 450),
                 task(4, 462, 30, 3))  # fmt: skip
    assert us(run, Change(tasks=ids(2), task_ns=ids(200_000))) == 200
    # Without waiting the next kernel is right behind the copy, and the last thing is its end at 425 instead of 500.
    assert us(run, Change(syncs=ids(1))) == 75


def test_latency_and_unexplained_delay_before_a_task() -> None:
    """Launched at 12, started at 22; the second one 60 after the first although it was long there."""
    run = run_of(mark(60), call(1, 10), task(2, 22, 100, 1), call(3, 30), task(4, 182, 50, 3))
    assert us(run, Change(delays=ids(4), delay_ns=ids(45_000))) == 45
    assert us(run, Change(delays=ids(4), delay_ns=ids(10**9))) == 60
    assert us(run, Change(delays=ids(2), delay_ns=ids(4_000))) == 4


def queue(busy: float, main: float) -> Run:
    """Ten elements, each `busy` in the queue, put in every `main`; each launches a kernel of 5 in its middle."""
    spans, free = [], 0.0
    for i in range(10):
        put = 10 + main * i
        begin = max(put + 4, free)
        free = begin + busy
        spans += [
            {"id": 10 * i + 1, "kind": "enqueue", "name": "Enqueue", "at": put - 1, "for": 1},
            {"id": 10 * i + 2, "kind": "dequeue", "name": "Dequeue@x", "at": begin, "for": busy, "track": "queue",
             "by": 10 * i + 1, "route": "task_queue"},
            {"id": 10 * i + 3, "kind": "runtime", "name": "Node@launch", "at": begin + busy / 2, "for": 1,
             "track": "queue"},
            task(10 * i + 4, begin + busy / 2 + 8, 5, 10 * i + 3),
        ]  # fmt: skip
    return run_of(mark(10 + main * 10), *spans)


def test_a_queue_that_is_late_decides_and_its_script_does_not() -> None:
    """Elements of 50 put in every 10: the last kernel ends 14 + 9.5 * 50 + 13 after the begin."""
    run = queue(busy=50, main=10)
    assert us(run, host((14, 24))) == 10
    assert us(run, host((11, 13), (514, 515))) == 0
    # From the third element on the window is the whole element; the thread then has 10 less to do.
    assert us(run, host((114, 164))) == 50


def test_a_queue_that_is_empty_gives_its_scripts_time_back() -> None:
    """Elements of 10 put in every 50: the script's own 50 between two count, wherever the window lies."""
    run = queue(busy=10, main=50)
    assert us(run, host((30, 55))) == 25
    assert us(run, host((20, 40), (70, 90))) == 40


def collective(number: int, at: float, length: float, by: int, rank: int) -> Span:
    return task(number, at, length, by, "comm_op", "g", rank, comm={
        "collective": "allreduce", "group_name": "g", "bytes": 100, "op_span_id": number})  # fmt: skip


def two_ranks() -> Run:
    """Rank 1's host comes 300 later to the collective, which takes 100 once both are there."""
    return run_of(mark(30), mark(330, 1), call(1, 8), collective(2, 20, 500, 1, 0), call(11, 308, rank=1),
                  collective(12, 420, 100, 11, 1), call(13, 312, rank=1), task(14, 324, 90, 13, rank=1))  # fmt: skip


def test_ranks_wait_for_the_last_of_them() -> None:
    run = two_ranks()
    assert us(run, host((10, 30))) == 0  # rank 0 is early as it is
    assert us(run, host((50, 200), rank=1)) == 150
    assert us(run, Change(tasks=ids(12), task_ns=ids(40_000))) == 40
    assert us(run, Change(tasks=ids(2), task_ns=ids(40_000))) == 40
    assert us(run, Change(peers=ids(2), peer_ns=ids(30_000))) == 30


def test_garbage_collected_by_the_rank_that_is_late() -> None:
    gc = {"id": 20, "rank": 1, "kind": "gc", "name": "GC", "at": 20, "for": 250}
    run = run_of(mark(30), mark(330, 1), gc, call(1, 8), collective(2, 20, 500, 1, 0), call(11, 308, rank=1),
                 collective(12, 420, 100, 11, 1))  # fmt: skip
    assert us(run, host((20, 270), rank=1)) == 250


def missing_peer() -> Run:
    """Ready at 110, the rank waits until 500 for one that was not captured; 100 of transfer follow."""
    def part(number: int, name: str, at: float, length: float, peer: int) -> Span:
        return task(number, at, length, None, "comm_task", "p", comm={
            "op_span_id": 2, "group_name": "g", "task_type": name, "src_rank": 0, "dst_rank": peer, "src_local": 0,
            "dst_local": peer, "bytes": 8})  # fmt: skip
    return run_of(mark(50), call(1, 88), collective(2, 100, 500, 1, 0), part(3, "Notify_Wait", 110, 390, 5),
                  part(4, "Memcpy", 500, 100, 5), run={"world_size": 8})  # fmt: skip


def test_a_peer_that_was_not_captured_may_come_earlier() -> None:
    run = missing_peer()
    assert us(run, Change(peers=ids(2), peer_ns=ids(200_000))) == 200
    # Not earlier than the rank itself is ready.
    assert us(run, Change(peers=ids(2), peer_ns=ids(10**9))) == 390
    # The transfer behind it may be shorter as well.
    assert us(run, Change(tasks=ids(2), task_ns=ids(60_000))) == 60


def test_where_no_launch_is_known_gaps_close() -> None:
    run = run_of(mark(500), task(2, 22, 100, None), task(4, 300, 100, None), task(6, 450, 50, None, stream="s1"))
    assert us(run, host((100, 300))) == 178
    assert us(run, host((130, 180), (410, 420))) == 60
    assert us(run, Change(tasks=ids(4), task_ns=ids(25_000))) == 25


def test_more_never_saves_less_and_never_more_than_there_is() -> None:
    con = empty_connection()
    for seed in range(16):
        fill(con, seed)
        run, draw = Run(con), random.Random(seed)
        spans = [number for (number,) in con.execute("SELECT span_id FROM span ORDER BY 1").fetchall()]
        one, other = _any(run, draw, spans), _any(run, draw, spans)
        savings = [saved_ns(run, change) for change in (one, other, one | other)]
        assert 0 <= max(savings[:2]) <= savings[2] <= run.wall_ns


def _any(run: Run, draw: random.Random, spans: list[int]) -> Change:
    def some() -> tuple[Any, Any]:
        chosen = sorted(draw.sample(spans, min(len(spans), draw.randrange(8))))
        return ids(*chosen), ids(*(draw.randrange(1, 5_000) for _ in chosen))

    windows = {}
    for rank in run.ranks:
        begin, end = run.window(rank) or (0, 0)
        if begin < end:
            edges = np.sort([draw.randrange(begin, end) for _ in range(6)])
            windows[rank] = Intervals.union_of(edges[::2], edges[1::2])
    return Change(windows, *some(), *some(), some()[0], *some())
