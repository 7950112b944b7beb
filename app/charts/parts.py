"""The parts of the split: which field, which text, which colour. Every chart and report draws them alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npulens.analysis.split import Row
from npulens.app.charts import style


@dataclass(frozen=True)
class Part:
    """One kind of time: the field of a split row, its text and its colours."""

    key: str
    field: str
    profiler_field: str | None
    colour: str
    text_colour: str  # empty: the theme's


PARTS = (
    Part("computing", "computing_ns", "computing_ns", style.COMPUTING, style.LIGHT_TEXT),
    Part("communication", "communication_not_overlapped_ns", "communication_not_overlapped_ns",
         style.COMMUNICATION, style.DARK_TEXT),
    Part("copy", "copy_not_overlapped_ns", None, style.COPY, style.LIGHT_TEXT),
    Part("unknown", "unknown_not_overlapped_ns", None, style.UNKNOWN, style.LIGHT_TEXT),
    Part("idle", "idle_ns", "free_ns", style.IDLE, style.DARK_TEXT),
    Part("unsplit", "", None, style.FAINT, ""),
    Part("residual", "residual_ns", None, style.RESIDUAL, style.DARK_TEXT),
)  # fmt: skip


def lengths(row: Row) -> Mapping[str, int]:
    """The parts of a row that are known; where one is not recorded, the rest of the window is "unsplit"."""
    known = {part.key: value for part in PARTS if part.field and (value := getattr(row, part.field)) is not None}
    if row.residual_ns is None and row.dur_ns is not None:
        known["unsplit"] = row.dur_ns - sum(known.values())
    return known
