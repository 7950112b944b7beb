"""Calls that wait for the device: a copy whose call seems to return before it is done, a free that frees after it."""

from __future__ import annotations

import numpy as np
import pytest

from npulens.analysis.finding import Change
from npulens.analysis.replay import whatif
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
