"""A list in which one row is chosen by a click or by keys, with chips below it that unfold more lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import streamlit as st

_HERE = Path(__file__).parent

_list = st.components.v2.component(
    "npulens_picker",
    css=(_HERE / "picker.css").read_text("utf-8"),
    js=(_HERE / "picker.js").read_text("utf-8"),
)


@dataclass(frozen=True)
class Row:
    """One row: what it is, where, how much, and its bar. Every text is shown as text."""

    key: str
    head: str
    amount: str
    who: str = ""
    share: str = ""
    bar: float | None = None  # 0 to 1
    title: str = ""  # shown when the pointer rests on it
    settled: bool = False


@dataclass(frozen=True)
class Item:
    head: str
    text: str


@dataclass(frozen=True)
class Chip:
    """A short list behind one word."""

    key: str
    label: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Listed:
    """Everything a list shows."""

    label: str  # what a screen reader says
    none: str  # in place of rows
    rows: Sequence[Row]
    chips: Sequence[Chip] = ()
    height: int | None = None  # pixels before it scrolls
    compact: bool = False  # one line a row


def show(key: str, listed: Listed, chosen: str | None, choose: Callable[[str], None]) -> None:
    """Draws the list; ``choose`` is told the key of a row that was clicked, before the page is drawn again."""
    _list(
        key=key, data={**asdict(listed), "chosen": chosen},
        on_chosen_change=lambda: choose(str(st.session_state.to_dict()[key]["chosen"])),
    )  # fmt: skip
