"""The timeline's data against brute force over the same rows: gaps, counters, summaries, search, the file itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tablecase import connection
from timeline_case import HARD, TRACKS, Case, asked, case, rows, windows

from npulens.analysis.timeline import counters, detail, find, flame, gaps, layout, summary, window
from npulens.analysis.timeline.gaps import Pieces
from npulens.analysis.timeline.ids import SPAN_BITS, TRACK_BITS, Slots
from npulens.analysis.timeline.wanted import Wanted, understood
from npulens.ingest.store import lod, runs


@pytest.fixture(scope="module", params=[300, 40_000], ids=["small", "summed up"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    found = case(tmp_path_factory.mktemp("lod"), rows(request.param, 7))
    yield found
    found.con.close()


pieces_of = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 400), st.integers(0, 28)), min_size=1, max_size=60)


@HARD
@given(pieces_of, st.integers(-50, 3000), st.integers(1, 3000), st.sampled_from((0, 1, 16, 256)))
def test_gap_pieces_are_conserved(drawn: list[tuple[int, int, int]], begin: int, length: int, bucket: int) -> None:
    at, rows_ = 0, []
    for gap, size, cause in drawn:
        rows_.append((at + gap, at + gap + size, cause))
        at += gap + size
    start, end, cause_ = (np.array(column, np.int64) for column in zip(*rows_, strict=True))
    pieces = Pieces(start, end, cause_, cause_ * 0 - 1)
    spans, cells = gaps.tile(pieces, -1, begin, begin + length, bucket)
    expected = [(s, e) for s, e, _ in rows_ if s < begin + length and e > begin and e - s >= bucket]
    assert list(zip(spans.ts.tolist(), (spans.ts + spans.dur).tolist(), strict=True)) == expected
    if bucket:
        first, last = begin // bucket, -(-(begin + length) // bucket)
        short = [(s, e, c) for s, e, c in rows_ if e - s < bucket and first <= s // bucket < last]
        assert int(cells.spans.sum()) == len(short) and int(cells.busy.sum()) == sum(e - s for s, e, _ in short)
        for n, ts in enumerate(cells.ts.tolist()):
            mine = [(e - s, c) for s, e, c in short if s // bucket * bucket == ts]
            assert (int(cells.longest[n]), int(cells.name[n])) == max(mine)
    length_of = [(c, min(e, begin + length) - max(s, begin)) for s, e, c in rows_ if s < begin + length and e > begin]
    for said, n, total, least, most in gaps.summed(pieces, begin, begin + length):
        mine = [size for c, size in length_of if gaps.CODES[c] == said]
        assert (n, total, least, most) == (len(mine), sum(mine), min(mine), max(mine))
    assert len(gaps.summed(pieces, begin, begin + length)) == len({c for c, _ in length_of})
    assert gaps.near(pieces, int(start[-1]), True) is None
    assert gaps.near(pieces, int(end[-1]), False) == (len(rows_) - 1, start[-1], end[-1] - start[-1])


@settings(HARD, max_examples=25)
@given(windows)
def test_a_summary_is_what_brute_force_says(made: Case, drawn: tuple[float, int, int, int]) -> None:
    begin, end, _, tracks = asked(made, drawn)
    found = summary.summary(made.con, made.how, begin, end, tracks)
    seen = made.seen(begin, end, tracks)
    length = (seen.ts_ns + seen.dur_ns).clip(upper=end) - seen.ts_ns.clip(lower=begin)
    expected = seen.assign(length=length).groupby(["track", "name", "kind"]).length.agg(["size", "sum", "min", "max"])
    assert {(r.track, r.name, r.kind): (r.count, r.total_ns, r.min_ns, r.max_ns) for r in found.rows} == {
        key: tuple(int(v) for v in row) for key, row in zip(expected.index, expected.to_numpy(), strict=True)
    }
    assert [r.total_ns for r in found.rows] == sorted((r.total_ns for r in found.rows), reverse=True)
    assert sum(r.self_ns or 0 for r in found.rows) == sum(r.total_ns for r in found.rows)  # nothing is nested here
    for track, busy in found.busy:
        assert busy == covered([(max(s, begin), min(s + d, end)) for t, s, d in
                                zip(seen.track, seen.ts_ns, seen.dur_ns, strict=True) if t == track])  # fmt: skip


def nested(seed: int, count: int) -> pd.DataFrame:
    """Random trees of spans on some tracks: children lie within their parent, and those of another lane overlap."""
    pick = random.Random(seed)
    found: list[tuple[int, int, int, int, int, str, str, int | None]] = []

    def grow(track: int, depth: int, begin: int, end: int, parent: int | None) -> None:
        for lane in range(pick.choice((1, 1, 2))):
            at = begin
            while at < end and len(found) < count:
                at += pick.randrange(0, 40)
                length = min(pick.choice((0, pick.randrange(60), pick.randrange(5_000))), end - at)
                if length < 0:
                    break
                mine = len(found)
                name, kind = pick.choice("abc"), pick.choice(("cpu_op", "python"))
                found.append((mine, track, depth + lane, at, length, name, kind, parent))
                if length > 20 and pick.random() < 0.6:
                    grow(track, depth + lane + 1, at, at + length, mine)
                at += length + 1

    for track in range(TRACKS):
        while len(found) < count * (track + 1) // TRACKS:
            begin = 1 + max((row[3] + row[4] for row in found if row[1] == track), default=pick.randrange(500))
            grow(track, 0, begin, begin + pick.randrange(20_000), None)
    columns = ["span_id", "track", "depth", "ts_ns", "dur_ns", "name", "kind", "parent_id"]
    return pd.DataFrame(found, columns=columns).astype({"parent_id": "Int64"})


@pytest.fixture(scope="module", params=[3, 700], ids=["many portions", "few"])
def added_up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lod, "PORTION", request.param)
        found = case(tmp_path_factory.mktemp("lod"), nested(request.param, 4_000))
    assert found.how.portion is not None
    yield found
    found.con.close()


@settings(HARD, max_examples=25)
@given(windows)
def test_sums_of_portions_say_what_every_span_says(added_up: Case, drawn: tuple[float, int, int, int]) -> None:
    begin, end, _, tracks = asked(added_up, drawn)
    seen = summary.summary(added_up.con, replace(added_up.how, portion=None), begin, end, tracks)
    assert summary.summary(added_up.con, added_up.how, begin, end, tracks) == seen


def test_the_whole_run_is_its_sums(added_up: Case) -> None:
    how, every = added_up.how, list(range(TRACKS))
    seen = summary.summary(added_up.con, replace(how, portion=None), 0, how.length_ns, every)
    assert summary.summary(added_up.con, how, 0, how.length_ns, every) == seen
    assert any(row.self_ns != row.total_ns for row in seen.rows)


def covered(parts: list[tuple[int, int]]) -> int:
    """Length of a union, by walking over it."""
    total, reach = 0, -(2**62)
    for start, end in sorted(parts):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def test_self_time_leaves_out_the_union_of_the_children(tmp_path: Path) -> None:
    """A parent of 100 with children 10-40 and 30-60, which overlap; the window shows 20 to 100."""
    spans = pd.DataFrame(
        [(1, 0, 0, 0, 100, "outer", "cpu_op", None), (2, 0, 1, 10, 30, "a", "cpu_op", 1),
         (3, 0, 2, 30, 30, "b", "cpu_op", 1)],
        columns=["span_id", "track", "depth", "ts_ns", "dur_ns", "name", "kind", "parent_id"],
    ).astype({"parent_id": "Int64"})  # fmt: skip
    of = case(tmp_path, spans)
    found = summary.summary(of.con, of.how, 20, 100, [0])
    assert {row.name: (row.total_ns, row.self_ns) for row in found.rows} == {
        "outer": (80, 40),
        "a": (20, 20),
        "b": (30, 30),
    }
    assert found.busy == ((0, 80),) and not found.cut
    assert find.near(of.con, 0, 1, 0, None, True) == (2, 10, 30)


def wanted(text: str) -> Wanted:
    found = understood(text)
    assert isinstance(found, Wanted)
    return found


def test_search_is_literal_and_ignores_case(made: Case) -> None:
    for text in ("MATMUL", "50%", "_", "ATEN::", "数据", "%", "no such name", "'; DROP TABLE span; --"):
        hits = made.spans[made.spans.name.str.lower().str.contains(text.lower(), regex=False)].sort_values(
            ["ts_ns", "span_id"]
        )
        asked_for = wanted(f'"{text}"')
        found = find.search(made.con, asked_for, (), 10, 0)
        assert (found.total, found.total_ns) == (len(hits), int(hits.dur_ns.sum()))
        assert [hit.id for hit in found.hits] == hits.span_id.tolist()[:10]
        later = find.search(made.con, asked_for, (), 10, made.end // 2)
        assert [hit.id for hit in later.hits] == hits[hits.ts_ns >= made.end // 2].span_id.tolist()[:10]


def test_filters_are_what_brute_force_says(made: Case) -> None:
    """All spans are of rank 0; track 0 is a host thread with operators, the others are streams with kernels."""
    s, steps = made.spans, ((0, 4, 1000, 5000), (0, 5, 6000, 90_000), (1, 5, 0, 10**9))
    inside = (s.ts_ns >= 6000) & (s.ts_ns < 96_000)
    for text, holds in (
        ("rank:0", s.ts_ns == s.ts_ns), ("rank:1-9", s.ts_ns != s.ts_ns), ("cat:kernel", s.kind == "kernel"),
        ("cat!=kernel", s.kind != "kernel"), ("track:stream", s.track > 0), ("track:t1,t3", s.track.isin([1, 3])),
        ("track!~t1 track!~t3 track:t", ~s.track.isin([1, 3])), ("dur>299ns", s.dur_ns > 299),
        ("dur:1ns..4ns", s.dur_ns.between(1, 4)), ("name=add", s.name == "Add"), ("name=mat*l", s.name == "matmul"),
        ("name!~a*m", ~s.name.str.lower().str.contains("a.*m", regex=True)), ("step:5", inside),
        ("add dur>=1ns cat:kernel step:5", inside & (s.name == "Add") & (s.dur_ns >= 1) & (s.kind == "kernel")),
    ):  # fmt: skip
        hits = s[holds].sort_values(["ts_ns", "span_id"])
        found = find.search(made.con, wanted(text), steps, 10, 0)
        assert (found.total, found.total_ns) == (len(hits), int(hits.dur_ns.sum())), text
        assert [hit.id for hit in found.hits] == hits.span_id.tolist()[:10], text


@settings(HARD, max_examples=15)
@given(windows)
def test_the_longest_spans_of_an_area(made: Case, drawn: tuple[float, int, int, int]) -> None:
    begin, end, _, tracks = asked(made, drawn)
    seen = made.seen(begin, end, tracks)
    inside = (seen.ts_ns + seen.dur_ns).clip(upper=end) - seen.ts_ns.clip(lower=begin)
    order = seen.assign(less=-inside).sort_values(["less", "ts_ns", "span_id"])
    found = summary.longest(made.con, made.how, begin, end, tracks, 7)
    assert [hit.id for hit in found] == order.span_id.tolist()[:7]


@settings(HARD, max_examples=15)
@given(windows)
def test_a_flame_graph_adds_up_paths_of_names(added_up: Case, drawn: tuple[float, int, int, int]) -> None:
    """Against a walk up the parents of every span."""
    begin, end, _, tracks = asked(added_up, drawn)
    by_id = {row.span_id: row for row in added_up.spans.itertuples()}
    sums: dict[tuple[str, ...], list[int]] = {}
    for row in added_up.seen(begin, end, tracks).itertuples():
        path, at = [], row
        while at is not None:
            path.append(f"{at.name} {at.kind}")
            at = None if pd.isna(at.parent_id) else by_id[at.parent_id]
        entry = sums.setdefault(tuple(reversed(path)), [0, 0])
        entry[0] += 1
        entry[1] += min(row.ts_ns + row.dur_ns, end) - max(row.ts_ns, begin)
    found = flame.flame(added_up.con, added_up.how, begin, end, tracks)
    assert found is not None and found.spans == sum(count for count, _ in sums.values())
    paths: list[tuple[str, ...]] = []
    for frame in found.frames:
        above = paths[frame.parent] if frame.parent >= 0 else ()
        paths.append((*above, f"{frame.name} {frame.kind}"))
        assert sums[paths[-1]] == [frame.count, frame.total_ns]
        below = sum(one.total_ns for one in found.frames if one.parent == len(paths) - 1)
        assert frame.self_ns <= max(0, frame.total_ns - below)
    assert len(set(paths)) == len(paths) == len(sums) - found.left_out
    whole = sum(total for path, (_, total) in sums.items() if len(path) == 1)
    # what is called by a frame that is left out is left out with it, even where it ends later
    thin = [total for path, (_, total) in sums.items() if path not in paths and path[:-1] in {(), *paths}]
    assert all(total < max(1, whole * flame.THINNEST) for total in thin) or len(paths) == flame.MOST_FRAMES


def test_next_and_previous_walk_a_whole_lane(made: Case) -> None:
    lane = made.spans[(made.spans.track == 1) & (made.spans.depth == 1)].sort_values(["ts_ns", "span_id"])
    expected, walked = lane.span_id.tolist()[:25], []
    at, span = -1, None
    for _ in expected:
        found = find.near(made.con, 1, 1, at, span, True)
        assert found
        walked.append(found[0])
        span, at = found[0], found[1]
    assert walked == expected
    back = find.near(made.con, 1, 1, at, span, False)
    assert back and back[0] == expected[-2]
    assert find.near(made.con, 1, 1, -1, None, False) is None


@settings(HARD, max_examples=20)
@given(st.integers(-100, 11_000), st.integers(1, 12_000), st.integers(1, 300))
def test_counters_keep_extremes_and_begin_with_what_holds(made: Case, begin: int, length: int, pixels: int) -> None:
    ids = [number for (number,) in made.con.execute("SELECT id FROM counter ORDER BY counter").fetchall()]
    found = counters.series(made.con, ids, begin, begin + length, pixels)
    points = [(10 * n, float(n % 7)) for n in range(1000)]
    inside = [v for t, v in points if begin < t < begin + length]
    before = [v for t, v in points if t <= begin]
    freq = found[0]
    assert [each.id for each in found] == ids and len(freq.t) <= pixels + 1 and freq.t == sorted(freq.t)
    if before:
        assert (freq.t[0], freq.last[0]) == (begin, before[-1])
    shown = slice(1 if before else 0, None)
    assert (freq.least[shown] == []) == (inside == [])
    if inside:
        assert (min(freq.least[shown]), max(freq.most[shown]), freq.last[-1]) == (min(inside), max(inside), inside[-1])


def test_the_layout_counts_what_is_there(made: Case) -> None:
    run = runs.open_run(made.store, "run1")
    found = layout.layout(made.con, run)
    assert found.end == int((made.spans.ts_ns + made.spans.dur_ns.clip(lower=1)).max())
    assert [track.group for track in found.tracks] == ["host", "gaps", *["stream"] * (TRACKS - 1)]
    for track in found.tracks:
        mine = made.spans[made.spans.track == track.id]
        assert track.spans == len(mine)
        if len(mine):
            assert (track.lanes, track.begin) == (2, int(mine.ts_ns.min()))
    assert [(c.counter, c.points, c.least, c.most) for c in found.counters] == [
        ("freq", 1000, 0, 6),
        ("other", 1, 1, 1),
    ]
    run.close()


def test_planes_of_several_groups_are_told_apart() -> None:
    """Rank 0 is in two groups of the same host, one of a known kind; rank 1 in one, so its planes need no more."""
    run = duckdb.connect()
    run.execute("CREATE TABLE track AS SELECT * FROM (VALUES (1, 'h%eth0_6_1736410538306028', 0), (2, 'tp_group', 0), "
                "(3, 'tp_group', 1), (4, 'tp_group', 0), (5, NULL, NULL)) AS t (track, group_name, plane)")  # fmt: skip
    run.execute("CREATE TABLE parallel_group AS SELECT 'tp_group' AS group_name, 'tp' AS kind")
    names = {1: (0, "Plane 0"), 2: (0, "Plane 0"), 3: (0, "Plane 1"), 4: (1, "Plane 0"), 5: (0, "Plane 0")}
    tracks = [layout.Track(at, rank, "comm", "comm_plane", name, "", 1, 1, 0, 1) for at, (rank, name) in names.items()]
    told = [track.name for track in layout._apart(run, tracks)]
    assert told == ["Plane 0 · 410538306028", "Plane 0 · tp", "Plane 1", "Plane 0", "Plane 0"]


def test_a_window_comes_by_track_and_nests(made: Case) -> None:
    begin, end = made.end // 3, made.end // 2
    found = list(window.spans(made.con, made.how, begin, end, [0, 2]))
    seen = made.seen(begin, end, [0, 2]).sort_values(
        ["track", "ts_ns", "dur_ns", "span_id"], ascending=[True, True, False, True]
    )
    assert [row[5] for row in found] == seen.span_id.tolist()
    assert window.count(made.con, made.how, begin, end, [0, 2]) == len(seen)


def test_a_span_has_its_facts_links_and_what_is_missing() -> None:
    con = connection({
        "spans": [
            {"id": 1, "kind": "cpu_op", "name": "aten::mm", "at": 0, "for": 50,
             "stack": {"frames": "a.py(1): f\nb.py(2): g"}},
            {"id": 2, "kind": "runtime", "name": "launch", "at": 10, "for": 5},
            {"id": 3, "kind": "kernel", "name": "matmul", "at": 30, "for": 50, "by": 2,
             "kernel": {"op_type": "MatMulV2", "block_num": 24}, "arg": {"args": '{"a":1}'}},
        ],
        "tables": {"pmu": [{"span_id": 3, "metric": "mac", "value": 0.5}]}, "absent": ["l2_cache", "host_op", "stack"],
    })  # fmt: skip
    kernel, op = detail.detail(con, 3), detail.detail(con, 1)
    assert kernel and op and detail.detail(con, 99) is None
    assert dict(kernel.facts) == {"op_type": "MatMulV2", "block_num": 24} and kernel.pmu == (("mac", 0.5),)
    assert kernel.args == '{"a":1}' and kernel.stack is None and op.stack == ("a.py(1): f", "b.py(2): g")
    assert [(link.id, link.name, link.out) for link in kernel.links] == [(2, "launch", False)]
    source = detail.detail(con, 2)
    assert source and [(link.id, link.ts, link.out) for link in source.links] == [(3, 30_000, True)]
    assert [what for what, _ in op.not_recorded] == ["host_op", "stack"] and kernel.not_recorded == ()
    assert source.parent == 1


@pytest.mark.parametrize("ranks", [(0, 1, 7), (600,), (1, 511, 512, 70_000), tuple(range(505, 520))])
def test_numbers_survive_the_way_to_a_browser(ranks: tuple[int, ...]) -> None:
    slots = Slots(ranks)
    for bits, limit in ((SPAN_BITS, 2**53), (TRACK_BITS, 2**31)):
        real = [(rank << bits) | 12_345 for rank in ranks]
        wire = [slots.out(number, bits) for number in real]
        assert all(0 <= number < limit for number in wire) and len(set(wire)) == len(wire)
        assert [slots.back(number, bits) for number in wire] == real
        assert [slots.back(number, bits) for number in real] == real
        assert slots.out(np.array(real), bits).tolist() == wire
    assert slots.out(-1 - ranks[0], TRACK_BITS) == -1 - ranks[0]


def test_the_file_is_built_once_and_goes_with_its_run(tmp_path: Path) -> None:
    of = case(tmp_path, rows(50, 3))
    path = lod.place(tmp_path, "run1")
    built = path.stat()
    lod.build(tmp_path, "run1")
    assert path.stat().st_mtime_ns == built.st_mtime_ns
    left = path.with_name("run2.1.0000.part")
    left.touch()
    left.with_suffix(".spill").mkdir()
    lod.sweep(path.parent, tmp_path)
    assert path.exists() and not left.exists() and not left.with_suffix(".spill").exists()
    of.con.close()
    (tmp_path / "run1" / "manifest.json").unlink()
    lod.sweep(path.parent, tmp_path)
    assert not path.exists()


@pytest.mark.parametrize("run_id", ["", "..", "../run1", "nope", "run1/../run1"])
def test_only_runs_of_the_store_are_arranged(tmp_path: Path, run_id: str) -> None:
    case(tmp_path, rows(50, 3)).con.close()
    with pytest.raises(runs.IngestError):
        lod.build(tmp_path, run_id)


def test_the_file_cannot_be_written_or_leave_its_place(made: Case) -> None:
    for statement in ("CREATE TABLE x(a INTEGER)", "SELECT * FROM read_text('/etc/hostname')", "SET threads = 1"):
        with pytest.raises(duckdb.Error):
            made.con.execute(statement)


def test_a_gap_names_its_host_call_and_the_line_that_queued_it() -> None:
    """The launch lies on the queue's thread; the frame lies on the thread that queued it."""
    con = connection({"spans": [
        {"id": 1, "kind": "python", "name": "train.py(12): step", "at": 0, "for": 100},
        {"id": 2, "kind": "enqueue", "name": "Enqueue", "at": 10, "for": 2},
        {"id": 3, "kind": "dequeue", "name": "Dequeue", "at": 20, "for": 9, "track": "queue", "by": 2,
         "route": "task_queue"},
        {"id": 4, "kind": "runtime", "name": "launch", "at": 21, "for": 3, "track": "queue"},
        {"id": 5, "kind": "runtime", "name": "alone", "at": 200, "for": 3, "track": "other"},
    ]})  # fmt: skip
    pieces = Pieces(*(np.array(column, np.int64) for column in ([5, 40, 50], [9, 44, 60], [0, 1, 2], [4, 5, -1])))
    found = gaps.gap(con, pieces, 0)
    assert (found.ts, found.dur, found.cause) == (5, 4, "host_late")
    assert found.host == (4, "launch", 21_000, 3_000) and found.line == "train.py(12): step"
    assert gaps.gap(con, pieces, 1).line is None and gaps.gap(con, pieces, 2).host is None
