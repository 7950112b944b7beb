"""The replay graph: unchanged it gives back every stamp, and its critical path tiles the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npulens import ingest
from npulens.analysis.intervals import Ints
from npulens.analysis.replay import maxplus
from npulens.analysis.replay.critical import Segment, critical_path
from npulens.analysis.replay.draft import HOST, KERNEL, LAUNCH, Draft
from npulens.analysis.replay.graph import graph
from npulens.analysis.replay.maxplus import solve
from npulens.analysis.run import Run
from npulens.collectors.simulator.simulated import (
    AscendOptions,
    SimConfig,
    simulate,
    write_db,
    write_kineto,
    write_text,
)
from npulens.ingest.store import runs as store
from tests.random_runs import empty_connection, fill
from tests.tablecase import connection

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces"
REAL = (
    "Ascend+msinsight/test/data/pytorch/text/level0", "Ascend+msinsight/test/data/pytorch/text/level1",
    "Ascend+msinsight/test/data/pytorch/text/level2", "Ascend+msinsight/test/data/pytorch/db/level0",
    "Ascend+msinsight/test/data/pytorch/db/level1", "Ascend+msinsight/test/data/pytorch/db/level2",
    "facebookresearch+HolisticTraceAnalysis/tests/data/negative_queue_length_values_check/rank0.json.gz",
    "facebookresearch+HolisticTraceAnalysis/tests/data/critical_path",
    "facebookresearch+HolisticTraceAnalysis/tests/data/mtia_inference_trace",
    "AMD-AGI+TraceLens/tests/traces/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "AMD-AGI+TraceLens/tests/traces/b200/eager_trace.json.gz",
)  # fmt: skip


def total_by_what(segments: Iterable[Segment]) -> dict[str, int]:
    """How much of the path each kind of piece makes."""
    total: dict[str, int] = {}
    for segment in segments:
        total[segment.what] = total.get(segment.what, 0) + segment.dur_ns
    return total


def holds(run: Run) -> None:
    """Every stamp is reproduced, the graph's wall is the run's, the critical path is the wall piece by piece."""
    found = run.get(graph)
    settled = found.settled
    times = solve(settled.first, settled.source, settled.lag, settled.rest)
    assert np.array_equal(times, settled.time)
    assert found.wall_ns(times) == run.wall_ns
    recorded = run.columns(
        "SELECT span_id, rank, ts_ns, ts_ns + dur_ns AS end_ns FROM span "
        "WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'wait') ORDER BY span_id"
    )
    at = np.searchsorted(found.task_span, recorded["span_id"])
    assert np.array_equal(found.task_span[at], recorded["span_id"])
    shift = found.offsets[np.searchsorted(np.array(run.ranks), recorded["rank"])] if len(at) else np.zeros(0)
    assert np.array_equal(times[found.task_start[at]], recorded["ts_ns"] + shift)
    assert np.array_equal(times[found.task_end[at]], recorded["end_ns"] + shift)
    pieces = critical_path(run)
    assert all(piece.dur_ns > 0 for piece in pieces)
    assert all(one.end_ns == other.begin_ns for one, other in zip(pieces, pieces[1:], strict=False))
    assert sum(total_by_what(pieces).values()) == run.wall_ns


def loaded(path: Path, home: Path) -> list[Run]:
    runs = ingest.load(path, home / "store").runs
    return [Run(store.open_run(home / "store", run.run_id)) for run in runs if run.run_id]


@pytest.mark.parametrize("name", ["kineto", "torch_npu_db", "torch_npu_text"])
def test_samples_are_reproduced(name: str, tmp_path: Path) -> None:
    runs = loaded(SAMPLES / name, tmp_path)
    assert runs
    for run in runs:
        holds(run)


@pytest.mark.shared
@pytest.mark.parametrize("name", REAL)
def test_real_captures_are_reproduced(name: str, shared_traces: Path, tmp_path: Path) -> None:
    runs = loaded(shared_traces / name, tmp_path)
    assert runs
    for run in runs:
        holds(run)


@pytest.mark.parametrize("fmt", ["text", "text without queue", "Level0", "db", "kineto"])
def test_simulated_jobs_are_reproduced_and_explained(fmt: str, tmp_path: Path) -> None:
    config = SimConfig(seed=4, ranks=2, steps=2, layers=2, task_queue=fmt not in ("kineto", "text without queue"),
                       clock_offsets_ns=(0, 300_000))  # fmt: skip
    job, home = simulate(config), tmp_path / "capture"
    home.mkdir()
    if fmt == "kineto":
        write_kineto(job, home)
    elif fmt == "db":
        write_db(job, home)
    else:
        write_text(job, home, AscendOptions("Level0" if fmt == "Level0" else "Level1"))
    (run,) = loaded(home, tmp_path)
    holds(run)
    assert all(run.get(graph).linked(rank) for rank in run.ranks)
    # The job is bound by kernels and collectives, and next to nothing of it is left without a reason.
    # The first piece may be the time by which one rank's first step began before the other's.
    total = total_by_what(critical_path(run)[1:])
    assert total["kernel"] + total["comm"] > 0.9 * run.wall_ns
    assert total.get("unexplained", 0) < 0.001 * run.wall_ns


def test_hostile_runs_are_reproduced() -> None:
    con = empty_connection()
    for seed in range(60):
        fill(con, seed)
        holds(Run(con))


@pytest.mark.parametrize("case", [{}, {"rank": {0: {}, 1: {}}}, {"spans": [
    {"id": 1, "kind": "kernel", "name": "k", "at": 5, "for": 0}]}])  # fmt: skip
def test_next_to_nothing_is_no_trouble(case: dict[str, object]) -> None:
    run = Run(connection(case))
    holds(run)
    assert run.get(graph).linked(0) is False


def test_the_critical_path_of_a_step_by_hand() -> None:
    """Host to 100, launch 10, kernel 300, 5 until the host is awake, 50 of host, launch 10, kernel 80; then nothing."""
    run = Run(connection({"spans": [
        {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 500},
        {"id": 2, "kind": "runtime", "name": "Node@launch", "at": 100, "for": 4},
        {"id": 3, "kind": "kernel", "name": "a", "at": 114, "for": 300, "by": 2},
        {"id": 4, "kind": "runtime", "name": "AscendCL@aclrtSynchronizeStream", "at": 120, "for": 299},
        {"id": 5, "kind": "runtime", "name": "Node@launch", "at": 465, "for": 4},
        {"id": 6, "kind": "kernel", "name": "b", "at": 479, "for": 80, "by": 5},
    ]}))  # fmt: skip
    holds(run)
    said = [(piece.what, piece.dur_ns // 1000, piece.span_id) for piece in critical_path(run)]
    # A launch counts from the end of its call, 4 us after it began; the return of the waiting call is span 4's.
    assert said == [("host", 104, 2), ("launch", 10, 3), ("kernel", 300, 3), ("sync", 5, 4), ("host", 50, 5),
                    ("launch", 10, 6), ("kernel", 80, 6)]  # fmt: skip


def test_excess_goes_where_it_is_plausible_and_the_rest_stays_unexplained() -> None:
    """b came 100 after a and 30 after c, which both say less: 30 - 20 may be c's doing up to 25, 5 are left."""
    draft = Draft()
    a, c, b = draft.nodes(np.array([0, 70, 100]), 0)
    draft.edges(np.array([a]), np.array([b]), 40, HOST)
    draft.edges(np.array([c]), np.array([b]), 20, LAUNCH, 25)
    settled, _ = draft.settle()
    assert settled.kind.tolist() == [HOST, LAUNCH]
    assert settled.lag.tolist() == [40, 25]
    assert settled.rest.tolist() == [0, 70, 5]


def test_moments_of_one_instant_are_put_in_order() -> None:
    draft = Draft()
    last, middle, first = draft.nodes(np.array([7, 7, 7]), 0)
    draft.edges(np.array([first, middle]), np.array([middle, last]), 0, KERNEL)
    settled, place = draft.settle()
    assert place.tolist() == [2, 1, 0]
    assert settled.source.tolist() == [0, 1]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Ints, np.ndarray, Ints, Ints]:
    count = draw(st.integers(0, 12))
    edges = [draw(st.lists(st.integers(0, node - 1), max_size=4)) if node else [] for node in range(count)]
    first = np.cumsum([0, *map(len, edges)]).astype(np.int64)
    source = np.array([one for of in edges for one in of], np.int32)
    number = st.integers(-(2**40), 2**40)
    lag = np.array([draw(number) for _ in source], np.int64)
    return first, source, lag, np.array([draw(number) for _ in range(count)], np.int64)


@given(graphs())
def test_both_solvers_do_what_the_definition_says(case: tuple[Ints, np.ndarray, Ints, Ints]) -> None:
    first, source, lag, rest = case
    expected: list[int] = []
    for node, more in enumerate(rest.tolist()):
        reached = [expected[source[e]] + int(lag[e]) for e in range(first[node], first[node + 1])]
        expected.append((max(reached) if reached else 0) + more)
    time = np.empty(len(rest), np.int64)
    maxplus.plain(first, source, lag, rest, time)
    assert time.tolist() == expected
    assert solve(first, source, lag, rest).tolist() == expected


@pytest.mark.parametrize("source", [[0], [1], [-1]])
def test_an_edge_that_does_not_lead_forward_is_refused(source: list[int]) -> None:
    parts = np.array([0, 1, 1]), np.array(source, np.int32), np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="forward"):
        solve(*parts)
    with pytest.raises(ValueError, match="forward"):
        maxplus.plain(*parts, np.zeros(2, np.int64))


@given(graphs(), st.integers(-(2**40), 2**40))
def test_both_ways_back_take_the_last_edge_that_decided(
    case: tuple[Ints, np.ndarray, Ints, Ints], until: int
) -> None:
    first, source, lag, rest = case
    time = solve(first, source, lag, rest)
    for last in range(len(rest)):
        expected, node = list[tuple[int, int]](), last
        while node >= 0 and int(time[node]) > until:
            decided = [e for e in range(first[node], first[node + 1])
                       if int(time[source[e]]) + int(lag[e]) == int(time[node]) - int(rest[node])]  # fmt: skip
            expected.append((node, decided[-1] if decided else -1))
            node = int(source[decided[-1]]) if decided else -1
        nodes, edges = maxplus.walk(first, source, lag, rest, time, last, until)
        assert list(zip(nodes.tolist(), edges.tolist(), strict=True)) == expected
        plain = np.empty(last + 1, np.int64), np.empty(last + 1, np.int64)
        count = maxplus.walk_plain(first, source, lag, rest, time, last, until, *plain)
        assert list(zip(*(part[:count].tolist() for part in plain), strict=True)) == expected


def test_a_way_back_along_an_edge_that_does_not_lead_back_is_refused() -> None:
    if maxplus._native is None:
        pytest.skip("built without a compiler")
    parts = np.array([0, 1, 1]), np.array([1], np.int32), np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="forward"):
        maxplus.walk(*parts, np.ones(2, np.int64), 0, 0)
    with pytest.raises(ValueError, match="length"):
        maxplus.walk(*parts, np.ones(3, np.int64), 0, 0)
