"""When transfers were over, by hand: what a member takes after the others have left is no transfer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npulens.analysis.engine import check
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.exposure import exposed
from npulens.analysis.ranks.leaving import held_up, over_ns
from npulens.analysis.ranks.waits import waits
from npulens.analysis.run import Run
from tests.tablecase import connection

US = 1_000
#: Collectives of 10 us, one every 1000 us, so that clocks are told to 10 us.
USUAL = [(1000 * n, 10) for n in range(4)]


def run_of(
    *ranks: list[tuple[int, int]], kind: str = "allreduce", sizes: tuple[int, ...] = (), world: int | None = None
) -> Run:
    """Per rank its operators (start, length in us), on a stream of their own, and a kernel long before all of them."""
    spans: list[dict[str, Any]] = []
    for rank, operators in enumerate(ranks):
        spans.append({"id": 1000 * rank + 999, "rank": rank, "kind": "kernel", "name": "mm", "at": -100, "for": 10,
                      "kernel": {"op_type": "mm", "input_shapes": "4,4"}})  # fmt: skip
        for number, (at, length) in enumerate(operators):
            one = 1000 * rank + number + 1
            spans.append({
                "id": one, "rank": rank, "kind": "comm_op", "name": f"{kind}_{number}", "at": at, "for": length,
                "track": "s1", "comm": {"op_span_id": one, "collective": kind, "group_name": "g",
                                        "bytes": sizes[rank] if sizes else 64},
            })  # fmt: skip
    world = len(ranks) if world is None else world
    missing = list(range(len(ranks), world))
    return Run(connection({"spans": spans, "run": {"world_size": world, "missing_ranks": missing}}))


def held(run: Run) -> dict[tuple[int, int], int]:
    """(rank, number of its operator) -> us after its transfer."""
    operators, over = run.get(collectives), run.get(over_ns)
    found = {}
    for rank in run.ranks:
        mine = np.flatnonzero(operators.rank == rank)
        ns = (operators.end - over)[mine].tolist()
        found |= {(rank, number): round(one / US) for number, one in enumerate(ns) if one}
    return found


def test_a_member_that_goes_on_alone_is_held_up() -> None:
    """The fifth: both there at 4000, rank 0 leaves at 4010, rank 1 at 6010. Rank 0 then waits for it in the sixth."""
    run = run_of([*USUAL, (4000, 10), (4020, 2010)], [*USUAL, (4000, 2010), (6020, 10)])
    assert held(run) == {(1, 4): 2000}
    operators, found, over = run.get(collectives), run.get(waits), run.get(over_ns)
    parts = np.maximum(found.wait_ns, 0) + (over - found.arrival_ns) + (operators.end - over)
    assert (parts == operators.end - operators.ts).all()  # of waits, transfers and the rest nothing is left
    (told,) = run.get(exposed)
    assert (told.longest_ns, told.held_ns, told.largest_ns) == (60 * US, 0 if told.worst == 0 else 2000 * US, 10 * US)
    assert run.get(held_up).ns.tolist() == [2000 * US]


def test_it_is_told_once_and_by_its_name() -> None:
    run = run_of([*USUAL, (4000, 10), (4020, 2010)], [*USUAL, (4000, 2010), (6020, 10)])
    (tail,) = check(run.con, only=["slow_tail"]).findings
    said = tail.words["en"].title
    assert said.startswith("Rank 1: the device stays in 1 collective after ") and "That takes 2.00 ms of " in said
    assert (tail.text, tail.numbers["excess_ns"], tail.numbers["types"]) == ("held", 2000 * US, ["allreduce"])
    assert [(one.rank, one.ts_ns, one.dur_ns) for one in tail.evidence] == [(1, tail.evidence[0].ts_ns, 2000 * US)]
    whole = check(run.con, only=["comm_exposed"])
    assert not whole.findings and whole.outcomes[0].reason.startswith("at most 60.0 µs ")


def test_a_ring_ends_within_a_transfer() -> None:
    """All are there at 4000; the last part reaches one after the other: 4100, 4150, 4200. That is a transfer of 100."""
    usual = [(1000 * n, 100) for n in range(4)]
    run = run_of([*usual, (4000, 100)], [*usual, (4000, 150)], [*usual, (4000, 200)])
    assert held(run) == {}


def test_equal_operators_tell_what_is_usual() -> None:
    """Rank 0 leaves the fifth after 10 us where 100 are usual: a clock is off. Where 10 are, it is told."""
    usual, short = [(1000 * n, 100) for n in range(4)], [(1000 * n, 10) for n in range(4)]
    assert held(run_of([*usual, (4000, 10)], [*usual, (4000, 120)])) == {}
    assert held(run_of([*short, (4000, 10)], [*short, (4000, 120)])) == {(1, 4): 110}


def test_what_clocks_do_not_tell_is_no_stall() -> None:
    """Operators of 10 us tell clocks to 10 us. From the other's end on 10 us of transfer and twice 10 are allowed."""
    assert held(run_of([*USUAL, (4000, 10)], [*USUAL, (4000, 39)])) == {}
    assert held(run_of([*USUAL, (4000, 10)], [*USUAL, (4000, 45)])) == {(1, 4): 35}


def test_where_a_member_was_not_captured_nobody_knows() -> None:
    """It may be the one that goes on sending."""
    assert held(run_of([*USUAL, (4000, 10)], [*USUAL, (4000, 2010)], world=3)) == {}


@pytest.mark.parametrize(("ends", "told"), [((10, 1000, 1500), {}), ((10, 20, 2010), {(2, 4): 1990})])
def test_of_uneven_parts_all_others_must_have_left(ends: tuple[int, ...], told: dict[tuple[int, int], int]) -> None:
    """Rank 0 has little to move and leaves first. While rank 1 is there, rank 2 may exchange with it."""
    ranks = [[*USUAL, (4000, end)] for end in ends]
    assert held(run_of(*ranks, kind="alltoallv", sizes=(8, 64, 64))) == told


def exchange(send: tuple[int, int], receive: tuple[int, int]) -> Run:
    """All-reduces that tell the clocks, then a send of rank 0 and its receive on rank 1."""
    spans: list[dict[str, Any]] = []
    for rank, (at, length) in enumerate((send, receive)):
        spans.append({"id": 999 + 1000 * rank, "rank": rank, "kind": "kernel", "name": "mm", "at": -100, "for": 10,
                      "kernel": {}})  # fmt: skip
        for number, (start, long) in enumerate([*USUAL, (at, length)]):
            one, last = 1000 * rank + number + 1, number == len(USUAL)
            said = {"collective": ("send", "receive")[rank], "src_rank": None if rank == 0 else 0,
                    "dst_rank": 1 if rank == 0 else None} if last else {"collective": "allreduce"}  # fmt: skip
            spans.append({
                "id": one, "rank": rank, "kind": "comm_op", "name": f"c{number}", "at": start, "for": long,
                "track": "s1",
                "comm": {"op_span_id": one, "group_name": "p" if last else "g", "bytes": 64, **said},
            })  # fmt: skip
    return Run(connection({"spans": spans, "run": {"world_size": 2, "missing_ranks": []}}))


def test_a_send_may_end_early_its_data_in_a_buffer() -> None:
    assert held(exchange((4000, 10), (4000, 2010))) == {}
    assert held(exchange((4000, 10), (5000, 500))) == {}


def test_a_send_that_goes_on_after_its_receive_is_held_up() -> None:
    assert held(exchange((4000, 2010), (4000, 10))) == {(0, 4): 2000}


def test_where_next_to_nothing_is_computed_moving_less_is_all_that_helps() -> None:
    """Four all-reduces of 10 ms, and a kernel of 10 us: nothing to hide 40 ms behind, so all of them count."""
    long = [(10_000 * n, 10_000) for n in range(4)]
    (found,) = check(run_of(long, long).con, only=["comm_exposed"]).findings
    assert found.numbers["scant_ns"] == 10 * US and found.numbers["room_ns"] is None
    assert found.saving_ns == 40_000 * US
    assert "there is nothing to hide it behind. Move less" in found.words["en"].advice
