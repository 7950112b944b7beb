"""Calls that wait for the device: a copy whose call seems to return before it is done, a free that frees after it."""

from __future__ import annotations

import numpy as np
import pytest

from npulens.analysis.finding import Change
from npulens.analysis.replay import whatif
from npulens.analysis.replay.critical import critical_path
from npulens.analysis.run import Run
from tests.tablecase import connection
from tests.test_idle import span


@pytest.mark.parametrize(
    ("name", "returns", "saved"),
    [("hipMemcpyWithStream", 1016, 900), ("hipMemcpyWithStream", 1008, 900), ("cudaMemcpy", 1008, 900),
     ("cudaMemcpyAsync", 1008, 0)],
)  # fmt: skip
def test_the_time_in_such_a_call_is_the_devices(name: str, returns: float, saved: float) -> None:
    """A kernel of 1000 us, a copy behind it (1004 to 1014) whose call began at 10, and what follows; 900 us less of it.

    An asynchronous call does not wait: the host was busy in it, whatever the device did.
    """
    spans = [
        span(1, "runtime", "hipLaunchKernel", 0, 5), span(2, "kernel", "a", 4, 996, by=1),
        span(3, "runtime", name, 10, returns - 10), span(4, "memcpy", "HtoD", 1004, 10, by=3),
        span(5, "runtime", "hipLaunchKernel", 1040, 5), span(6, "kernel", "b", 1050, 100, by=5),
    ]  # fmt: skip
    run = Run(connection({"spans": spans}))
    shorter = Change(tasks=np.array([2]), task_ns=np.array([900_000]))
    assert whatif.saved_ns(run, shorter) == pytest.approx(saved * 1000, abs=40_000)


@pytest.mark.parametrize(("late", "kernel", "saved"), [(0.3, 10, 9), (0.9, 10, 0), (0.3, 1, 0)])
def test_a_free_that_waited_first_takes_its_own_time_after_it(late: float, kernel: float, saved: float) -> None:
    """Frees take 0.4 ms. One lasts from 5.1 ms until `late` after a kernel (5 to 5 + 10 ms) is done, then work follows.

    Much later than a free takes (0.9) the host did something else; a wait shorter than a few frees (1 ms) is none.
    """
    end = 5 + kernel
    spans = [
        span(1, "runtime", "cudaLaunchKernel", 0, 5), span(2, "kernel", "a", 10, 100, by=1),
        *(span(10 + number, "runtime", "cudaFree", 500 + 500 * number, 400) for number in range(4)),
        span(20, "runtime", "cudaLaunchKernel", 4_990, 5), span(21, "kernel", "a", 5_000, 1_000 * kernel, by=20),
        span(22, "runtime", "cudaFree", 5_100, 1_000 * (end + late) - 5_100),
        span(23, "runtime", "cudaLaunchKernel", 1_000 * (end + late) + 10, 5),
        span(24, "kernel", "b", 1_000 * (end + late) + 20, 100, by=23),
    ]  # fmt: skip
    run = Run(connection({"spans": spans}))
    shorter = Change(tasks=np.array([21]), task_ns=np.array([int(900_000 * kernel)]))
    assert whatif.saved_ns(run, shorter) == pytest.approx(saved * 1e6, abs=350_000)


@pytest.mark.parametrize(("returns", "saved"), [(4_500, 4_000), (2_000, 0)])
def test_a_long_copy_whose_call_goes_on_for_most_of_it_is_waited_for(returns: float, saved: float) -> None:
    """A copy of 4,330 us (250 to 4,580) from pageable memory. Its call returns 80 us before it ends, or half way.

    Half way the host did something else, and 4,000 us less of the copy give nothing back to what it launches later.
    """
    spans = [
        span(8, "runtime", "cudaLaunchKernel", 0, 2), span(9, "kernel", "a", 4, 5, by=8),
        span(1, "runtime", "cudaMemcpyAsync", 10, returns - 10), span(2, "memcpy", "HtoD", 250, 4_330, by=1),
        span(3, "cpu_op", "aten::add", returns + 5, 4_700 - returns), span(4, "runtime", "cudaLaunchKernel", 4_706, 5),
        span(5, "kernel", "b", 4_720, 100, by=4),
    ]  # fmt: skip
    run = Run(connection({"spans": spans}))
    shorter = Change(tasks=np.array([2]), task_ns=np.array([4_000_000]), syncs=np.array([1]))
    assert whatif.saved_ns(run, shorter) == pytest.approx(saved * 1000, abs=250_000)


def launched_into_a_queue(depth: int, long: int, aside: int = 0) -> Run:
    """600 kernels of 40 us. Each launch takes 4 us, 2 us after the last, and waits while `depth` have not begun.

    Every 10th takes `long` us more for a reason of the host's own. Another thread launches `aside` kernels of 1 us into
    a queue of its own when 400 are launched; that runs after ten kernels more.
    """
    spans, begun, free, now = list[dict[str, object]](), list[int](), 0, 0
    for number in range(600):
        began = now
        now += 4 + (long if number % 10 == 9 else 0)
        if number >= depth:
            now = max(now, begun[number - depth] + 1)
        begun.append(max(free, now + 6))
        free = begun[-1] + 40
        spans += [
            span(1 + 2 * number, "runtime", "cudaLaunchKernel", began, now - began),
            span(2 + 2 * number, "kernel", "k", begun[-1], 40, by=1 + 2 * number),
        ]
        now += 2
    for number in range(aside):
        spans += [
            span(2_001 + 2 * number, "runtime", "cudaLaunchKernel", begun[400] - 12_000 + 2 * number, 1, track="t1"),
            span(2_002 + 2 * number, "kernel", "k", begun[110] + number, 1, by=2_001 + 2 * number, track="s1"),
        ]
    return Run(connection({"spans": spans}))


@pytest.mark.parametrize(("depth", "long", "saved"), [(300, 0, 18_000), (1_000, 0, 18_000), (1_000, 380, 30)])
def test_a_launch_that_waits_for_a_place_in_the_queue_returns_earlier(depth: int, long: int, saved: float) -> None:
    """Three quarters of each kernel are three quarters of 24,000 us, if only the queue holds the host up.

    Where the host takes 444 us for ten kernels of 400, the device waits for it: the last kernel alone gives something.
    """
    run = launched_into_a_queue(depth, long)
    shorter = Change(tasks=np.arange(2, 1_202, 2), task_ns=np.full(600, 30_000))
    assert whatif.saved_ns(run, shorter) == pytest.approx(1_000 * saved, rel=0.01)


def test_a_queue_beside_it_makes_no_other_queue_deeper() -> None:
    """For ten launches eight more kernels wait, in another queue. At most those ten are not known to have waited."""
    run = launched_into_a_queue(300, 0, aside=8)
    shorter = Change(tasks=np.arange(2, 1_202, 2), task_ns=np.full(600, 30_000))
    assert 18_000 - 10 * 40 <= whatif.saved_ns(run, shorter) / 1_000 <= 18_000


def asked(lengths: tuple[int, ...], early: tuple[int, ...], every: int = 0) -> Run:
    """Rounds of so many us. Three launches, then silence until so long before the kernel "notify" of the round ends.

    "work" runs from 10 us on; 1,000 us before the round ends "notify" follows it, and "rest" fills the device until
    then. With `every` the host asks an event so often meanwhile.
    """
    spans, now, number = list[dict[str, object]](), 0, 100
    for length, before in zip(lengths, early, strict=True):
        worked = now + length - 1_000
        kernels = (("work", "s0", now + 20, worked), ("rest", "s0", worked + 1, now + length),
                   ("notify", "s1", worked + 3, now + length))  # fmt: skip
        for place, (name, track, begin, end) in enumerate(kernels):
            spans += [
                span(number, "runtime", "cudaLaunchKernel", now + 5 * place, 4),
                span(number + 1, "kernel", name, begin, end - begin, by=number, track=track),
            ]
            number += 2
        asks = range(now + 500, now + length - 500, every) if every else ()
        spans += [span(number + place, "runtime", "cudaEventQuery", at, 1) for place, at in enumerate(asks)]
        number += len(asks)
        now += length - before
    spans += [
        span(1, "runtime", "cudaLaunchKernel", now, 4), span(2, "kernel", "b", now + 1_000, 100, by=1),
    ]  # fmt: skip
    return Run(connection({"spans": spans}))


UNEQUAL, SOON = (5_000, 9_000, 7_000, 12_000), (50, 60, 40, 50)


@pytest.mark.parametrize(
    ("lengths", "early", "every", "saved"),
    [
        (UNEQUAL, SOON, 0, 4_000),
        (UNEQUAL, (-50, -60, -40, -50), 0, 4_000),
        (UNEQUAL, SOON, 1_000, 4_000),
        (UNEQUAL, (50, -300, -400, -600), 0, 0),  # three of four end later
        ((9_000, 9_000, 9_000, 9_000), SOON, 0, 0),  # any work of that length would end so
        (UNEQUAL[:2], SOON[:2], 0, 0),  # two may be chance
    ],
)
def test_a_host_that_asks_for_a_kernel_waits_for_it(
    lengths: tuple[int, ...], early: tuple[int, ...], every: int, saved: float
) -> None:
    """Each "work" is 1,000 us shorter: so is the round, if the host only waits for "notify" behind it."""
    run = asked(lengths, early, every)
    work = np.array([row[0] for row in run.con.execute("SELECT span_id FROM span WHERE name = 'work'").fetchall()])
    shorter = Change(tasks=work, task_ns=np.full(len(work), 1_000_000))
    assert whatif.saved_ns(run, shorter) == pytest.approx(saved * 1000, abs=150_000)


def test_a_kernel_whose_result_the_host_reads_before_it_ends_holds_the_host_up() -> None:
    """Each "notify" is 500 us shorter: so is the round. Nothing else of the run is."""
    run = asked(UNEQUAL, SOON)
    spans = [row[0] for row in run.con.execute("SELECT span_id FROM span WHERE name IN ('notify', 'rest')").fetchall()]
    shorter = Change(tasks=np.array(spans), task_ns=np.full(len(spans), 500_000))
    assert whatif.saved_ns(run, shorter) == pytest.approx(2_000_000, abs=150_000)
    assert max(critical_path(run), key=lambda one: one.dur_ns).what == "kernel"
