"""What is selected: its address, and what a run measures when only a part of it is looked at."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as some

from npulens import ingest
from npulens.analysis import kept, views
from npulens.analysis.look import communication, copies, kernels, launch, memory
from npulens.analysis.selection import aligned, domains, flame, within
from npulens.analysis.selection.within import Part
from npulens.app import run_open
from npulens.app.selection import chosen
from npulens.app.selection.chosen import Selection
from tests.tablecase import connection

ROOT = Path(__file__).resolve().parent.parent
Con = duckdb.DuckDBPyConnection
SUMS = (
    "computing_ns, communication_ns, communication_not_overlapped_ns, overlapped_ns, copy_ns, copy_not_overlapped_ns, "
    "unknown_ns, unknown_not_overlapped_ns, idle_ns, only_waiting_ns"
)

numbers = some.integers(0, 10**6)
windows = some.tuples(some.integers(0, 2**62 - 1), some.integers(1, 10**12)).map(lambda one: (one[0], one[0] + one[1]))
selections = some.builds(
    Selection,
    some.lists(numbers, max_size=12, unique=True).map(lambda ranks: tuple(sorted(ranks))),
    some.none() | some.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair))),
    some.none() | windows.filter(lambda window: window[1] <= 2**62),
    some.none() | some.text("abc_-.1", min_size=1, max_size=200), some.none() | some.integers(0, 10**17),
)  # fmt: skip


@given(selections)
def test_an_address_gives_the_selection_back_to_the_nanosecond(selection: Selection) -> None:
    query = selection.query()
    assert chosen.read(query) == selection
    assert not chosen.stale(query, query)
    assert selection.empty == (not query)


@given(some.dictionaries(some.sampled_from([*chosen.WORDS, "rank", "step", "area", "from"]), some.text(max_size=40)))
def test_no_address_is_too_strange(query: dict[str, str]) -> None:
    told = chosen.read(query)
    assert chosen.read(told.query()) == told


def test_older_words_are_still_read() -> None:
    assert chosen.read({"rank": "3", "step": "50", "area": "100,250,7,8"}) == Selection((3,), (50, 50), (100, 250))
    assert chosen.read({"rank": "3", "from": "0", "to": "9"}) == Selection()  # where the timeline looks
    assert chosen.read({"ranks": "0,2-4", "rank": "9"}).ranks == (0, 2, 3, 4)
    assert chosen.read({"window": "250-100"}).window is None
    assert chosen.read({"span": "gap.0.7"}).span is None
    gone = chosen.stale({"ranks": "1", "area": "5,9,2", "span": "gap.0.7", "step": "3"}, {})
    assert set(gone) == {"ranks", "area", "step"}
    assert chosen.stale({"area": "5,9,2"}, {"window": "5-9"}) == ()


# What is measured of a selection.


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Con:
    """Two ranks, two steps: kernels, collectives and their tasks, copies, launches, memory."""
    place = tmp_path_factory.mktemp("selection") / "store"
    loaded = ingest.load(ROOT / "sample_traces" / "late_rank", place).runs[0]
    return run_open.opened(place, str(loaded.run_id))


def narrowed(whole: Con, part: Part, *, hosts: bool = True) -> Con:
    con = whole.cursor()
    within.narrow(con, part, hosts=hosts)
    within.hold(con, whole.cursor(), kept.KEPT)
    return con


def sums(con: Con, where: str = "step IS NULL") -> list[tuple[Any, ...]]:
    return con.execute(f"SELECT rank, {SUMS} FROM device_time WHERE {where} ORDER BY rank").fetchall()


def test_a_step_is_summed_as_it_was_when_the_run_was_loaded(run: Con) -> None:
    columns = f"rank, ts_ns, dur_ns, {SUMS}, kernels, collectives, copies, work_ts_ns"
    for (step,) in run.execute("SELECT DISTINCT step FROM step ORDER BY step").fetchall():
        con = narrowed(run, Part(steps=(step, step)))
        stored = run.execute(f"SELECT {columns} FROM device_time WHERE step = {step} ORDER BY rank").fetchall()
        assert con.execute(f"SELECT {columns} FROM device_time WHERE step IS NULL ORDER BY rank").fetchall() == stored


def test_windows_that_tile_a_window_sum_up_to_it(run: Con) -> None:
    chance = random.Random(3)
    low, high = 40_000_000, 380_000_000
    cuts = [low, *sorted(chance.randrange(low + 1, high) for _ in range(3)), high]
    whole = sums(narrowed(run, Part(window=(low, high))))
    parts = [sums(narrowed(run, Part(window=edges))) for edges in zip(cuts, cuts[1:], strict=False)]
    assert len(whole) == 2
    for at, row in enumerate(whole):
        added = [sum(part[at][column] for part in parts) for column in range(1, len(row))]
        assert added == list(row[1:])


def test_kernels_of_a_window_are_those_that_run_in_it(run: Con) -> None:
    begin, end = 60_000_000, 130_000_001
    rows = run.execute(
        "SELECT ts_ns, ts_ns + dur_ns FROM span WHERE rank = 2 AND kind IN ('kernel', 'memset') ORDER BY ts_ns"
    ).fetchall()
    busy = [(max(a, begin), min(b, end)) for a, b in rows if a < end and b > begin]
    union, reach = 0, begin
    for a, b in sorted(busy):
        union += max(0, b - max(a, reach))
        reach = max(reach, b)
    con = narrowed(run, Part((2,), None, (begin, end)), hosts=False)
    found = kernels.table(con, "type", kernels.Filter())
    assert (found.ranks, found.computing_ns, found.wall_ns) == (1, union, end - begin)
    assert found.kernels == sum(begin <= a < end for a, _ in rows)
    told = launch.launches(con).headline
    started = run.execute(
        "SELECT count(*) FROM span WHERE rank = 2 AND kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown') "
        "AND ts_ns >= ? AND ts_ns < ?", [begin, end],
    ).fetchall()[0][0]  # fmt: skip
    assert (told.tasks, told.ranks) == (started, (2,))


def test_a_lens_of_everything_is_the_whole_run(run: Con) -> None:
    """Both ranks, both steps: the tables that shadow the run's hold the same, so every lens says the same."""
    steps = run.execute("SELECT min(step), max(step) FROM step").fetchall()[0]
    whole, con = run.cursor(), narrowed(run, Part((0, 2), steps))
    assert sums(con, "true") == sums(whole, "true")
    assert communication.summary(con) == communication.summary(whole)
    assert communication.kinds(con) == communication.kinds(whole)
    assert communication.peer_waits(con).equals(communication.peer_waits(whole))
    assert copies.totals(con) == copies.totals(whole)
    assert launch.launches(con).headline == launch.launches(whole).headline


def test_what_is_kept_of_the_selection_is_a_part_of_the_whole(run: Con) -> None:
    con = narrowed(run, Part((0,), None, (50_000_000, 150_000_000)))
    every = run.cursor()
    kept.ready(every, ("launched",))
    mine = con.execute("SELECT * FROM launched ORDER BY span_id").fetchall()
    wanted = every.execute(
        "SELECT * FROM launched WHERE rank = 0 AND ts_ns >= 50000000 AND ts_ns < 150000000 ORDER BY span_id"
    ).fetchall()
    assert mine == wanted and mine
    assert con.execute("SELECT DISTINCT rank FROM rank").fetchall() == [(0,)]


def case(spans: list[dict[str, Any]], **more: Any) -> Con:
    con = connection({"spans": spans, **more})
    views.install(con)
    return con


def test_a_sample_holds_until_the_next() -> None:
    """At 40 us the pool still holds what was sampled at 10."""
    rows = [{"component": "PTA", "at": at, "allocated_bytes": size} for at, size in ((10, 5), (50, 9), (90, 2))]
    con = case([{"id": 1, "kind": "kernel", "name": "k", "at": 0, "for": 100}], tables={"memory_sample": rows},
               rank={0: {"first_ns": 0, "last_ns": 100_000}})  # fmt: skip
    part = con.cursor()
    within.narrow(part, Part(window=(40_000, 60_000)))
    (pool,) = memory.pools(part)
    assert (pool.samples, pool.allocated, pool.first_ns, pool.last_ns) == (2, 9, 40_000, 50_000)


def test_panes_are_cut_by_steps_and_windows() -> None:
    marks = [{"id": 900 + n, "kind": "step_mark", "name": f"ProfilerStep#{n}", "at": 100 * n, "for": 100}
             for n in (1, 2, 3)]  # fmt: skip
    con = case([*marks, {"id": 1, "kind": "kernel", "name": "k", "at": 350, "for": 40}],
               rank={0: {"first_ns": 0, "last_ns": 500_000}})  # fmt: skip
    assert within.panes(con, Part()) == {0: (100_000, 400_000)}
    assert within.panes(con, Part(steps=(2, 3))) == {0: (200_000, 400_000)}
    assert within.panes(con, Part(steps=(2, 2), window=(150_000, 250_000))) == {0: (200_000, 250_000)}
    assert within.panes(con, Part(steps=(9, 9))) == {}
    assert within.panes(con, Part(window=(420_000, 450_000))) == {0: (420_000, 450_000)}
    assert within.panes(con, Part(ranks=(4,))) == {}
    empty = con.cursor()
    within.narrow(empty, Part(steps=(9, 9)))
    assert kernels.table(empty, "type", kernels.Filter()).kernels == 0


# By code.

NESTED = [
    {"id": 1, "kind": "python", "name": "train", "at": 0, "for": 100},
    {"id": 2, "kind": "cpu_op", "name": "mm", "at": 10, "for": 20},
    {"id": 3, "kind": "cpu_op", "name": "mm", "at": 40, "for": 20},
    {"id": 4, "kind": "cpu_op", "name": "add", "at": 70, "for": 10},
    {"id": 5, "kind": "kernel", "name": "k", "at": 50, "for": 30, "by": 2},
    {"id": 6, "kind": "kernel", "name": "k", "at": 90, "for": 40, "by": 3},
    {"id": 7, "kind": "kernel", "name": "lost", "at": 140, "for": 7},
]  # fmt: skip


def told(found: flame.Flame | None) -> dict[str, tuple[int, int]]:
    """A path and its total and own time."""
    assert found is not None
    paths: list[str] = []
    for frame in found.frames:
        paths.append((paths[frame.parent] + "/" if frame.parent >= 0 else "") + frame.name)
    return {path: (frame.total_ns, frame.self_ns) for path, frame in zip(paths, found.frames, strict=True)}


def test_device_time_belongs_to_the_code_that_launched_it() -> None:
    found = flame.flame(case(NESTED), "device")
    assert told(found) == {"train": (70_000, 0), "train/mm": (70_000, 70_000)}
    assert found is not None and (found.total_ns, found.unlinked_ns) == (70_000, 7_000)


def test_host_time_is_nested() -> None:
    found = told(flame.flame(case(NESTED), "host"))
    assert found == {"train": (100_000, 50_000), "train/mm": (40_000, 40_000), "train/add": (10_000, 10_000)}


def test_operators_lie_below_the_frames_that_were_recorded_beside_them() -> None:
    """The frames replace the step above; an operator within an operator stays below it."""
    spans = [
        {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100},
        {"id": 2, "kind": "cpu_op", "name": "linear", "at": 10, "for": 30, "stack": {"frames": "f.py: f\ng.py: main"}},
        {"id": 3, "kind": "cpu_op", "name": "mm", "at": 20, "for": 10, "stack": {"frames": "f.py: f\ng.py: main"}},
        {"id": 4, "kind": "cpu_op", "name": "add", "at": 50, "for": 10},
    ]
    found = told(flame.flame(case(spans), "host"))
    below = "g.py: main/f.py: f"
    assert found[f"{below}/linear"] == (30_000, 20_000) and found[f"{below}/linear/mm"] == (10_000, 10_000)
    assert found["g.py: main"] == found[below] == (30_000, 0)
    assert found["/add"] == (10_000, 10_000)


def test_a_flame_is_cut_at_the_edges_of_the_window() -> None:
    con = case(NESTED, rank={0: {"first_ns": 0, "last_ns": 150_000}}).cursor()
    within.narrow(con, Part(window=(60_000, 100_000)))
    assert told(flame.flame(con, "device")) == {"train": (30_000, 0), "train/mm": (30_000, 30_000)}
    assert told(flame.flame(con, "host")) == {"train": (40_000, 30_000), "train/add": (10_000, 10_000)}


def test_two_flames_differ_by_path_and_by_window() -> None:
    base = flame.flame(case(NESTED), "host")
    more = [*NESTED, {"id": 8, "kind": "cpu_op", "name": "new", "at": 82, "for": 5}]
    head = flame.flame(case(more), "host")
    assert base is not None and head is not None
    rows = {row.name: (row.base_ns, row.head_ns) for row in flame.differences(base, head, 2, 1)}
    assert rows == {"train": (50_000, 100_000), "mm": (20_000, 40_000), "add": (5_000, 10_000), "new": (0, 5_000)}


# By parallel domain.


def test_the_grid_has_stages_down_and_the_rest_across() -> None:
    groups = [
        *({"group_name": f"tp{n}", "rank": 0, "kind": "tp", "ranks": [2 * n, 2 * n + 1], "source": "s"}
          for n in range(4)),
        *({"group_name": f"dp{n}", "rank": 0, "kind": "DP", "ranks": ranks, "source": "s"}
          for n, ranks in enumerate(([0, 2], [1, 3], [4, 6], [5, 7]))),
        *({"group_name": f"pp{n}", "rank": 0, "kind": "pp", "ranks": [n, n + 4], "source": "s"} for n in range(4)),
        {"group_name": "all", "rank": 0, "kind": None, "ranks": list(range(8)), "source": "s"},
    ]  # fmt: skip
    spans = [
        {"id": 1, "kind": "kernel", "name": "k", "at": 0, "for": 30},
        {"id": 2, "kind": "comm_op", "name": "allreduce", "at": 20, "for": 40,
         "comm": {"collective": "allreduce", "group_name": "tp0", "op_span_id": 2}},
        {"id": 3, "kind": "kernel", "name": "k", "at": 80, "for": 20},
    ]  # fmt: skip
    con = case(spans, tables={"parallel_group": groups}, run={"world_size": 8})
    found = domains.strategy(con, None)
    assert found.sizes == (("dp", 4, 2), ("pp", 4, 2), ("tp", 4, 2))
    assert found.untold == ("all",)
    at = {place.rank: (place.row, place.column) for place in found.places}
    assert at == {0: (0, 0), 1: (0, 1), 2: (0, 2), 3: (0, 3), 4: (1, 0), 5: (1, 1), 6: (1, 2), 7: (1, 3)}
    first = found.places[0]
    assert (first.captured, first.dur_ns, first.computing_ns, first.idle_ns) == (True, 100_000, 50_000, 20_000)
    (domain,) = first.domains
    assert (domain.kind, domain.busy_ns, domain.exposed_ns) == ("tp", 40_000, 30_000)
    assert not any(place.captured for place in found.places[1:])
    part = domains.strategy(con, Part(window=(50_000, 90_000)))
    assert (part.places[0].computing_ns, part.places[0].domains[0].busy_ns) == (10_000, 10_000)


def test_waiting_in_a_domain_is_when_its_tasks_only_wait_and_nothing_moves_or_computes() -> None:
    """Kernel to 30 us; waits 20-35 and 45-55, a transfer 30-45: 10 us are left, 45-55."""
    task = {"group_name": "tp0", "op_span_id": 2}
    spans = [
        {"id": 1, "kind": "kernel", "name": "k", "at": 0, "for": 30},
        {"id": 2, "kind": "comm_op", "name": "allreduce", "at": 20, "for": 40,
         "comm": {"collective": "allreduce", **task}},
        *({"id": number, "kind": "comm_task", "name": name, "at": at, "for": dur, "comm": {"task_type": name, **task}}
          for number, name, at, dur in ((3, "Notify Wait", 20, 15), (4, "Memcpy", 30, 15), (5, "Notify Wait", 45, 10))),
    ]  # fmt: skip
    groups = [{"group_name": "tp0", "rank": 0, "kind": "tp", "ranks": [0, 1], "source": "s"}]
    con = case(spans, tables={"parallel_group": groups}, run={"world_size": 2})
    (domain,) = domains.strategy(con, None).places[0].domains
    assert (domain.busy_ns, domain.exposed_ns, domain.waiting_ns) == (40_000, 30_000, 10_000)


def test_a_job_with_one_domain_waits_as_long_there_as_it_communicates_in_vain(tmp_path: Path) -> None:
    run = ingest.load(ROOT / "sample_traces" / "late_rank", tmp_path / "s").runs[0].run_id
    con = run_open.opened(tmp_path / "s", run)
    (domain,) = domains.mean(domains.strategy(con, None).places).values()
    summary = communication.summary(con)
    assert summary is not None and summary.only_waiting_ns
    assert abs(domain[2] - summary.only_waiting_ns) <= 1  # a mean is rounded once


@pytest.mark.parametrize(
    ("sizes", "ranks", "times"),
    [((("dp", 4, 2), ("pp", 4, 2), ("tp", 4, 2)), 8, 1), ((("dp", 250, 4), ("tp", 500, 2)), 1000, 125),
     ((("dp", 1, 4), ("tp", 1, 2)), 5, 1), ((("dp", 2, 8), ("ep", 4, 4)), 16, 2), ((("ep", 4, 4),), 16, 4)],
    ids=["all", "blocks", "one rank's groups", "ep within dp", "ep"],
)  # fmt: skip
def test_sizes_are_repeated_only_where_groups_hold_all_ranks(
    sizes: tuple[tuple[str, int, int], ...], ranks: int, times: int
) -> None:  # fmt: skip
    place = domains.Place(0, 0, 0, (), False, None, None, None, ())
    assert domains.Strategy(sizes, (place,) * ranks, (), ()).repeated == times


def test_groups_without_a_kind_make_no_grid() -> None:
    rows = [{"group_name": "g", "rank": 0, "kind": None, "ranks": [0, 1], "source": "s"}]
    found = domains.strategy(case([{"id": 1, "kind": "kernel", "name": "k", "at": 0, "for": 9}],
                                  tables={"parallel_group": rows}), None)  # fmt: skip
    assert (found.places, found.untold) == ((), ("g",))


# Two runs side by side.


def work(*lengths: tuple[str, int, int]) -> Con:
    return case([
        {"id": n, "kind": "kernel", "name": name, "at": at, "for": length}
        for n, (name, at, length) in enumerate(lengths, 1)
    ])  # fmt: skip


def test_a_difference_lies_where_the_front_moves_on_more() -> None:
    base = work(("a", 0, 10), ("b", 10, 10), ("c", 25, 10))
    head = work(("a", 0, 10), ("b", 10, 30), ("x", 40, 2), ("c", 47, 10))
    sides = [aligned.pieces(con, 0, 0, end) for con, end in ((base, 35_000), (head, 57_000))]
    assert sides[0] is not None and sides[1] is not None
    assert sum(piece.advance_ns for piece in sides[0]) == 35_000
    found = aligned.spots(sides[0], sides[1])
    assert [(spot.name, spot.change_ns) for spot in found] == [("b", 20_000), ("x", 2_000)]
    assert sum(spot.change_ns for spot in found) == 57_000 - 35_000
    assert (found[0].base_ns, found[0].head_ns, found[1].base_dur_ns) == (10_000, 10_000, 0)
