"""How far the device is behind the host's marks, by hand, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from npulens.analysis.device.kernels import kernels
from npulens.analysis.device.spent import kernel_time
from npulens.analysis.idle.behind import Behind, as_judged, behind, counted
from npulens.analysis.idle.pieces import idle
from npulens.analysis.quality import quality
from npulens.analysis.run import Run
from npulens.analysis.steady import steady_ns
from tests.tablecase import connection

US = 1_000


def case(marks: list[int], tasks: list[tuple[int, int, int | None]]) -> Run:
    """`tasks`: start, length, and when it was launched; nobody knows of those without."""
    spans: list[dict[str, Any]] = []
    for number, at in enumerate(marks):
        spans.append({"id": 1 + number, "kind": "step_mark", "name": f"ProfilerStep#{number}", "at": at, "for": 100})
    for number, (at, length, launched) in enumerate(tasks):
        kernel = {"id": 1000 + number, "kind": "kernel", "name": "k", "at": at, "for": length, "stream": 7}
        if launched is not None:
            spans.append({"id": 100 + number, "kind": "runtime", "name": "launch", "at": launched, "for": 1})
            kernel["by"] = 100 + number
        spans.append(kernel)
    return Run(connection({"spans": spans}))


def test_a_host_that_runs_ahead() -> None:
    """Launches at the beginning of each step of 100 us; the device begins 60 us later and works 100 us on each."""
    run = case([0, 100, 200, 300], [(60 + 100 * n, 100, 100 * n) for n in range(4)])
    assert run.get(behind) == {0: Behind(60 * US, 0, 0)}
    (told,) = [doubt.text[0] for doubt in quality(run).doubts if doubt.name == "lag"]
    assert told.startswith("rank 0: the device is 60.0 µs behind the host when a step begins")


def test_work_from_before_is_not_of_the_steps() -> None:
    """60 us of work that nobody launched, then four steps of 100 us: 460 us to the end, of which 60 are not theirs."""
    run = case([0, 100, 200, 300], [(0, 60, None), *((60 + 100 * n, 100, 100 * n) for n in range(4))])
    assert run.get(behind) == {0: Behind(60 * US, 60 * US, 60 * US)}
    (told,) = [doubt.text[0] for doubt in quality(run).doubts if doubt.name == "early"]
    assert told.endswith("for 60.0 µs of it: without that the mean step is 100 µs")


def test_what_came_before_the_first_recorded_task_is_not_known() -> None:
    """Marks of 100 us from 0 on. The first task of 20 us starts at 40 and was launched before the recording.

    So the device may have worked off older work until 40: not idle, and not busy by what is recorded.
    """
    run = case([0, 100, 200, 300], [(40, 20, None), *((60 + 100 * n, 100, 100 * n) for n in range(4))])
    assert run.get(behind) == {0: Behind(60 * US, 60 * US, 20 * US)}
    assert run.get(idle).by_rank("backlog") == {0: 40 * US} and not run.get(idle).by_rank("unknown").get(0)
    (told,) = [doubt.text[0] for doubt in quality(run).doubts if doubt.name == "early"]
    assert "ends 60.0 µs after it begins. 20.0 µs of that work is recorded" in told
    assert told.endswith("what the device did in the rest is not known: without all of it the mean step is 100 µs")


def test_a_launch_that_was_lost_is_not_from_before() -> None:
    """Where most launches are lost, or the host had waited until the device was empty, the gap stays without reason."""
    run = case([0, 100, 200, 300], [(40, 20, None), (60, 100, 0), *((160 + 100 * n, 100, None) for n in range(3))])
    assert not run.get(idle).by_rank("backlog").get(0) and run.get(idle).by_rank("unknown")[0] == 40 * US


def test_each_step_has_its_own_kernels_and_none_from_before() -> None:
    """Three kernels from before, 60 us of 460. A kernel of 100 us a step is all of the 100 us that a step takes."""
    before = [(20 * n, 20, None) for n in range(3)]
    run = case([0, 100, 200, 300], [*before, *((60 + 100 * n, 100, 100 * n) for n in range(4))])
    assert run.get(kernels).dur.tolist() == [20 * US] * 3 + [100 * US] * 4
    run = as_judged(run)
    assert run.get(kernels).dur.tolist() == [100 * US] * 4
    found = run.get(kernel_time)
    assert found is not None and (found.whole_ns, found.per) == (400 * US, 4)
    assert run.wall_ns == 460 * US and run.get(steady_ns) == 400 * US
    assert counted(run, np.array([0, 0]), np.array([20 * US, 60 * US])).tolist() == [False, True]


def test_a_device_that_waits_for_each_step_is_not_behind() -> None:
    run = case([0, 100, 200, 300], [(10 + 100 * n, 80, 100 * n) for n in range(4)])
    assert run.get(behind) == {0: Behind(0, 0, 0)}
    assert not {"lag", "early"} & {doubt.name for doubt in quality(run).doubts}


def test_lengths_of_marks_are_no_warm_up_where_the_device_is_behind() -> None:
    """The host is done with later steps in 10 us; the device takes 100 us for each."""
    run = case([0, 100, 110, 120], [(5 + 100 * n, 100, (0, 100, 110, 120)[n]) for n in range(4)])
    names = {doubt.name for doubt in quality(run).doubts}
    assert "warm_up" not in names and "lag" in names
