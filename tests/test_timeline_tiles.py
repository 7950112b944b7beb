"""Tiles against brute force over the same rows: every span once, at every zoom, exact when few."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_case import HARD, TRACKS, Case, asked, case, rows, windows

from npulens.analysis.timeline.tiles import level_of, tile
from npulens.analysis.timeline.view import view


@pytest.fixture(scope="module", params=[300, 40_000], ids=["small", "summed up"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    found = case(tmp_path_factory.mktemp("lod"), rows(request.param, 7))
    yield found
    found.con.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    found = case(tmp_path_factory.mktemp("lod"), rows(150_000, 1))
    yield found
    found.con.close()


def check_tile(of: Case, begin: int, end: int, pixels: int, tracks: list[int], few: int) -> None:
    """Spans are those long enough, cells the sum of the others, nothing twice and nothing missing."""
    found = tile(of.con, of.how, begin, end, pixels, tracks, few)
    bucket = found.bucket_ns
    assert bucket <= max(2 * (end - begin) / pixels, 1)
    seen = of.seen(begin, end, tracks)
    long = seen[seen.dur_ns >= bucket].sort_values(["track", "depth", "ts_ns"], kind="stable")
    columns = {"id": "span_id", "ts": "ts_ns", "dur": "dur_ns", "track": "track", "lane": "depth"}
    for ours, theirs in columns.items():
        assert getattr(found.spans, ours).tolist() == long[theirs].tolist(), ours
    if bucket == 0:
        assert not len(found.cells.ts)
        return
    s = of.spans
    first, last = begin // bucket * bucket, -(-end // bucket) * bucket
    short = s[(s.dur_ns < bucket) & (s.ts_ns >= first) & (s.ts_ns < last) & s.track.isin(tracks)]
    cells = pd.DataFrame({
        "track": found.cells.track, "lane": found.cells.lane, "ts": found.cells.ts, "spans": found.cells.spans,
        "busy": found.cells.busy, "longest": found.cells.longest,
    })  # fmt: skip
    expected = (
        short.assign(ts=short.ts_ns // bucket * bucket)
        .groupby(["track", "depth", "ts"])
        .agg(spans=("dur_ns", "size"), busy=("dur_ns", "sum"), longest=("dur_ns", "max"))
        .reset_index()
        .rename(columns={"depth": "lane"})
    )
    pd.testing.assert_frame_equal(cells, expected, check_dtype=False)
    starting = s[(s.ts_ns >= first) & (s.ts_ns < last) & s.track.isin(tracks)]
    begun = (found.spans.ts >= first) & (found.spans.ts < last)
    long_outside = len(starting[(starting.dur_ns >= bucket) & ~starting.span_id.isin(found.spans.id)])
    assert int(begun.sum()) + int(found.cells.spans.sum()) + long_outside == len(starting)
    text = dict(of.con.execute("SELECT id, text FROM name").fetchall())
    for at in range(0, len(cells), max(1, len(cells) // 20)):
        cell = short[(short.track == cells.track[at]) & (short.depth == cells.lane[at])
                     & (short.ts_ns // bucket * bucket == cells.ts[at])]  # fmt: skip
        assert text[int(found.cells.name[at])] in set(cell[cell.dur_ns == cells.longest[at]].name)


@HARD
@given(windows, st.sampled_from((-1, 0, 50, 20_000)))
def test_a_tile_holds_every_span_of_its_window_once(made: Case, drawn: tuple[float, int, int, int], few: int) -> None:
    check_tile(made, *asked(made, drawn), few)


@settings(HARD, max_examples=15)
@given(windows, st.sampled_from((-1, 20_000)))
def test_summed_up_levels_say_the_same(large: Case, drawn: tuple[float, int, int, int], few: int) -> None:
    assert large.how.finest < 38
    check_tile(large, *asked(large, drawn), few)


def test_the_whole_run_is_conserved_at_every_zoom(large: Case) -> None:
    tracks = list(range(TRACKS))
    for pixels in (10, 100, 1000, 10_000):
        found = tile(large.con, large.how, 0, large.end + 1, pixels, tracks, -1)
        assert len(found.spans.ts) + int(found.cells.spans.sum()) == len(large.spans)
        assert int(found.spans.dur.sum() + found.cells.busy.sum()) == int(large.spans.dur_ns.sum())


def test_deep_zoom_is_exact_to_the_nanosecond(large: Case) -> None:
    for number in range(0, len(large.spans), 7_001):
        span = large.spans.iloc[number]
        begin = int(span.ts_ns)
        found = tile(large.con, large.how, begin, begin + 1, 1600, [int(span.track)])
        assert found.bucket_ns == 0
        assert set(found.spans.id.tolist()) == set(large.seen(begin, begin + 1, [int(span.track)]).span_id)
        assert int(span.span_id) in found.spans.id


def test_the_same_question_has_the_same_answer(large: Case) -> None:
    one, other = (view(large.con, large.how, {}, 0, large.end, 500, [0, 1, 2], 100) for _ in range(2))
    for mine, theirs in ((one.spans, other.spans), (one.cells, other.cells)):
        for name in mine.__dataclass_fields__:
            assert np.array_equal(getattr(mine, name), getattr(theirs, name)), name
    assert one.names == other.names


@pytest.mark.parametrize("pixels", [1, 3, 1000])
def test_a_bucket_is_at_most_two_pixels_and_more_than_one(pixels: int) -> None:
    for length in (1, 2, 999, 10**6, 10**12):
        bucket = 1 << level_of(length, pixels)
        assert bucket <= max(1, 2 * length / pixels) and (bucket == 1 or bucket > length / pixels)


def test_names_are_the_right_ones_and_cut(made: Case) -> None:
    found = view(made.con, made.how, {}, 0, made.end, 2000, list(range(TRACKS)), 16)
    by_id = made.spans.set_index("span_id")
    for at in range(0, len(found.spans.ts), max(1, len(found.spans.ts) // 200)):
        row = by_id.loc[found.spans.id[at]]
        assert found.names[found.spans.name[at]] == row["name"][:17]
        assert found.kinds[found.spans.kind[at]] == row.kind
