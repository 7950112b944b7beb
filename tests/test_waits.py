"""Waits inside collectives: for whom, how long, and what the last peer alone cost; by hand and by brute force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.exposure import between_stages, exposed
from npulens.analysis.ranks.lateness import late_peers, told
from npulens.analysis.ranks.stages import draining
from npulens.analysis.ranks.waits import CLOCK, GUESSED, PEERS, TASKS, UNKNOWN, arrivals, needed_ns, union_by, waits
from npulens.analysis.run import Run
from npulens.ingest.store.connection import open_run
from tests.simtables import meeting
from tests.tablecase import connection

CAPTURES = "Ascend+msinsight/test/data/pytorch"


def loaded(path: Path, store: Path) -> Run:
    (one,) = ingest.load([path], store).runs
    assert one.run_id
    return Run(open_run(store, one.run_id))


def test_real_waits_are_those_of_the_file(shared_traces: Path, tmp_path: Path) -> None:
    """text/level1: the longest Notify_Wait of each all-reduce, read from trace_view.json with nothing but json."""
    capture = shared_traces / CAPTURES / "text/level1"
    run = loaded(capture, tmp_path)
    found, operators = run.get(waits), run.get(collectives)
    assert set(found.how.tolist()) == {PEERS}
    for rank in (0, 1):
        trace = json.loads((capture / f"rank{rank}_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json").read_text())
        tasks = [e["args"] | {"ns": round(float(e["dur"]) * 1000)} for e in trace if e.get("name") == "Notify_Wait"]
        longest = max(tasks, key=lambda task: task["ns"])
        first = int(np.flatnonzero(operators.rank == rank)[0])
        assert int(longest["dst rank"]) == found.peer[first] == 5
        assert longest["ns"] == {0: 78_764_614, 1: 73_149_982}[rank] <= found.wait_ns[first] < longest["ns"] + 10_000


@pytest.mark.parametrize(
    ("capture", "late", "first_ms", "last_ms"),
    [
        ("text/level1", 5, (78.8, 73.1), (22.0, 22.0)),
        ("text/level2", 5, (86.1, 83.6), (8.5, 8.5)),
        ("db/level1", 6, (88.4, 84.9), (8.4, 8.4)),
        ("db/level2", 4, (80.1, 86.4), (8.6, 8.6)),
        ("text/level0", None, (72.7, 55.8), (7.5, 7.5)),
        ("db/level0", None, (74.8, 78.9), (9.8, 9.8)),
    ],
)
def test_real_captures_name_the_late_rank(
    shared_traces: Path, tmp_path: Path, capture: str, late: int | None, first_ms: Any, last_ms: Any
) -> None:
    run = loaded(shared_traces / CAPTURES / capture, tmp_path)
    found, operators = run.get(waits), run.get(collectives)
    worst = run.get(late_peers)[0]
    assert worst.rank == late and set(worst.waited) == {0, 1} and run.get(told).all()
    for rank in (0, 1):
        mine = np.flatnonzero(operators.rank == rank)
        assert round(int(found.wait_ns[mine[0]]) / 1e6, 1) == first_ms[rank]
        assert round(int(found.wait_ns[mine[-1]]) / 1e6, 1) == last_ms[rank]
        assert (found.gain_ns[mine] <= found.wait_ns[mine]).all()


def operator(
    *tasks: tuple[str, float, float, int | None], rank: int = 0, at: float = 0, long: float = 100
) -> list[Any]:
    """One all-reduce and its parts: (what, start, length, peer)."""
    number = rank * 1_000 + 1
    name = f"hcom_allReduce__{int(at)}"
    comm = {"op_span_id": number, "collective": "allreduce", "group_name": "g", "bytes": 8}
    spans = [{"id": number, "rank": rank, "kind": "comm_op", "name": name, "at": at, "for": long, "comm": comm}]
    for index, (what, start, length, peer) in enumerate(tasks):
        named = {} if peer is None else {"src_rank": rank, "src_local": rank, "dst_rank": peer, "dst_local": peer}
        spans.append({
            "id": number + index + 1, "rank": rank, "kind": "comm_task", "name": what, "at": at + start,
            "for": length, "track": f"p{index}", "comm": {"op_span_id": number, "task_type": what, **named},
        })  # fmt: skip
    return spans


def of(*spans: list[Any], world: int = 8) -> Run:
    ranks = {span["rank"] for some in spans for span in some}
    missing = sorted(set(range(world)) - ranks)
    return Run(connection({"spans": [s for some in spans for s in some], "run": {
        "world_size": world, "missing_ranks": missing}}))  # fmt: skip


def test_waits_one_after_the_other_blame_the_one_that_made_them_late() -> None:
    """On one stream: 50 for rank 3; what follows for rank 2 finds it there. Without rank 3 all were there at 5."""
    found = of(operator(("Notify_Wait", 5, 50, 3), ("Notify_Wait", 55, 0.02, 2), ("Memcpy", 60, 30, 3))).get(waits)
    assert (found.peer[0], found.wait_ns[0], found.gain_ns[0], found.transfer_ns[0]) == (3, 50_000, 50_000, 30_000)


def test_the_second_latest_is_another_peer() -> None:
    """To 30 for rank 2, to 50 for rank 3: the last alone costs 20."""
    found = of(operator(("Notify_Wait", 5, 25, 2), ("Notify_Wait", 5, 45, 3), ("Memcpy", 60, 30, 3))).get(waits)
    assert (found.peer[0], found.wait_ns[0], found.gain_ns[0]) == (3, 45_000, 20_000)


def test_waiting_for_a_transfer_is_not_waiting_for_a_peer() -> None:
    found = of(operator(("Notify_Wait", 5, 0, 2), ("Memcpy", 6, 30, 2), ("Notify_Wait", 36, 60, 2))).get(waits)
    assert (found.wait_ns[0], found.gain_ns[0], found.peer[0]) == (0, 0, -1)


def test_a_peer_first_met_in_a_later_stage_can_be_late_too() -> None:
    found = of(operator(("Notify_Wait", 5, 0, 2), ("Memcpy", 6, 10, 2), ("Notify_Wait", 20, 60, 5))).get(waits)
    assert (found.wait_ns[0], found.peer[0]) == (60_000, 5)


def test_in_a_ring_the_end_of_the_chain_is_late() -> None:
    """Rank 0 waits for rank 1, which waits for rank 2: rank 2 is late for both."""
    run = of(
        operator(("Notify_Wait", 5, 60, 1), ("Memcpy", 70, 20, 1)),
        operator(("Notify_Wait", 5, 55, 2), ("Memcpy", 70, 20, 2), rank=1),
    )
    assert run.get(waits).peer.tolist() == [2, 2]


def test_without_names_the_one_that_does_not_wait_is_late() -> None:
    run = of(
        operator(("Notify Wait", 5, 60, None), ("SDMA", 70, 20, None)),
        operator(("Notify Wait", 5, 0.02, None), ("SDMA", 10, 20, None), rank=1, at=60, long=40),
        world=2,
    )
    found = run.get(waits)
    assert (found.how.tolist(), found.peer.tolist(), found.wait_ns.tolist()) == ([TASKS] * 2, [1, -1], [60_000, 0])


def test_without_names_and_everybody_waiting_nobody_is_named() -> None:
    run = of(
        operator(("Notify Wait", 5, 60, None), ("SDMA", 70, 20, None)),
        operator(("Notify Wait", 5, 50, None), ("SDMA", 70, 20, None), rank=1),
    )
    assert run.get(waits).peer.tolist() == [-1, -1]


def test_starts_on_one_clock() -> None:
    """Rank 1 comes 40 later by its clock, which is 1000 ahead; both end at once."""
    run = meeting([(0, 60), (200, 20)], [(1040, 20), (1200, 20)])
    run.world_size, run.missing_ranks = 2, ()
    found = run.get(waits)
    assert found.how.tolist() == [CLOCK] * 4 and found.peer.tolist() == [1, -1, -1, -1]
    assert found.wait_ns.tolist() == [40_000, 0, 0, 0] and 0 < found.uncertainty_ns[0] <= 20_000
    assert run.get(told).all()


def test_less_than_the_clocks_can_tell_is_no_wait() -> None:
    """5 us later, and the bounds leave 10."""
    run = meeting([(0, 15)], [(5, 10)])
    assert run.get(waits).wait_ns.tolist() == [0, 0] and run.get(waits).peer.tolist() == [-1, -1]


def test_starts_of_some_members_do_not_tell_about_the_others() -> None:
    run = meeting([(0, 60)], [(40, 20)])
    run.world_size, run.missing_ranks = 3, (2,)
    assert not run.get(told).any()


def test_one_rank_without_tasks_is_not_measured() -> None:
    run = meeting([(0, 60)])
    assert run.get(waits).how.tolist() == [UNKNOWN] and len(run.get(arrivals).op_span_id) == 0


def test_what_takes_longer_than_its_like_waited() -> None:
    run = meeting([(0, 60), (100, 20), (200, 21)])
    run.world_size, run.missing_ranks = 2, (1,)
    found = run.get(waits)
    assert found.how.tolist() == [GUESSED, UNKNOWN, UNKNOWN]
    assert (found.wait_ns[0], found.arrival_ns[0], found.gain_ns[0], found.peer[0]) == (40_000, 40_000, 40_000, -1)


def test_arrivals_are_what_the_replay_needs() -> None:
    run = of(operator(("Notify_Wait", 5, 45, 3), ("Memcpy", 60, 30, 3), at=1000))
    found = run.get(arrivals)
    assert (found.op_span_id[0], found.arrival_ns[0], found.wait_ns[0], found.peer[0]) == (1, 1_050_000, 45_000, 3)


@pytest.mark.parametrize(("long", "how"), [(1_000, UNKNOWN), (900, PEERS)])
def test_parts_that_hardly_cover_their_operator_do_not_show_its_waits(long: int, how: int) -> None:
    """A wait of 45 and a transfer of 50 are all that was recorded of it."""
    run = of(operator(("Notify_Wait", 5, 45, 3), ("Memcpy", 60, 50, 3), long=long))
    assert run.get(waits).how.tolist() == [how]


intervals = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 20)), max_size=30)


@settings(max_examples=200, deadline=None)
@given(intervals)
def test_unions_by_group_count_every_moment_once(rows: list[tuple[int, int, int]]) -> None:
    group, ts, length = np.array(rows, np.int64).reshape(-1, 3).T
    brute = [len({t for g, s, n in rows if g == wanted for t in range(s, s + n)}) for wanted in range(4)]
    assert union_by(group, ts, ts + length, 4).tolist() == brute


waiting = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 90)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(waiting)
def test_last_and_second_by_brute_force(rows: list[tuple[int, int]]) -> None:
    """All waits begin at 5; each lasts as it likes. A transfer behind them fills the rest."""
    parts = [("Notify_Wait", 5, length, peer) for peer, length in rows]
    run = of(operator(*parts, ("Memcpy", 100, 100, 1), long=200))
    found = run.get(waits)
    ends = {peer: max(length for p, length in rows if p == peer) for peer, _ in rows}
    late = {peer: length for peer, length in ends.items() if length > 1}
    last = max(late.values(), default=0)
    assert found.wait_ns[0] == last * 1_000
    if late:
        assert late[int(found.peer[0])] == last
        others = [length for peer, length in late.items() if peer != found.peer[0]]
        assert found.gain_ns[0] == (last - max(others, default=0)) * 1_000


def test_what_an_operator_needs() -> None:
    """Sizes 100 and 100 take 10 and 30; 200 takes 20 at the pace of the fastest; 0 bytes as the shortest of all."""
    run = Run(connection({"spans": [
        {"id": n + 1, "kind": "comm_op", "name": "x", "at": n * 100, "for": long,
         "comm": {"op_span_id": n + 1, "collective": "allreduce", "group_name": "g", "bytes": size}}
        for n, (size, long) in enumerate([(100, 10), (100, 30), (200, 50), (0, 12)])
    ]}))  # fmt: skip
    operators = run.get(collectives)
    assert needed_ns(operators, operators.end - operators.ts).tolist() == [10_000, 10_000, 20_000, 12_000]


def test_concurrent_groups_wait_once() -> None:
    """Two groups wait for rank 3 at once, 40 and 30: 40 in all."""
    first = operator(("Notify_Wait", 5, 40, 3), ("Memcpy", 50, 30, 3))
    second = [dict(span, id=span["id"] + 100, track="o") for span in operator(
        ("Notify_Wait", 5, 30, 3), ("Memcpy", 50, 30, 3))]  # fmt: skip
    for span in second:
        span["comm"] = dict(span["comm"], op_span_id=span["comm"]["op_span_id"] + 100, group_name="h")
    (late,) = of(first, second).get(late_peers)
    assert (late.rank, late.wait_ns, late.gain_ns, len(late.rows)) == (3, 40_000, 40_000, 2)


def test_sends_are_a_pipeline_and_no_lateness() -> None:
    spans = operator(("Notify_Wait", 5, 40, 3), ("Memcpy", 50, 30, 3))
    spans[0]["comm"]["collective"] = "receive"
    run = of(spans)
    found, (transferred,) = run.get(between_stages), run.get(exposed)
    assert run.get(late_peers) == () and transferred.longest_ns == 60_000
    assert found is not None and (found.longest_ns, found.worst) == (40_000, 0)


def test_a_barrier_counts_with_what_it_prepares() -> None:
    """Three barriers on one stream; two are 5 us before an all-to-all, the last is 3 ms before the next one's start.

    Alone: of the first barrier (0 to 100) all but the kernel from 10 to 60, and of its all-to-all (105 to 205) all but
    105 to 150. The second pair (300 to 320, 325 to 345) and the last barrier (400 to 430) have nothing beside them.
    """
    spans: list[dict[str, Any]] = [{"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 4000}]
    for kind, at, long in (("barrier", 0, 100), ("alltoall", 105, 100), ("barrier", 300, 20), ("alltoall", 325, 20),
                           ("barrier", 400, 30), ("alltoall", 3430, 20)):  # fmt: skip
        number = len(spans) + 1
        spans.append({"id": number, "kind": "comm_op", "name": f"ep::{kind}", "track": "s7", "at": at, "for": long,
                      "comm": {"op_span_id": number, "collective": kind, "stream": 7}})  # fmt: skip
    for number, at, long in ((21, 10, 50), (22, 105, 45), (23, 1000, 2000)):
        spans.append({"id": number, "kind": "kernel", "name": "k", "at": at, "for": long})
    con = connection({"spans": spans})
    exchange, alone = Run(con).get(exposed)
    assert (exchange.collective, exchange.longest_ns, exchange.count) == ("alltoall", 165_000, 3)
    assert (exchange.barrier_ns, exchange.barriers_ns) == (70_000, 120_000)
    assert (alone.collective, alone.longest_ns, alone.count, alone.barrier_ns) == ("barrier", 30_000, 1, 30_000)
    (found,) = check(con, only=["comm_exposed"]).findings
    said = found.words["en"]
    assert "for 165 µs" in said.title and "except for 70.0 µs in kernels that only wait" in said.title, said.title
    assert "Kernels that only wait for other ranks take 120 µs of the step" in said.advice, said.advice


@pytest.mark.parametrize("marked", [True, False])
def test_draining_is_the_first_meeting_after_each_turns_last_exchange(marked: bool) -> None:
    """Two turns; in each rank 0 sends, receives and computes, rank 1 meanwhile waits in the all-reduce of both."""
    spans: list[dict[str, Any]] = []
    for start in (0, 1000):
        if marked:
            spans += [{"kind": "step_mark", "name": f"ProfilerStep#{start}", "rank": rank, "at": start, "for": 1000}
                      for rank in (0, 1)]  # fmt: skip
        for rank, kind, group, at, long in (
            (0, "send", "pp", 100, 10), (1, "receive", "pp", 0, 110), (1, "send", "pp", 310, 10),
            (0, "receive", "pp", 110, 210), (0, "allreduce", "all", 500, 10), (1, "allreduce", "all", 320, 190),
            (0, "allreduce", "all", 520, 10), (1, "allreduce", "all", 520, 10),
        ):  # fmt: skip
            spans.append({
                "rank": rank, "kind": "comm_op", "name": f"hcom_{kind}__", "track": group, "at": start + at,
                "for": long, "comm": {"collective": kind, "group_name": group},
            })  # fmt: skip
    for number, span in enumerate(spans, 1):
        span["id"] = number
        if "comm" in span:
            span["comm"] = {"op_span_id": number, **span["comm"]}
    groups = [{"group_name": name, "rank": rank, "kind": kind, "ranks": [0, 1], "source": "made"}
              for name, kind in (("pp", "pp"), ("all", "default_group")) for rank in (0, 1)]  # fmt: skip
    run = Run(connection({"run": {"world_size": 2, "missing_ranks": []}, "spans": spans,
                          "tables": {"parallel_group": groups}}))  # fmt: skip
    operators = run.get(collectives)
    rows = np.flatnonzero(run.get(draining))
    when = sorted((int(operators.rank[row]), int(operators.ts[row]) // 1000) for row in rows)
    assert when == [(0, 500), (0, 1500), (1, 320), (1, 1320)]


def renumbered(*groups: tuple[int, str, list[int]]) -> Run:
    """Rank 1 receives from rank 0 and sends to rank 2, by groups (rank, name on it, members); 2 waits 200 for it."""
    name = {(rank, tuple(ranks)): group for rank, group, ranks in groups}
    passed = [(0, [0, 1], "send", 50, 10), (1, [0, 1], "recv", 0, 60), (1, [1, 2], "send", 300, 10),
              (2, [1, 2], "recv", 100, 210)]  # fmt: skip
    return Run(connection({
        "run": {"world_size": 3, "missing_ranks": []},
        "spans": [
            {"id": number, "rank": rank, "kind": "comm_op", "name": "ncclDevKernel_SendRecv", "at": at, "for": long,
             "comm": {"op_span_id": number, "collective": kind, "group_name": name[rank, tuple(ranks)]}}
            for number, (rank, ranks, kind, at, long) in enumerate(passed, 1)
        ],
        "tables": {"parallel_group": [
            {"group_name": group, "rank": rank, "ranks": ranks, "source": "trace"} for rank, group, ranks in groups
        ]},
    }))  # fmt: skip


def test_a_group_that_each_rank_numbers_itself_is_one() -> None:
    """Rank 1 calls the pair (1, 2) "1", rank 2 calls it "0", which is another pair on the others."""
    run = renumbered((0, "0", [0, 1]), (1, "0", [0, 1]), (1, "1", [1, 2]), (2, "0", [1, 2]))
    operators, found = run.get(collectives), run.get(waits)
    assert sorted(operators.members.values()) == [(0, 1), (1, 2)] and len(operators.teams) == 2
    (receives,) = np.flatnonzero(operators.rank == 2)
    assert (found.how[receives], found.wait_ns[receives]) == (CLOCK, 200_000)


def test_two_groups_of_the_same_ranks_stay_two() -> None:
    """Rank 1 knows two groups of the ranks 1 and 2, so its number does not say which of them rank 2's is."""
    run = renumbered((0, "0", [0, 1]), (1, "0", [0, 1]), (1, "1", [1, 2]), (2, "0", [1, 2]))
    run.con.execute(
        "INSERT INTO parallel_group (group_name, rank, ranks, source) VALUES ('5', 1, [1, 2], 'trace');"
        "INSERT INTO span SELECT * REPLACE (9 AS span_id) FROM span WHERE span_id = 3;"
        "INSERT INTO comm SELECT * REPLACE (9 AS span_id, 9 AS op_span_id, '5' AS group_name) FROM comm "
        "WHERE span_id = 3"
    )
    operators = Run(run.con).get(collectives)
    assert sorted(operators.members.values()) == [(0, 1), (1, 2), (1, 2), (1, 2)]


def test_a_name_that_is_no_number_is_nobody_elses() -> None:
    run = renumbered((0, "a", [0, 1]), (1, "a", [0, 1]), (1, "b", [1, 2]), (2, "c", [1, 2]))
    assert len(run.get(collectives).teams) == 3


def test_a_kernel_called_send_and_receive_is_what_pytorch_called() -> None:
    """NCCL 2.8 runs everything in ncclKernel_SendRecv; the operator around the launch says what it was."""
    spans = []
    for n, called in enumerate(("nccl:all_to_all", "nccl:all_reduce", "nccl:recv 0->1", "aten::copy_")):
        number, at = n * 10 + 1, n * 100
        spans += [
            {"id": number, "kind": "cpu_op", "name": called, "at": at, "for": 20},
            {"id": number + 1, "kind": "runtime", "name": "cudaLaunchKernel", "at": at + 5, "for": 5},
            {"id": number + 2, "kind": "comm_op", "name": "ncclKernel_SendRecv", "at": at + 30, "for": 50,
             "by": number + 1, "comm": {"op_span_id": number + 2, "collective": "sendrecv"}},
        ]  # fmt: skip
    found = Run(connection({"spans": spans})).get(collectives)
    assert [found.kinds[kind] for kind in found.kind] == ["alltoall", "allreduce", "receive", "sendrecv"]


def test_tables_with_holes() -> None:
    """Parts without an operator, operators without a group, parts and spans of no length: nothing is claimed."""
    run = Run(connection({"spans": [
        {"id": 1, "kind": "comm_op", "name": "hcom_x", "at": 0, "for": 0},
        {"id": 2, "kind": "comm_op", "name": "hcom_y", "at": 5, "for": 10, "comm": {"op_span_id": 2}},
        {"id": 3, "kind": "comm_task", "name": "Notify_Wait", "at": 5, "for": 5, "comm": {"op_span_id": 77}},
        {"id": 4, "kind": "comm_task", "name": "Notify_Wait", "at": 5, "for": 5, "comm": {}},
        {"id": 5, "kind": "comm_task", "name": "Memcpy", "at": 6, "for": 0, "comm": {"op_span_id": 2}},
    ]}))  # fmt: skip
    found = run.get(waits)
    assert found.wait_ns.tolist() == [-1, -1] and found.how.tolist() == [UNKNOWN, UNKNOWN]
    assert run.get(late_peers) == () and run.get(between_stages) is None
