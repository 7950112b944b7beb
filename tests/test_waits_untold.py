"""Collectives of which a member is missing: what its lateness costs at most, and what transfers do (times in us)."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.engine import check
from npulens.analysis.ranks.exposure import untold, waiting_at_most
from npulens.analysis.run import Run
from npulens.app.text import wording
from tests.tablecase import connection


def job(*lengths: int, beside: int = 0, ranks: int = 1) -> Any:
    """All-reduces of one size of two ranks, 1,000 apart; a kernel beside the first for so long."""
    spans: list[dict[str, Any]] = []
    for rank in range(ranks):
        step = {"kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 9_000}
        spans.append({"id": 900 + rank, "rank": rank, **step})
        for n, length in enumerate(lengths):
            late = rank * 30 * (n == 0)  # rank 1 comes 30 later to the first
            number = 100 * rank + 2 * n + 1
            spans.append({
                "id": number, "rank": rank, "kind": "comm_op", "name": f"ncclDevKernel_AllReduce_{n}",
                "at": 1_000 * n + late, "for": length - late, "track": "g",
                "comm": {"collective": "allreduce", "group_name": "g", "bytes": 4096, "op_span_id": number},
            })  # fmt: skip
        spans.append({"id": 80 + rank, "rank": rank, "kind": "kernel", "name": "mm", "at": 8_000, "for": 1_000})
        if beside:
            spans.append({"id": 90 + rank, "rank": rank, "kind": "kernel", "name": "k", "at": 10, "for": beside})
    group = [{"group_name": "g", "rank": 0, "kind": "dp", "ranks": list(range(ranks + 1)), "source": "case"}]
    return connection({"spans": spans, "run": {"world_size": ranks + 1}, "tables": {"parallel_group": group}})


@pytest.mark.parametrize(("beside", "exposed", "most"), [(0, 300, 500), (40, 200, 460)])
def test_all_of_an_operator_may_be_waiting_or_transfer(beside: int, exposed: int, most: int) -> None:
    """The third takes 200 longer than the others: that much is told. All three may be the one as well as the other.

    Beside the first a kernel runs. The second follows it, so that a shorter first one gives nothing back.
    """
    con = job(100, 100, 300, beside=beside)
    assert Run(con).get(waiting_at_most) == most * 1_000
    said = check(con, only=["late_rank", "comm_exposed"])
    told = {one.cause: (one.saving_ns, one.saving_most_ns) for one in said.findings}
    assert told == {"late_rank": (200_000, most * 1_000), "comm_exposed": (exposed * 1_000, most * 1_000)}
    (late,) = [one for one in said.findings if one.cause == "late_rank"]
    assert wording.interval(late, "en") == (
        f"Not all of this was recorded: a fix gives back between 200 µs and {most} µs."
    )


def test_what_captured_members_waited_for_each_other_is_told() -> None:
    """Rank 1 comes 30 after rank 0 to the first: only from then on may both have waited for a third."""
    run = Run(job(100, 100, 300, ranks=2))
    part, first = run.get(untold), [0, 3]
    assert (part.end - part.start)[first].tolist() == [70_000, 70_000]
