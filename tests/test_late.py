"""Late ranks: collectives matched from their ends, arrivals merged over ranks, and what one fix moves (times in us)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npulens import ingest
from npulens.analysis.detectors import late_rank
from npulens.analysis.detectors.late_rank import orders
from npulens.analysis.engine import check
from npulens.analysis.finding import Change
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.collectives import POINT_TO_POINT, collectives, from_the_end
from npulens.analysis.ranks.lateness import late_peers, most_ns, waited_less
from npulens.analysis.ranks.waits import CLOCK, PEERS, SAID, TASKS, waits
from npulens.analysis.replay.critical import held_by, unmovable
from npulens.analysis.replay.whatif import saved_ns
from npulens.analysis.run import Run
from npulens.ingest.store.connection import open_run
from tests.tablecase import connection
from tests.test_waits import of, operator


def p2p_waits(run: Run) -> dict[int, Ints]:
    """Per rank the rows of `collectives(run)` that send or receive and whose wait is known."""
    operators, found = run.get(collectives), run.get(waits)
    known = operators.of_kinds(POINT_TO_POINT) & np.isin(found.how, (PEERS, TASKS, CLOCK, SAID))
    return {rank: np.flatnonzero(known & (operators.rank == rank)) for rank in np.unique(operators.rank).tolist()}


TORCHREC = "pytorch+torchrec@hist/examples/golden_training/trace"


def second(shared_traces: Path, name: str, store: Path) -> list[Run]:
    """Runs of a capture of the second set."""
    path = shared_traces.parent / "traces_2" / name
    if not path.exists():
        pytest.skip("the second set of real captures is not here")
    return [Run(open_run(store, one.run_id)) for one in ingest.load([path], store).runs if one.run_id]


def matched(ends: Sequence[Sequence[int]], kinds: Sequence[Sequence[int]] | None = None) -> list[list[int]]:
    """Instances of operators of one group by their ends, rank by rank; nothing was matched before."""
    rank = np.repeat(np.arange(len(ends)), [len(own) for own in ends])
    end = np.array([at for own in ends for at in own], np.int64) * 1_000
    kind = np.zeros(len(end), np.int64) if kinds is None else np.array([k for own in kinds for k in own], np.int64)
    none, every = np.full(len(end), -1, np.int64), np.ones(len(end), np.bool_)
    found = from_the_end(rank, np.zeros(len(end), np.int64), kind, end, none, every)
    return [found[rank == r].tolist() for r in range(len(ends))]


#: Ends with distances that no shift repeats.
ENDS = [1_000, 2_300, 3_100, 5_900, 7_000, 9_500]


def test_a_launch_lost_at_the_beginning_shifts_nothing() -> None:
    later = [at + 77_000 for at in ENDS[1:]]
    assert matched([ENDS, later, ENDS]) == [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]


def test_one_rank_may_stop_two_collectives_later() -> None:
    assert matched([ENDS, [at - 400 for at in ENDS[:4]]]) == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3]]


def test_ends_that_scatter_prove_nothing() -> None:
    """Each of rank 1's ends lies another 150 off: not the same collectives, or not to be told."""
    off = [at + 150 * (-1) ** place * place for place, at in enumerate(ENDS)]
    assert matched([ENDS, off]) == [[-1] * 6, [-1] * 6]


def test_kinds_have_to_agree_and_an_unnamed_one_agrees_with_any() -> None:
    ours = [0, 1, 0, 0, 1, 0]
    assert matched([ENDS, ENDS], [ours, [0, 1, -1, 0, 1, 0]]) == [[0, 1, 2, 3, 4, 5]] * 2
    assert matched([ENDS, ENDS], [ours, [0, 1, 1, 0, 1, 0]]) == [[-1] * 6] * 2


def test_a_job_without_any_variation_tells_no_shift() -> None:
    steady = [1_000 * place for place in range(8)]
    assert matched([steady, steady[1:]]) == [[-1] * 8, [-1] * 7]


def reduced(at: float, long: float, rank: int, number: int, size: int = 8) -> dict[str, Any]:
    return {"id": 1_000 * rank + number, "rank": rank, "kind": "comm_op", "name": "ncclDevKernel_AllReduce",
            "track": "g", "at": at, "for": long, "comm": {
                "op_span_id": 1_000 * rank + number, "collective": "allreduce", "group_name": "g",
                "bytes": size}}  # fmt: skip


def test_other_sizes_on_each_rank_are_the_same_collective_where_ends_agree() -> None:
    """Rank 1 comes 400 later each time, with another size."""
    spans = [reduced(at, 500, 0, n + 1) for n, at in enumerate((0, 1_700, 5_000))]
    spans += [reduced(at + 400, 100, 1, n + 1, 9) for n, at in enumerate((0, 1_700, 5_000))]
    run = Run(connection({"spans": spans, "run": {"world_size": 2, "missing_ranks": []}}))
    instance = run.get(collectives).instance
    assert (instance >= 0).all() and instance[:3].tolist() == instance[3:].tolist()
    found = run.get(waits)
    assert found.how.tolist() == [CLOCK] * 6
    assert found.wait_ns.tolist() == [400_000] * 3 + [0] * 3 and found.peer.tolist() == [1] * 3 + [-1] * 3


def test_arrivals_that_two_ranks_saw_are_one_list() -> None:
    """Rank 0 saw rank 2 come at 20,600 and rank 4 at 16,300, rank 1 saw rank 3 at 18,700 and rank 5 at 20,000. Rank 2
    is 600 behind rank 5, not 4,300 behind rank 4; and rank 1 waited for it too: 2,700 for rank 5 and 600 more."""
    run = of(
        operator(("Notify_Wait", 100, 600, 4), ("Notify_Wait", 700, 4_300, 2), ("Memcpy", 5_000, 300, 2), at=15_600,
                 long=5_400),
        operator(("Notify_Wait", 100, 1_400, 3), ("Notify_Wait", 1_500, 1_300, 5), ("Memcpy", 2_800, 900, 5), rank=1,
                 at=17_200, long=3_800),
    )  # fmt: skip
    assert run.get(clock).offset_ns(1) == 0
    found = run.get(waits)
    assert found.peer.tolist() == [2, 2]
    assert (found.arrival_ns // 1_000).tolist() == [20_600] * 2 and (found.second_ns // 1_000).tolist() == [20_000] * 2
    assert (found.wait_ns // 1_000).tolist() == [4_900, 3_300] and (found.gain_ns // 1_000).tolist() == [600, 600]
    (late,) = run.get(late_peers)
    assert (late.rank, late.gain_ns, sorted(late.waited)) == (2, 600_000, [0, 1])


def mixed(number: int, rank: int, at: float, long: float) -> dict[str, Any]:
    """A matrix product and an all-reduce in one kernel."""
    return {"id": number, "rank": rank, "kind": "kernel", "name": "MatmulAllReduce", "track": "stream 2", "at": at,
            "for": long, "comm": {"op_span_id": number, "collective": "allreduce", "stream": 2}}  # fmt: skip


def test_kernels_that_compute_and_communicate_wait_for_the_late_rank() -> None:
    """Rank 1 computes 200 longer before the last of four such kernels; rank 0 waits for it within its own."""
    spans: list[dict[str, Any]] = []
    for rank, late in ((0, 0), (1, 200)):
        begin = 100 * rank
        for n, at in enumerate((100, 300, 500)):
            spans.append(mixed(begin + 2 * n + 1, rank, at, 50))
            long = 150 + (late if n == 2 else 0)
            spans.append({"id": begin + 2 * n + 2, "rank": rank, "kind": "kernel", "name": "MatMulV2",
                          "track": "stream 2", "at": at + 50, "for": long})  # fmt: skip
        spans.append(mixed(begin + 9, rank, 700 + late, 250 - late))
    run = Run(connection({"spans": spans}))
    (late_,) = run.get(late_peers)
    assert (late_.rank, late_.gain_ns, late_.bare_ns(run)) == (1, 200_000, 200_000)
    assert saved_ns(run, waited_less(run, late_)) == 200_000


def exchange(number: int, rank: int, at: float, long: float, **more: Any) -> dict[str, Any]:
    return {"id": number, "rank": rank, "kind": "comm_op", "name": "hcom_batchSendRecv__1", "track": "pp", "at": at,
            "for": long, "comm": {"op_span_id": number, "collective": "batchsendrecv", "group_name": "pp",
                                  "dst_rank": 1 - rank, **more}}  # fmt: skip


def test_both_starts_of_a_send_and_a_receive_give_the_wait() -> None:
    """All-reduces hold the clocks together; rank 0 is there 158 before rank 1."""
    spans = [reduced(at, 10, rank, n + 1) for rank in (0, 1) for n, at in enumerate((0, 400))]
    run = Run(connection({"spans": [*spans, exchange(7, 0, 155, 159), exchange(1_007, 1, 313, 1)]}))
    rows, found = p2p_waits(run), run.get(waits)
    (mine,), (other,) = rows[0], rows[1]
    assert (found.wait_ns[mine], found.peer[mine], found.wait_ns[other]) == (158_000, 1, 0)


def test_without_the_other_side_the_profilers_sum_is_the_wait() -> None:
    run = Run(connection({"spans": [exchange(7, 0, 155, 159, wait_ns=158_100)]}))
    (mine,) = p2p_waits(run)[0]
    assert (run.get(waits).how[mine], run.get(waits).wait_ns[mine]) == (SAID, 158_100)


def host(number: int, rank: int, at: float, long: float, name: str) -> dict[str, Any]:
    kind = "runtime" if name == "cudaLaunchKernel" else "cpu_op"
    return {"id": number, "rank": rank, "kind": kind, "name": name, "at": at, "for": long}


def sleeper(more: float = 0) -> Run:
    """In three steps rank 1's host sleeps 900 before it launches; rank 0's device stands in the all-reduce meanwhile.
    `more`: rank 0's host works so long after each of its steps, without waiting for anything."""
    spans: list[dict[str, Any]] = []
    for step in range(3):
        at = step * (1_200 + 17 * step)
        number = 10 * step + 1
        for rank, sleep in ((0, 0), (1, 900)):
            base = 1_000 * rank
            spans += [
                {"id": 5_000 + base + number, "rank": rank, "kind": "step_mark", "name": f"ProfilerStep#{step}",
                 "at": at, "for": 1_190, "track": "main"},
                host(base + number + 1, rank, at + sleep + 1, 8, "cudaLaunchKernel"),
                {"id": base + number + 2, "rank": rank, "kind": "kernel", "name": "matmul", "at": at + sleep + 20,
                 "for": 50, "by": base + number + 1},
                host(base + number + 3, rank, at + sleep + 10, 8, "cudaLaunchKernel"),
                reduced(at + sleep + 71, 1_029 - sleep, rank, number + 4) | {"by": base + number + 3, "track": "s0"},
                host(base + number + 5, rank, at + sleep + 30, 1_090 - sleep, "aten::item"),
                {"id": base + number + 6, "rank": rank, "kind": "runtime", "name": "cudaStreamSynchronize",
                 "at": at + sleep + 31, "for": 1_079 - sleep},
            ]
            if rank == 1:
                spans.append(host(base + number + 7, rank, at + 1, 890, "sleep"))
    return Run(connection({"spans": spans, "run": {"world_size": 2, "missing_ranks": []}}))


def test_one_edit_moves_the_late_rank_and_those_who_wait_for_it() -> None:
    """900 in each of three steps: the wait is measured, and the cut of rank 1's film gives all of it back."""
    run = sleeper()
    (late,) = run.get(late_peers)
    assert (late.rank, late.gain_ns) == (1, 3 * 900_000)
    change = waited_less(run, late)
    assert change.cut[1].total() == 3 * 900_000 and not len(change.peers)
    assert saved_ns(run, change) == 3 * 900_000
    # Half of it gives half back.
    half = Intervals(change.cut[1].starts + 450_000, change.cut[1].ends)
    assert saved_ns(run, Change(cut={1: half})) == 3 * 450_000


def test_a_wait_beside_which_a_rank_computes_is_no_ceiling() -> None:
    """Rank 1 comes 900 late in each of three steps; rank 0 computes 650 of that, so that no more than 250 is lost.

    Nothing launches these kernels: where a replay cannot tell what a fix gives back, the ceiling is all that is lost.
    """
    spans: list[dict[str, Any]] = []
    for step in range(3):
        at, number = step * (1_200 + 17 * step), 10 * step
        for rank, late in ((0, 0), (1, 900)):
            base = 1_000 * rank + number
            spans += [
                {"id": 5_000 + base, "rank": rank, "kind": "step_mark", "name": f"ProfilerStep#{step}", "at": at,
                 "for": 1_190, "track": "main"},
                {"id": base + 1, "rank": rank, "kind": "kernel", "name": "matmul", "at": at + late + 20, "for": 50},
                reduced(at + late + 71, 1_029 - late, rank, number + 2) | {"track": "s0"},
            ]  # fmt: skip
            if rank == 0:
                spans.append({"id": base + 3, "rank": 0, "kind": "kernel", "name": "matmul", "at": at + 71, "for": 650,
                              "track": "s1"})  # fmt: skip
    run = Run(connection({"spans": spans, "run": {"world_size": 2, "missing_ranks": []}}))
    (late_,) = run.get(late_peers)
    assert (late_.rank, late_.gain_ns, most_ns(run, late_)) == (1, 3 * 900_000, 3 * 250_000)
    (said,) = late_rank.detect(run.con, run, late_rank.Limits())
    assert (said.ceiling_ns, said.measured_ns) == (3 * 250_000, 3 * 900_000)
    # A third rank that was not captured may compute nothing meanwhile.
    run = Run(connection({"spans": spans, "run": {"world_size": 3, "missing_ranks": [2]}}))
    assert [most_ns(run, one) for one in run.get(late_peers)] == [3 * 900_000]


def test_what_nobody_waits_for_gives_nothing_back_and_says_what_holds() -> None:
    """Rank 0 is early as it is: what is cut out of its film leaves everything waiting for rank 1's host."""
    run = sleeper()
    windows = Intervals(np.array([100_000]), np.array([900_000]))
    assert saved_ns(run, Change(cut={0: windows})) == 0
    held = held_by(run, Change(cut={0: windows}))
    assert held is not None and (held.kind, held.rank, held.name) == ("host", 1, "sleep") and held.share > 0.8


def test_a_late_rank_and_its_own_cause_are_one_finding() -> None:
    said = check(sleeper().con)
    (first,) = [finding for finding in said.findings if finding.cause in ("host_late", "late_rank")]
    assert first.cause == "host_late" and first.saving_ns == pytest.approx(900_000, rel=0.02)
    assert [one.outcome for one in said.outcomes if one.detector == "late_rank"] == ["found"]


def test_what_no_edge_explains_cannot_be_moved() -> None:
    """The kernel came 400 late and nothing says why; it runs 100 of the 508."""
    run = Run(connection({"spans": [
        {"id": 2, "kind": "runtime", "name": "Node@launch", "at": 2, "for": 5},
        {"id": 3, "kind": "kernel", "name": "a", "at": 12, "for": 8, "by": 2},
        {"id": 4, "kind": "runtime", "name": "Node@launch", "at": 8, "for": 5},
        {"id": 5, "kind": "kernel", "name": "b", "at": 420, "for": 100, "by": 4},
    ]}))  # fmt: skip
    assert unmovable(run) > 0.2
    assert unmovable(sleeper()) < 0.05


def test_where_no_match_is_proved_the_order_of_arrival_is_told() -> None:
    """Three ranks, ten calls each; their ends lie 120 to 1,200 apart, so nothing proves which calls are the same. Rank
    2 starts 3,000 after the others each time."""
    spans = []
    for call, at in enumerate((0, 9_000, 21_000, 30_500, 45_500, 53_500, 64_500, 78_500, 87_500, 100_500)):
        for rank, late in ((0, 0), (1, 100), (2, 3_000)):
            long = 6_000 - late + 60 * (-1) ** (call + rank) * (call + rank)
            spans.append(reduced(at + late, long, rank, call + 1, 10 * rank + call))
    run = Run(connection({"spans": spans, "run": {"world_size": 3, "missing_ranks": []}}))
    assert (run.get(collectives).instance[:10] != run.get(collectives).instance[20:]).all()
    (order,) = run.get(orders)
    assert (order.rank, order.count, order.last) == (2, 10, 10)
    assert order.late_ns / 1e6 == pytest.approx(29, rel=0.2) and order.wait_ns / 1e6 == pytest.approx(30, rel=0.2)
    said = check(run.con, ["late_rank"])
    (finding,) = said.findings
    assert finding.confidence == "low" and "Rank 2 comes last to 100 % of 10 collectives" in finding.words["en"].title


def taking_turns(rarely: float) -> list[str]:
    """What is advised where rank 1 comes 500 late to every other of 12 collectives, and rank 0 that late to the rest.

    The steps lie at uneven distances, so that the ends prove which calls are the same.
    """
    spans, at = list[dict[str, Any]](), 0.0
    for step in range(12):
        late = (rarely, 0.0) if step % 2 else (0.0, 500.0)
        long = 2_000 + 37 * step * step
        for rank in (0, 1):
            busy = {"id": 1_000 * rank + 500 + step, "rank": rank, "kind": "kernel", "name": "k", "at": at,
                    "for": 900 + late[rank]}  # fmt: skip
            mark = {"id": 1_000 * rank + 800 + step, "rank": rank, "kind": "step_mark", "at": at, "for": long,
                    "name": f"ProfilerStep#{step}"}  # fmt: skip
            begun = 900 + late[rank]
            spans += [mark, busy, reduced(at + begun, 1_600 - begun, rank, step + 1)]
        at += long
    said = check(connection({"spans": spans, "run": {"world_size": 2, "missing_ranks": []}}), ["late_rank"])
    return [finding.words["en"].advice for finding in said.findings if "rank 1" in finding.words["en"].title]


def test_ranks_that_wait_for_each_other_take_turns() -> None:
    """Rank 0 waits 6 x 500 of 12 steps, rank 1 6 x 450 or 6 x 100."""
    (advice,) = taking_turns(450.0)
    assert "They take turns: rank 1 waits 225 µs of each step for these ranks too." in advice
    (advice,) = taking_turns(100.0)
    assert "take turns" not in advice


@pytest.mark.parametrize("skew", [1_500, 0])
def test_a_rank_that_was_late_before_its_first_step_says_so(skew: int) -> None:
    """Rank 1 comes 1,500 late to the first of 8 collectives: its step began that late, or it worked that long."""
    spans, at = list[dict[str, Any]](), 0
    for step in range(8):
        long, late = 4_000 + 37 * step * step, 0 if step else 1_500
        for rank in (0, 1):
            begin = at + (skew * rank if not step else 0)
            reached = at + 900 + late * rank
            spans += [
                {"id": 1_000 * rank + 800 + step, "rank": rank, "kind": "step_mark", "at": begin,
                 "for": at + long - begin, "name": f"ProfilerStep#{step}"},
                {"id": 1_000 * rank + 500 + step, "rank": rank, "kind": "kernel", "name": "k", "at": begin,
                 "for": reached - begin},
                reduced(reached, at + 3_000 - reached, rank, step + 1),
            ]  # fmt: skip
        at += long
    said = check(connection({"spans": spans, "run": {"world_size": 2, "missing_ranks": []}}), ["late_rank"])
    (finding,) = said.findings
    assert finding.numbers["peer"] == 1
    assert finding.numbers["skew_ns"] == (1_500_000 if skew else None)


def test_a_late_rank_is_compared_with_the_median_of_those_that_wait() -> None:
    """Before each of 8 collectives the devices of ranks 0 to 3 idle 900, 0, 300 and 500, and compute 100.

    Rank 0 idles 900 longer than the one that waits most, and 600 longer than the median of the three.

    All leave at once. The mean step is 2,000 + 37 * 140 / 8 = 2,647.5 long.
    """
    spans, at = list[dict[str, Any]](), 0
    for step in range(8):
        long = 2_000 + 37 * step * step
        for rank, idle in enumerate((900, 0, 300, 500)):
            spans += [
                {"id": 1_000 * rank + 800 + step, "rank": rank, "kind": "step_mark", "at": at, "for": long,
                 "name": f"ProfilerStep#{step}"},
                {"id": 1_000 * rank + 500 + step, "rank": rank, "kind": "kernel", "name": "k", "at": at + idle,
                 "for": 100},
                reduced(at + idle + 100, 1_100 - idle - 100, rank, step + 1),
            ]  # fmt: skip
        at += long
    said = check(connection({"spans": spans, "run": {"world_size": 4, "missing_ranks": []}}), ["late_rank"])
    (finding,) = said.findings
    assert finding.numbers["peer"] == 0 and finding.numbers["idle_ns"] == 600_000
    assert finding.words["en"].title == (
        "Ranks 1, 2 and 3 wait up to 900 µs of each step (34.0 %) for rank 0: its device idles 600 µs longer than the "
        "median of theirs"
    )
    assert "它的设备比其他卡的中位数多空闲 600 µs" in finding.words["zh"].title


def test_of_a_late_rank_whose_computing_was_not_recorded_no_reason_is_told() -> None:
    """The devices of ranks 0 to 3 do nothing recorded for 900, 0, 300 and 500 before each of 8 collectives.

    Only communication was recorded, so rank 0 may have computed in that time. Ranks 1, 2 and 3 wait 8 x (900, 600,
    400). The next to come is rank 3, 400 earlier.
    """
    spans, at = list[dict[str, Any]](), 0
    for step in range(8):
        spans += [
            reduced(at + idle, 1_100 - idle, rank, step + 1) for rank, idle in enumerate((900, 0, 300, 500))
        ]  # fmt: skip
        at += 2_000 + 37 * step * step
    said = check(connection({
        "spans": spans, "absent": ["kernel"], "run": {"world_size": 4, "missing_ranks": []},
    }), ["late_rank"])  # fmt: skip
    (finding,) = said.findings
    assert finding.numbers["peer"] == 0 and finding.numbers["idle_ns"] is None and finding.numbers["busy_ns"] is None
    words = finding.words["en"]
    assert words.title.startswith("Ranks 1, 2 and 3 wait up to 7.20 ms") and "idles" not in words.title
    assert "only communication was recorded" in words.advice and "host of rank 0 issues" not in words.advice
    assert "只采集到通信" in finding.words["zh"].advice


@pytest.mark.shared
def test_a_rank_that_sleeps_holds_the_others_up(shared_traces: Path, tmp_path: Path) -> None:
    """The job's own name says it: rank 2 sleeps 1.0 s in each step of 1.1 s."""
    (run,) = second(shared_traces, f"{TORCHREC}/sst_sleep_pl_dense_after_backward_2", tmp_path)
    operators = run.get(collectives)
    mine = operators.instance[operators.rank == 2]
    assert len(mine) == 12 and (mine >= 0).all() and np.isin(mine, operators.instance[operators.rank == 0]).all()
    worst = run.get(late_peers)[0]
    assert worst.rank == 2 and 1_000 < worst.gain_ns / 3e6 < 1_015
    said = check(run.con)
    assert 900 < said.findings[0].saving_ns / 1e6 < 1_040 and said.findings[0].cause in ("host_late", "late_rank")
    assert len([finding for finding in said.findings if finding.cause in ("late_rank", "host_late")]) == 1
    (allocation,) = [finding for finding in said.findings if finding.cause == "memory_alloc"]
    assert 0.02 < allocation.saving_share < 0.05


@pytest.mark.shared
def test_allocation_on_all_ranks_is_one_finding(shared_traces: Path, tmp_path: Path) -> None:
    runs = second(shared_traces, f"{TORCHREC}/sst_long_a2a_optimizer_5_qcomm", tmp_path)
    assert len(runs) == 2
    for run in runs:
        said = check(run.con)
        assert said.findings[0].cause == "memory_alloc" and 0.1 < said.findings[0].saving_share < 0.36
        assert [finding.cause for finding in said.findings].count("memory_alloc") == 1


@pytest.mark.shared
def test_two_stages_wait_for_each_other(shared_traces: Path, tmp_path: Path) -> None:
    """communication.json says 158.1 ms of Wait Time for rank 0's second exchange; the starts say 157.7."""
    for run in second(shared_traces, "Ascend+msinsight/test/st", tmp_path):
        if 0 not in p2p_waits(run) or 2 not in run.ranks:
            continue
        total = {rank: int(run.get(waits).wait_ns[rows].sum()) for rank, rows in p2p_waits(run).items()}
        assert total[0] == pytest.approx(312.1e6, abs=0.5e6) and total[2] == pytest.approx(71.0e6, abs=0.5e6)
        return
    pytest.fail("no run holds ranks 0 and 2")
