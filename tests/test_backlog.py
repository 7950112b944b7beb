"""A capture may begin while the device still works: what was launched before is in the way, and was not recorded."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.engine import check
from npulens.analysis.idle.pieces import idle
from npulens.analysis.run import Run
from npulens.analysis.views import install
from tests.tablecase import connection
from tests.test_idle import pieces, span


def begun(start: float, *before: dict[str, Any], stream: str = "s1", rank: int = 0) -> list[dict[str, Any]]:
    """A step in which the host launches a kernel after 200 us, which the device starts much later."""
    at = {"rank": rank}
    return [
        span(1 + 100 * rank, "step_mark", "ProfilerStep#1", 0, 10_000, **at), *before,
        span(2 + 100 * rank, "runtime", "cudaLaunchKernel", 200, 5, **at),
        span(3 + 100 * rank, "kernel", "a", start, 10_000 - start, by=2 + 100 * rank, track=stream, **at),
    ]  # fmt: skip


#: A launch takes 20 us, and three times that is slow; the call's own 5 us are the host's.
def causes(spans: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    return [(cause, start, end) for cause, start, end, _ in pieces(spans)]


def test_the_first_task_of_a_stream_waits_for_work_from_before() -> None:
    """It waited before the launch as well: the device had that work since the recording began."""
    assert causes(begun(8_000)) == [("backlog", 0, 8_000)]


def test_a_host_that_has_waited_for_the_device_left_it_empty() -> None:
    waited = span(4, "runtime", "cudaDeviceSynchronize", 50, 100)
    assert causes(begun(8_000, waited)) == [
        ("host_late", 0, 50), ("sync_stall", 50, 150), ("host_late", 150, 205), ("backlog", 205, 8_000),
    ]  # fmt: skip


def test_a_late_host_before_a_slow_first_start_stays_late() -> None:
    """The host launches after 5 ms, the device starts 1.5 ms later: work from before does not explain the 5."""
    late = begun(6_500)
    late[1] |= {"at": 5_000}
    assert causes(late) == [("host_late", 0, 5_005), ("backlog", 5_005, 6_500)]


def test_a_little_work_on_another_stream_changes_nothing() -> None:
    other = [span(4, "runtime", "cudaLaunchKernel", 10, 5), span(5, "kernel", "b", 20, 5, by=4, track="s2")]
    assert ("backlog", 25, 8_000) in causes(begun(8_000, *other))


@pytest.mark.parametrize(("track", "length"), [("s1", 5), ("s2", 140)])
def test_a_stream_that_was_seen_and_a_device_that_worked_say_nothing_of_before(track: str, length: float) -> None:
    other = [span(4, "runtime", "cudaLaunchKernel", 10, 5), span(5, "kernel", "b", 20, length, by=4, track=track)]
    assert ("unknown", 265, 8_000) in causes(begun(8_000, *other))


def test_a_short_wait_is_no_work_from_before() -> None:
    assert causes(begun(1_100))[-1] == ("unknown", 265, 1_100)


def test_each_rank_has_a_beginning_of_its_own() -> None:
    run = Run(connection({"spans": [*begun(8_000), *begun(8_000, stream="s9", rank=1)]}))
    assert run.get(idle).by_rank("backlog") == {0: 8_000_000, 1: 8_000_000}


@pytest.mark.parametrize(("start", "doubts", "outcome"), [(8_000, ["backlog"], "clean"), (1_100, [], "found")])
def test_it_is_a_doubt_and_no_finding(start: float, doubts: list[str], outcome: str) -> None:
    con = connection({"spans": begun(start)})
    install(con)
    said = check(con, ["idle_unexplained"])
    assert [one.outcome for one in said.outcomes] == [outcome]
    assert [doubt.name for doubt in said.quality.doubts if doubt.name == "backlog"] == doubts
