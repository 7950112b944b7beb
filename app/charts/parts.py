"""The parts of the split: which field, which text, which colour. Every chart and report draws them alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npulens.analysis.split import Row
from npulens.app.charts import roles, style


@dataclass(frozen=True)
class Part:
    """One kind of time: the field of a split row, its text and its role. Without a role it has no colour of its own."""

    key: str
    field: str
    profiler_field: str | None
    role: str | None

    @property
    def colour(self) -> str:
        return roles.colour(self.role) if self.role else style.FAINT

    @property
    def text_colour(self) -> str:
        """Empty: the theme's."""
        return roles.text_on(self.colour) if self.role else ""

    @property
    def css(self) -> str:
        """Its class in a report."""
        return self.role or self.key


PARTS = (
    Part("computing", "computing_ns", "computing_ns", "computing"),
    Part("communication", "communication_not_overlapped_ns", "communication_not_overlapped_ns",
         "transferring"),
    Part("copy", "copy_not_overlapped_ns", None, "copying"),
    Part("unknown", "unknown_not_overlapped_ns", None, "unknown"),
    Part("idle", "idle_ns", "free_ns", "idle"),
    Part("unsplit", "", None, None),
    Part("residual", "residual_ns", None, "residual"),
)  # fmt: skip


def lengths(row: Row) -> Mapping[str, int]:
    """The parts of a row that are known; where one is not recorded, the rest of the window is "unsplit"."""
    known = {part.key: value for part in PARTS if part.field and (value := getattr(row, part.field)) is not None}
    if row.residual_ns is None and row.dur_ns is not None:
        known["unsplit"] = row.dur_ns - sum(known.values())
    return known
