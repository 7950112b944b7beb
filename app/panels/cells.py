"""Tables: text from a capture is text, and stays text in the CSV that a reader downloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from npulens.app.text import wording

#: The wide ones are what a Chinese or Japanese keyboard types; spreadsheets of those languages run them too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


#: How a table shows a number with a point.
FOUR = "%,.4g"
#: What stands where nothing was recorded.
ABSENT = "–"


def cell(text: str) -> str:
    """Text without control characters that a spreadsheet will not run as a formula."""
    return "'" + wording.plain(text) if text.startswith(_FORMULA) else wording.plain(text)


def safe(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with every text of it made harmless; numbers, times and missing values stay as they are."""
    texts = [name for name in frame.columns if str(frame[name].dtype) in ("object", "str", "string")]
    return frame.assign(
        **{name: [cell(value) if isinstance(value, str) else value for value in frame[name]] for name in texts}
    )


def show(frame: pd.DataFrame, heads: Mapping[str, str], key: str, about: str, right: Sequence[str] = ()) -> None:
    """A table with its columns called as ``heads`` says, in that order; ``about`` is what a screen reader says."""
    columns: dict[str, ColumnConfig] = {
        name: st.column_config.TextColumn(head, alignment="right") if name in right else _column(head, frame[name])
        for name, head in heads.items()
    }
    st.dataframe(
        safe(frame[list(heads)]), hide_index=True, key=key, column_config=columns, alt=about, placeholder=ABSENT,
    )  # fmt: skip


def _column(head: str, values: pd.Series) -> ColumnConfig:
    """Numbers with a point are shown to four digits; sorted and downloaded, they have all of theirs."""
    if not pd.api.types.is_float_dtype(values.dtype):
        return st.column_config.Column(head)
    return st.column_config.NumberColumn(head, format=FOUR)
