"""What a page computes of what it has measured is computed once for the same input, and anew for any other."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import pytest

from npulens.app import context
from npulens.app.charts.breakdown import Say
from npulens.app.text import i18n

_drawn: list[int] = []


def _chart(rows: pd.DataFrame, say: Say, ink: str) -> go.Figure:
    _drawn.append(len(rows))
    return go.Figure(go.Bar(x=list(rows["ns"]), name=say("compare.title", {}), marker={"color": ink}))


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    _drawn.clear()
    context._once.clear()


def test_the_same_input_is_computed_once() -> None:
    first = context.once(_chart, pd.DataFrame({"ns": [1, 2]}), i18n.Speaker("en"), "#111")
    second = context.once(_chart, pd.DataFrame({"ns": [1, 2]}), i18n.Speaker("en"), "#111")
    assert first is second
    assert _drawn == [2]


@pytest.mark.parametrize(("rows", "lang", "ink"), [
    ([1, 3], "en", "#111"), ([1, 2, 3], "en", "#111"), ([1, 2], "zh", "#111"), ([1, 2], "en", "#eee"),
])  # fmt: skip
def test_any_other_input_is_computed_anew(rows: list[int], lang: str, ink: str) -> None:
    context.once(_chart, pd.DataFrame({"ns": [1, 2]}), i18n.Speaker("en"), "#111")
    other = context.once(_chart, pd.DataFrame({"ns": rows}), i18n.Speaker(lang), ink)
    bar = other.data[0]
    assert list(bar.x) == rows
    assert bar.name == i18n.say(lang, "compare.title")
    assert bar.marker.color == ink


def test_a_large_frame_counts_to_its_last_row() -> None:
    """A sample of a large frame would take two frames that differ in one row for the same."""
    rows = pd.DataFrame({"ns": range(200_000)})
    changed = rows.copy()
    changed.loc[123_457, "ns"] = -1
    before, after = (context.once(_chart, one, i18n.Speaker("en"), "#111") for one in (rows, changed))
    assert before.data[0].x[123_457] == 123_457
    assert after.data[0].x[123_457] == -1


def test_two_functions_of_one_input_are_two() -> None:
    assert context.once(sum, (1, 2)) == 3
    assert context.once(max, (1, 2)) == 2
