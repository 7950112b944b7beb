"""Gaps between queued kernels where a launched graph begins or ends: what one graph of the whole step would remove."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.engine import check
from npulens.analysis.finding import Finding
from tests.tablecase import connection
from tests.test_idle import span

ROUNDS = 10
CUDA = {0: {"backend": "cuda", "formats": ["kineto"]}}


def job(outside: str, plain: int = 0, enter: float = 0.001, leave: float = 12) -> list[dict[str, Any]]:
    """Launches of 1 us within the first kernel (130). Then ten rounds of a graph of two nodes and a kernel outside.

    A kernel takes 40. A graph begins `enter` after the kernel before, what is outside of it `leave` after the graph. So
    many plain kernels (`plain`) follow at last, 20 apart.
    """
    spans = [span(2, "runtime", "cudaLaunchKernel", 0, 1), span(3, "kernel", "first", 30, 100, by=2)]
    at, number, call = 130.0, 4, 2.0
    for _ in range(ROUNDS):
        spans += [span(number, "runtime", "cudaGraphLaunch", call, 1),
                  span(number + 1, "kernel", "node", at + enter, 40, by=number),
                  span(number + 2, "kernel", "node", at + enter + 40, 40, by=number),
                  span(number + 3, "runtime", outside, call + 2, 1),
                  span(number + 4, "kernel", "cache", at + enter + 80 + leave, 40, by=number + 3)]  # fmt: skip
        at, number, call = at + enter + 80 + leave + 40, number + 5, call + 4
    for _ in range(plain):
        spans += [span(number, "runtime", "cudaLaunchKernel", call, 1),
                  span(number + 1, "kernel", "alone", at + 20, 40, by=number)]  # fmt: skip
        at, number, call = at + 60, number + 2, call + 2
    return [span(1, "step_mark", "ProfilerStep#1", 0, call), *spans]


def found(spans: list[dict[str, Any]]) -> Finding:
    (one,) = check(connection({"spans": spans, "rank": CUDA}), ["launch_overhead"]).findings
    return one


def test_the_cost_of_leaving_a_graph_is_told_and_gaps_of_nothing_do_not_count() -> None:
    """Ten gaps of 12 and ten of 1 ns; the launch of round r is over at 5 + 4 r, the graph at 130 + 80.001 + 132.001 r.

    So it had returned 205.001 + 128.001 r before: the median lies between r = 4 and 5.
    """
    one = found(job("cudaLaunchKernel"))
    assert (one.numbers["kernels"], one.numbers["gap_ns"], one.numbers["lead_ns"]) == (10, 12_000, 781_005)
    assert one.numbers["edge_share"] == 1.0 and one.numbers["type"] == "cache"
    assert one.saving_ns == 120_000
    assert "between queued kernels, 100 % of that where a graph begins or ends" in one.words["en"].title
    assert "Capture the step as one whole graph" in one.words["en"].advice
    assert "takes the device 12.0 µs (median of 10 gaps). Outside is most often cache." in one.words["en"].advice
    assert "图的开始或结束处" in one.words["zh"].title and "捕获为一张图" in one.words["zh"].advice


def test_between_two_graphs_nothing_lies_outside() -> None:
    one = found(job("cudaGraphLaunch", enter=0))
    assert one.numbers["edge_share"] == 1.0 and one.numbers["type"] is None
    assert "Outside" not in one.words["en"].advice and "图外最常见" not in one.words["zh"].advice


def test_entering_a_graph_costs_as_well() -> None:
    """Ten gaps of 9 before graphs, the first behind the long kernel; ten of 3 behind them."""
    one = found(job("cudaLaunchKernel", enter=9, leave=3))
    assert (one.numbers["kernels"], one.numbers["gap_ns"], one.numbers["edge_share"]) == (20, 6_000, 1.0)
    assert one.numbers["type"] == "cache"


@pytest.mark.parametrize(("plain", "share"), [(14, 0.3), (60, None)])
def test_a_smaller_part_is_told_besides(plain: int, share: float | None) -> None:
    """120 at graphs and 280 between plain kernels; or 1,200, of which 120 is less than a tenth."""
    one = found(job("cudaLaunchKernel", plain, enter=0))
    assert one.numbers["edge_share"] == share and one.numbers["gap_ns"] == 20_000
    assert one.numbers["kernels"] == ROUNDS + plain
    assert "20.0 µs before each of" in one.words["en"].title
    assert ("30.0 % of the time is where a launched graph begins or ends" in one.words["en"].advice) == bool(share)
    assert ("合成一张整图" in one.words["zh"].advice) == bool(share)
