"""How long a peer that was not captured can have been late: not since before the last collective that it was in."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.replay.critical import critical_path
from npulens.analysis.run import Run
from tests.tablecase import connection
from tests.test_idle import span

EVERYBODY, PAIR, OTHERS = [0, 1, 2, 3], [0, 1], [0, 2]


def group(name: str, ranks: list[int]) -> dict[str, Any]:
    return {"group_name": name, "rank": 0, "ranks": ranks, "source": "made"}


def operator(number: int, at: float, length: float, kind: str, **comm: Any) -> list[dict[str, Any]]:
    """An operator, launched 2 before. Those of one kind are in a lane of their own."""
    return [
        span(number, "runtime", "cudaLaunchKernel", at - 2, 1),
        span(number + 1, "comm_op", kind, at, length, by=number, track=kind,
             comm={"collective": kind, "bytes": 1000, "op_span_id": number + 1, **comm}),
    ]  # fmt: skip


def late(mine: list[int], theirs: list[int] | None, kind: str = "allreduce", world: int | None = 4) -> tuple[int, int]:
    """From when to when (us) the path waits for a peer.

    Gathers of 10 begin at 20 and 500. The second takes 100, so that its peer came at 590. Between them are three
    others, at 100, 200 and 300 for 10.
    """
    groups = [group("g", mine), *([group("h", theirs)] if theirs else [])]
    between: dict[str, Any] = {"group_name": "h"} if theirs else {"stream": 7}
    case = {
        "spans": [
            span(1, "step_mark", "ProfilerStep#1", 0, 505), *operator(10, 20, 10, "allgather", group_name="g"),
            *(one for at in (100, 200, 300) for one in operator(at, at, 10, kind, **between)),
            *operator(20, 500, 100, "allgather", group_name="g"),
        ],
        "tables": {"parallel_group": groups}, "rank": {0: {"backend": "cuda", "formats": ["kineto"]}},
        "run": {"world_size": world, "missing_ranks": [1, 2, 3]},
    }  # fmt: skip
    run = Run(connection(case))
    pieces = critical_path(run)
    assert sum(one.dur_ns for one in pieces) == run.wall_ns
    (peer,) = [one for one in pieces if one.what == "peer"]
    return peer.begin_ns // 1000, peer.end_ns // 1000


def test_a_collective_of_another_group_with_the_same_ranks_released_the_peer() -> None:
    assert late(EVERYBODY, EVERYBODY) == (310, 590)
    assert late(PAIR, [1, 0]) == (310, 590)


def test_ranks_without_a_number_are_some_of_all_ranks_and_of_no_fewer() -> None:
    assert late(EVERYBODY, None) == (310, 590)
    assert late(PAIR, None) == (30, 590)
    assert late(EVERYBODY, None, world=None) == (30, 590)


@pytest.mark.parametrize(("mine", "theirs", "kind"), [
    (PAIR, OTHERS, "allreduce"), (EVERYBODY, PAIR, "allreduce"), (EVERYBODY, EVERYBODY, "send"),
    (EVERYBODY, None, "broadcast"),
])  # fmt: skip
def test_others_tell_nothing_of_it(mine: list[int], theirs: list[int] | None, kind: str) -> None:
    """Not all of its ranks, or nobody waits there for everybody."""
    assert late(mine, theirs, kind) == (30, 590)
