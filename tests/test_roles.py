"""One table of roles: every chart, legend, report and the canvas have its names and colours, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest
from test_charts import VISION, colour_distance

from npulens.analysis.causes import GAP_ONLY, OF_IDLE
from npulens.analysis.look.path import KINDS
from npulens.analysis.split import Row
from npulens.app.charts import breakdown, roles, style
from npulens.app.charts.parts import PARTS
from npulens.app.pages.communication import charts as communication
from npulens.app.text import i18n

ROOT = Path(__file__).resolve().parents[1]
OWN_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b|rgba?\((?!0, ?0, ?0, ?0\))")
#: Colours that are no kind of time: a tone of grey between two roles, films, and what the canvas takes for a theme.
NO_ROLE = {
    "app/charts/style.py": "the theme's own and the lines of a chart", "app/charts/roles.py": "the table",
    "app/pages/efficiency/charts.py": "the edge of a mark and the page around boxes; shades of a share",
    "app/pages/workspace/charts.py": "the middle of a scale of two sides",
    "app/pages/laboratory/charts.py": "boxes of a graph have a tone of the page",
    "app/pages/nights/charts.py": "states of a night are no kinds of time",
}  # fmt: skip


def say(key: str, values: Mapping[str, object]) -> str:
    return i18n.say("en", key, values)


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_is_readable_on_both_pages_and_under_its_text(role: str) -> None:
    colour = roles.colour(role)
    assert all(roles.contrast(colour, paper) >= 3 for paper in roles.PAPER.values())
    assert roles.contrast(colour, roles.text_on(colour)) >= 4.5
    assert all(roles.ROLES[role].said)


def test_contrast_is_that_of_wcag() -> None:
    assert roles.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert roles.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("vision", VISION)
def test_roles_stay_apart_for_every_kind_of_colour_vision(vision: str) -> None:
    for left, right in combinations(roles.ROLES, 2):
        assert colour_distance(roles.colour(left), roles.colour(right), VISION[vision]) > 18, (left, right)


def test_a_shade_looks_like_its_role_and_no_other() -> None:
    for role in roles.ROLES:
        for shade in roles.shades(role):
            near = min(roles.ROLES, key=lambda other: colour_distance(shade, roles.colour(other), VISION["normal"]))
            assert near == role, f"{shade} of {role} looks like {near}"


def test_every_cause_and_every_kind_of_span_has_a_role() -> None:
    assert {*OF_IDLE, *GAP_ONLY, *KINDS} <= roles.OF_CAUSE.keys()
    assert {role for role, _ in roles.OF_CAUSE.values()} | set(roles.OF_KIND.values()) <= roles.ROLES.keys()
    assert set(roles.OF_TEXT.values()) <= roles.ROLES.keys()
    assert [key for key in roles.OF_TEXT if not i18n.known(key)] == []


def test_the_canvas_gets_the_very_table() -> None:
    table = json.loads(roles.script().removeprefix("const ROLES = ").removesuffix(";"))
    assert {name: role["colour"] for name, role in table["roles"].items()} == {
        name: role.colour for name, role in roles.ROLES.items()
    }
    assert table["of_cause"]["host_late"] == roles.colour("host") and table["roles"]["idle"]["said"] == ["Idle", "空闲"]
    own = {
        path.name: found
        for path in (ROOT / "app/timeline/canvas").glob("*.js")
        if path.name not in ("colour.js", "notebook.js")  # the page's own where Streamlit gives none
        and (found := OWN_COLOUR.findall(path.read_text("utf-8")))
    }
    assert own == {}


def test_no_chart_has_colours_of_its_own() -> None:
    files = [*(ROOT / "app/charts").glob("*.py"), *(ROOT / "app/pages").glob("*/*.py")]
    found = {
        str(path.relative_to(ROOT)): colours
        for path in files
        if (colours := OWN_COLOUR.findall(path.read_text("utf-8")))
    }
    assert {name: colours for name, colours in found.items() if name not in NO_ROLE} == {}


ROW = Row(0, 1, 0, 100, 40, 30, 20, 10, 12, 10, 0, 0, 30, 0, None)


def test_the_legend_of_the_split_is_the_table() -> None:
    picture = breakdown.figure([ROW], say, as_share=False, profiler=False, ink=style.INK["light"])
    drawn = {trace.name: trace.marker.color for trace in picture.data}
    assert drawn and drawn == {
        say(f"breakdown.{part.key}", {}): roles.colour(roles.OF_TEXT[f"breakdown.{part.key}"])
        for part in PARTS
        if say(f"breakdown.{part.key}", {}) in drawn
    }
    assert all(trace.marker.line.color == "#ffffff" for trace in picture.data)


def test_the_legend_of_communication_is_the_table() -> None:
    picture = communication.bars([communication.Bar("all-reduce", 100, 40, 30)], say, style.INK["dark"])
    drawn = {trace.name: trace.marker.color for trace in picture.data}
    told = {key: role for key, role in roles.OF_TEXT.items() if key.startswith("communication.part_")}
    assert drawn == {say(key, {}): roles.colour(role) for key, role in told.items()}


def test_a_report_has_the_colours_of_the_table() -> None:
    css = roles.css()
    for name, role in roles.ROLES.items():
        assert f".p-{name} {{ fill: {role.colour}; }}" in css
    assert OWN_COLOUR.findall(re.sub(r"--[\w-]+: #\w+", "", (ROOT / "app/report/report.css").read_text())) == ["rgba("]
