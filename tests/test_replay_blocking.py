"""A copy that waits for the device by definition, and whose call seems to return before it is done."""

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
