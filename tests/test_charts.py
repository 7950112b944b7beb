"""The charts of the first screen: lengths to the nanosecond, colours for everyone, names from captures as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import hostile_capture
import pandas as pd

from npulens import ingest
from npulens.analysis import split
from npulens.analysis.profiler_split import Profiler
from npulens.analysis.split import Row
from npulens.app.charts import breakdown, kernels, recorded, style
from npulens.app.text import i18n
from npulens.ingest.store import runs
from npulens.ingest.store.runs import CoverageRow


def say(key: str, values: Mapping[str, object]) -> str:
    return i18n.say("en", key, values)


def row(**changed: object) -> Row:
    base = Row(0, 1, 0, 100, 40, 30, 20, 10, 12, 10, 0, 0, 30, 0, None)
    return replace(base, **changed)  # type: ignore[arg-type]


def test_bars_show_the_split_of_a_capture_to_the_nanosecond(tmp_path: Path) -> None:
    report = ingest.load(hostile_capture.write(tmp_path / "trace.json"), tmp_path / "store")
    con = runs.open_run(tmp_path / "store", str(report.runs[0].run_id))
    rows = [found for found in split.breakdown(con) if found.step == 1]
    con.close()
    picture = breakdown.figure(rows, say, as_share=False, profiler=False, ink="#000")
    drawn = {trace.name: trace for trace in picture.data}
    scale = 1_000  # this step is short enough to be drawn in microseconds
    for part, ns in hostile_capture.STEP_1_NS.items():
        trace = drawn[say(f"breakdown.{part}", {})]
        assert list(trace.x) == [ns / scale], part
        assert f"({ns:,} ns)" in trace.hovertext[0]
    assert sum(hostile_capture.STEP_1_NS.values()) == hostile_capture.STEP_1_LENGTH_NS == rows[0].dur_ns


def test_the_profilers_split_is_drawn_only_where_it_differs() -> None:
    same = Profiler(40, 30, 20, 10, 30, None, None, None, "between busy", "operators")
    other = replace(same, free_ns=25)
    drawn = breakdown.bars([row(profiler=same), row(step=2, profiler=other)], say, profiler=True)
    assert [(bar.step, bar.own) for bar in drawn] == [(1, True), (2, True), (2, False)]
    assert drawn[2].parts == {"computing": 40, "communication": 20, "idle": 25}


def test_more_ranks_than_hues_are_drawn_together() -> None:
    """One bar a bin with all of them, and a band with the middle rank in it; few ranks have a line each."""
    for count in (kernels.MOST_RANKS, 64):
        ranks = range(count)
        bins = pd.DataFrame([(rank, 1000, 2000, 3) for rank in ranks], columns=["rank", "from_ns", "to_ns", "count"])
        shares = pd.DataFrame(
            [(rank, share, 1000.0 * (1 + rank)) for rank in ranks for share in (0.0, 1.0)],
            columns=["rank", "share", "dur_ns"],
        )
        bars = kernels.histogram(bins, ranks, False, say, "#000").data
        lines = kernels.ecdf(shares, ranks, False, say, "#000").data
        assert sum(sum(trace.y) for trace in bars) == 3 * count
        if count <= kernels.MOST_RANKS:
            assert (len(bars), len(lines)) == (count, count)
            continue
        assert len(bars) == 1 and "64 ranks: 192 kernels" in bars[0].hovertext[0]
        band, middle = lines
        assert list(band.x) == [1.0, 1.0, 64.0, 64.0] and list(middle.x) == [32.5, 32.5]


def test_what_was_not_recorded_is_drawn_as_not_told_apart() -> None:
    dark = row(communication_not_overlapped_ns=None, copy_not_overlapped_ns=None, unknown_not_overlapped_ns=None,
               idle_ns=None, residual_ns=None)  # fmt: skip
    assert breakdown.lengths(dark) == {"computing": 40, "unsplit": 60}


#: Kinds of colour vision by the matrices of Machado, Oliveira and Fernandes (2009) at full severity.
VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def colour_distance(left: str, right: str, matrix: tuple[tuple[float, ...], ...]) -> float:
    """CIE76 difference of two colours after the simulation; above 10 they are told apart at a glance."""

    def lab(colour: str) -> tuple[float, float, float]:
        linear = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
        red, green, blue = (
            min(1.0, max(0.0, sum(m * c for m, c in zip(line, linear, strict=True)))) for line in matrix
        )
        x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
        y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
        fx, fy, fz = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
        return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)

    return sum((a - b) ** 2 for a, b in zip(lab(left), lab(right), strict=True)) ** 0.5


def test_the_matrix_merges_ranks_that_were_not_captured() -> None:
    rows = [CoverageRow(rank, "kernel", "recorded", 5, None, 0, None, None) for rank in (0, 4)]
    shown = recorded.columns(rows, [1, 2, 3, 5])
    assert [(column.ranks, column.cells is None) for column in shown] == [
        ((0,), False), ((1, 2, 3), True), ((4,), False), ((5,), True),
    ]  # fmt: skip


def test_the_matrix_merges_many_equal_ranks_and_keeps_the_odd_one() -> None:
    rows = [
        CoverageRow(rank, "kernel", "absent" if rank == 7 else "recorded", 1, None, 0, None, None) for rank in range(64)
    ]
    assert [column.ranks for column in recorded.columns(rows, [])] == [tuple(range(7)), (7,), tuple(range(8, 64))]


def test_hover_texts_of_the_matrix_are_not_tags() -> None:
    rows = [CoverageRow(0, "kernel", "partial", 5, None, 0, hostile_capture.MARKUP, hostile_capture.MARKUP)]
    shown = recorded.figure(rows, [], say, "#000").data[0].hovertext[0][0]
    assert "<script" not in shown and "<img" not in shown and "&lt;script&gt;" in shown
    assert style.plain("<a href='x'>&") == "&lt;a href='x'&gt;&amp;"
