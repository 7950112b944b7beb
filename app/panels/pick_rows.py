"""A table whose rows can be chosen with a click on any cell, and the columns that pages about device work share."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from npulens.app.panels import cells

#: A row is this high, and a table shows so many of them before it scrolls.
_ROW_PX, _MOST_ROWS = 35, 10
#: What columns of lengths are handed over in, by the mark that `micro` and `milli` leave; and what they are shown in.
_GIVEN_NS = {"µs": 1e3, "ms": 1e6}
_SHOWN_NS = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}


def pick(frame: pd.DataFrame, columns: Mapping[str, ColumnConfig], key: str, about: str, most: int = _MOST_ROWS) -> int:
    """Draws the columns in their order; the place of the chosen row, at first 0."""
    known = f"{key}_at"
    shown, told = in_units(frame[list(columns)], columns)
    st.dataframe(
        cells.safe(shown), hide_index=True, key=key, column_config=told, alt=about, placeholder=cells.ABSENT,
        on_select=lambda: _remember(key, known), selection_mode=("single-row-required", "single-cell"),
        selection_default={"selection": {"rows": [0]}}, row_height=_ROW_PX,
        height=_ROW_PX * (min(len(frame), most) + 1) + 3,
    )  # fmt: skip
    found = st.session_state.get(known, 0)
    return found if isinstance(found, int) and found < len(frame) else 0


def _remember(key: str, known: str) -> None:
    """A click on the mark of a row or on any of its cells; what changed last is what is meant."""
    selection = st.session_state[key]["selection"]
    before = st.session_state.get(known, 0)
    clicked = [*(row for row, _ in selection["cells"]), *selection["rows"]]
    st.session_state[known] = next((row for row in clicked if row != before), before)


def text(head: str, help_: str | None = None, wide: bool = False) -> ColumnConfig:
    return st.column_config.TextColumn(head, help=help_, width="large" if wide else None)


def count(head: str, help_: str | None = None) -> ColumnConfig:
    return st.column_config.NumberColumn(head, help=help_, format="localized")


def micro(head: str, help_: str | None = None) -> ColumnConfig:
    """A length, handed over in microseconds: `in_us` makes the column."""
    return st.column_config.NumberColumn(head, help=help_, format="µs")


def milli(head: str, help_: str | None = None) -> ColumnConfig:
    """A length, handed over in milliseconds: `in_ms` makes the column."""
    return st.column_config.NumberColumn(head, help=help_, format="ms")


def unit(ns: pd.Series) -> tuple[str, float]:
    """What lengths are shown in, and how many ns that is.

    It is the unit of the median. If the largest would have more than four digits before its point, it is a larger one.
    """
    ns = ns.abs()[ns.abs() > 0]
    usual, most = (1e6, 1e6) if ns.empty else (ns.median(), ns.max())
    fits = [name for name, one in _SHOWN_NS.items() if most < 1e4 * one] or ["s"]
    name = next((name for name in fits if usual >= _SHOWN_NS[name]), fits[-1])
    return name, _SHOWN_NS[name]


def in_units(frame: pd.DataFrame, columns: Mapping[str, ColumnConfig]) -> tuple[pd.DataFrame, dict[str, ColumnConfig]]:
    """Each column of lengths in the unit that fits most of them, which its head then names."""
    told = dict(columns)
    for name, config in columns.items():
        given = _GIVEN_NS.get(str(dict(config.get("type_config") or {}).get("format")))
        if given is None:
            continue
        ns = frame[name].astype("Float64") * given
        called, scale = unit(ns)
        frame = frame.assign(**{name: (ns / scale).astype("float64")})
        head = str(config.get("label"))
        told[name] = st.column_config.NumberColumn(
            head + ("，" if ord(head[-1]) > 0x2E80 else ", ") + called, help=config.get("help"), format=cells.FOUR,
        )  # fmt: skip
    return frame, told


def share(head: str, help_: str | None = None, most: float = 1.0) -> ColumnConfig:
    """A share as a bar; `most` fills it."""
    return st.column_config.ProgressColumn(head, help=help_, format="percent", min_value=0.0, max_value=most)


def percent(head: str, help_: str | None = None) -> ColumnConfig:
    return st.column_config.NumberColumn(head, help=help_, format="percent")


def in_us(frame: pd.DataFrame, names: tuple[str, ...]) -> pd.DataFrame:
    """The frame with these lengths in microseconds; a thousandth of a microsecond stays exact in 64 bits."""
    return frame.assign(**{name: frame[name] / 1e3 for name in names})


def in_ms(frame: pd.DataFrame, names: tuple[str, ...]) -> pd.DataFrame:
    """The frame with these lengths in milliseconds."""
    return frame.assign(**{name: frame[name] / 1e6 for name in names})


def plain(frame: pd.DataFrame, columns: Mapping[str, ColumnConfig], about: str) -> None:
    """Draws the columns in their order, with nothing to choose."""
    shown, told = in_units(frame[list(columns)], columns)
    st.dataframe(cells.safe(shown), hide_index=True, column_config=told, alt=about,
                 placeholder=cells.ABSENT)  # fmt: skip
