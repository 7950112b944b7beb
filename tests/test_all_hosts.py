"""Hosts that are late on all ranks of a job, where only the last one leaves its device idle."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.engine import Check, check
from npulens.analysis.ranks.behind_waits import behind_waits
from npulens.analysis.replay.whatif import saved_ns
from npulens.analysis.run import Run
from tests.tablecase import connection

ROUNDS, LATE, KERNEL, TRANSFER = 12, 950, 50, 40


def begins(number: int) -> int:
    """When a host comes to a round: the rounds are of uneven length, so that ends prove what belongs together."""
    return 1_000 * number + 7 * number * number


def job(slow: bool, missing: bool = False) -> Run:
    """Rank 0 comes 950 us late to every round and its device idles until then, rank 1 waits for it in an all-reduce.

    `slow`: rank 1's host takes as long for each round, before it launches the next. Else it launches all of them at
    once. A round is a kernel of 50 and an all-reduce that takes 40 once both are there.
    """
    spans: list[dict[str, Any]] = []
    for rank in (0, 1):
        base = 1_000 * rank
        launched = begins(ROUNDS - 1) if slow or rank == 0 else 20 * ROUNDS
        spans.append({"id": base + 1, "rank": rank, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0,
                      "for": launched + 10 if rank else launched + LATE + 10})  # fmt: skip
        for number in range(ROUNDS):
            meets = begins(number) + LATE + 10 + KERNEL
            at = begins(number) + LATE if rank == 0 else begins(number) if slow else 20 * number
            free = 0 if number == 0 else begins(number - 1) + LATE + 10 + KERNEL + TRANSFER
            starts, one = max(at + 10, free), base + 10 * number + 10
            spans += [
                {"id": one, "rank": rank, "kind": "runtime", "name": "cudaLaunchKernel", "at": at, "for": 2},
                {"id": one + 1, "rank": rank, "kind": "kernel", "name": "gemm", "at": starts, "for": KERNEL, "by": one},
                {"id": one + 2, "rank": rank, "kind": "runtime", "name": "cudaLaunchKernel", "at": at + 4, "for": 2},
                {"id": one + 3, "rank": rank, "kind": "comm_op", "name": "ncclDevKernel_AllReduce", "track": "s0",
                 "at": starts + KERNEL, "for": meets + TRANSFER - starts - KERNEL, "by": one + 2,
                 "comm": {"op_span_id": one + 3, "collective": "allreduce", "group_name": "tp", "bytes": 1000}},
            ]  # fmt: skip
    size = {"world_size": 3, "missing_ranks": [2]} if missing else {"world_size": 2, "missing_ranks": []}
    return Run(connection({"spans": spans, "run": size, "rank": {rank: {"backend": "cuda"} for rank in (0, 1)}}))


def told(run: Run) -> Check:
    return check(run.con, ["host_late"])


def test_the_saving_is_that_of_all_hosts_where_the_others_hide_behind_waits() -> None:
    """Rank 1 waits nearly as long as rank 0 idles.

    Rank 0 alone: rank 1 still launches the last round at begins(11), so 950 of the run are gone and no more. All:
    what stays of a round is what its device does, at most 100, and launches of 10.
    """
    (finding,) = told(job(True)).findings
    wall = begins(ROUNDS - 1) + LATE + 10 + KERNEL + TRANSFER
    assert finding.numbers["hosts"] == 2 and finding.numbers["ranks"] == "0"
    alone = finding.numbers["alone_ns"]
    assert isinstance(alone, int) and abs(alone - LATE * 1_000) <= 20_000
    assert (wall - ROUNDS * 120) * 1_000 <= finding.saving_ns <= (wall - ROUNDS * (KERNEL + TRANSFER)) * 1_000
    title, advice = finding.words["en"].title, finding.words["en"].advice
    assert title.endswith("; hosts are slow on all 2 captured ranks") and "on all 2 captured" in advice
    assert "Without the other ranks it is 9" in advice
    zh = finding.words["zh"]
    assert zh.title.endswith("；已采集的全部 2 张卡主机都慢") and "只改善 rank 0" in zh.advice
    assert set(finding.change.host) == {0, 1}


def test_one_slow_host_is_told_as_that() -> None:
    """Rank 1 launched everything at the beginning: its waits are not its host's, and rank 0 alone gives all back."""
    (finding,) = told(job(False)).findings
    assert "hosts" not in finding.numbers and set(finding.change.host) == {0}
    assert "all 2" not in finding.words["en"].title + finding.words["en"].advice


def test_waits_are_without_computing_and_without_causes_of_their_own() -> None:
    """Rank 1 waits from the end of its kernel until rank 0 is there; rank 0 never waits."""
    run = job(True)
    found = run.get(behind_waits)
    assert set(found) == {1}
    first = (int(found[1].starts[0]), int(found[1].ends[0]))
    assert first == (60_000, (LATE + 10 + KERNEL) * 1_000)
    run.con.execute("UPDATE span SET kind = 'gc', ts_ns = 100000, dur_ns = 50000 WHERE span_id = 1030")
    assert run.get(behind_waits) is found
    again = Run(run.con).get(behind_waits)[1]
    assert [(int(a), int(b)) for a, b in zip(again.starts[:2], again.ends[:2], strict=True)] == [
        (60_000, 100_000), (150_000, (LATE + 10 + KERNEL) * 1_000),
    ]  # fmt: skip


@pytest.mark.parametrize("missing", [False, True])
def test_the_saving_is_never_more_than_the_replay_gives(missing: bool) -> None:
    run = job(True, missing)
    for finding in told(run).findings:
        assert finding.saving_ns <= saved_ns(run, finding.change)
