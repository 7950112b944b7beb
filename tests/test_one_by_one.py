"""Many small collectives that the host launches one by one: told by count and time, where no size was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from npulens.analysis.engine import Check, check
from tests.tablecase import connection

#: Every 100 us a launch of 10 us, whose collective begins 20 us after it and takes 5 us.
EVERY, CALL, LATENCY, TAKES = 100, 10, 20, 5
COUNT = 32


def row(
    count: int = COUNT, takes: int = TAKES, collective: str = "allreduce", call: int | None = None,
    between: Mapping[str, Any] | None = None, size: int | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """A step with so many collectives, from 100 us on. `call`: the one call that launches all of them.

    `between`: the kernel that is launched 50 us after each of them, and runs 20 us later for 10 us.
    """
    spans: list[dict[str, Any]] = [
        {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": EVERY * (count + 1) + 50}
    ]
    if call is not None:
        spans.append({"id": 2, "kind": "runtime", "name": "cudaGraphLaunch", "at": call, "for": CALL})
    for number in range(count):
        at, first = EVERY * (number + 1), 10 * (number + 1)
        if call is None:
            spans.append({"id": first, "kind": "runtime", "name": "cudaLaunchKernel", "at": at, "for": CALL})
        spans.append({
            "id": first + 1, "kind": "comm_op", "name": "ncclDevKernel_AllReduce_Sum_f32", "track": "s1",
            "at": at + LATENCY, "for": takes, "by": 2 if call is not None else first, "route": "correlation",
            "comm": {"op_span_id": first + 1, "collective": collective, "group_name": "g", "bytes": size},
        })  # fmt: skip
        if between is not None:
            spans += [
                {"id": first + 2, "kind": "runtime", "name": "cudaLaunchKernel", "at": at + 50, "for": CALL},
                {"id": first + 3, "kind": "kernel", "name": "elementwise_kernel", "at": at + 70, "for": 10,
                 "by": first + 2, "route": "correlation", "kernel": between},
            ]  # fmt: skip
    return spans


def said(spans: Sequence[Mapping[str, Any]]) -> Check:
    gpu = {"backend": "cuda", "formats": ["kineto"]}
    case = {"run": {"world_size": 2, "missing_ranks": [1], "formats": ["kineto"]}, "rank": {0: gpu}, "spans": spans}
    return check(connection(case), only=["small_packets"])


def test_what_is_lost_is_told_by_count_and_time() -> None:
    """The device idles 95 us between two of them: 31 times. With one in their place the host needs 31 x 100 us less."""
    (found,) = said(row()).findings
    assert found.words["en"].title == (
        "Rank 0: 32 allreduce operators of the step are launched one by one. Each takes 5.00 µs, the host 100 µs from "
        "one to the next; the device idles 2.94 ms (87.9 %) between them"
    )
    assert (found.numbers["idle_ns"], found.numbers["host_ns"]) == (31 * 95_000, 100_000)
    assert found.saving_ns == 3_100_000
    assert "32 个 allreduce 算子被逐个下发" in found.words["zh"].title
    assert "MiB each" not in found.words["en"].advice and "_coalescing_manager" in found.words["en"].advice


def test_the_size_is_said_where_it_was_recorded() -> None:
    (found,) = said(row(size=4096)).findings
    assert "these have 4.00 KiB each" in found.words["en"].advice


def test_a_copy_or_a_cast_may_lie_between() -> None:
    (found,) = said(row(between={"op_type": "Cast"})).findings
    assert found.numbers["idle_ns"] == 31 * 85_000


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param(row(count=31), id="too few"),
        pytest.param(row(takes=60), id="not short"),
        pytest.param(row(collective="alltoall"), id="an all-to-all carries what was sorted for it"),
        pytest.param(row(call=90), id="one call launches all, as a graph"),
        pytest.param(row(between={"op_type": "MatMulV2"}), id="a product may need the result before it"),
        pytest.param(row(between={"op_type": "MyKernel"}), id="so may what nobody knows"),
        pytest.param([
            *row(), {"id": 5000, "kind": "runtime", "name": "cudaLaunchKernel", "at": 1, "for": 5},
            {"id": 5001, "kind": "kernel", "name": "gemm", "at": 20, "for": 3300, "track": "s2", "by": 5000,
             "route": "correlation"},
        ], id="the device computes meanwhile"),
    ],
)  # fmt: skip
def test_nothing_is_said_of_others(spans: Sequence[Mapping[str, Any]]) -> None:
    told = said(spans)
    assert not told.findings and told.outcomes[0].outcome == "not_measured"


def test_a_pause_of_the_host_ends_the_row() -> None:
    """20 before it and 12 after it: each too few."""
    spans = [
        {**span, "at": span["at"] + (3000 if span["at"] >= EVERY * 21 else 0)} if span["kind"] != "step_mark"
        else {**span, "for": span["for"] + 3000} for span in row()
    ]  # fmt: skip
    assert not said(spans).findings
