"""One side of a comparison: its runs, or ranks or steps of one, and what was measured of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TypeVar

import pandas as pd

from npulens.analysis.look import compare
from npulens.analysis.regression.compared import warm_up
from npulens.app import context
from npulens.app.context import Context
from npulens.app.panels import cells
from npulens.app.text import wording
from npulens.ingest.store.runs import RunInfo

_LONGEST = 28  # letters of a name in the head of a column
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Part:
    """What a side takes of one of its runs; None takes every rank, every step."""

    run: RunInfo
    ranks: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    whole: bool = False


@dataclass(frozen=True)
class Half:
    """One side: its runs, what of each, and what it is called. Its context is that of its first run."""

    ctx: Context
    name: str
    parts: tuple[Part, ...]

    def each(self, measure: Callable[..., T]) -> list[T]:
        """What a function of analysis says of each of its runs."""
        return [
            context.measured_of(self.ctx, part.run.run_id, measure, part.ranks, part.steps, part.whole)
            for part in self.parts
        ]

    def together(self, measure: Callable[..., pd.DataFrame]) -> pd.DataFrame:
        """The rows of all its runs."""
        return pd.concat(self.each(measure), ignore_index=True)

    @property
    def short(self) -> str:
        """Its name as the head of a column: not long, and nothing a spreadsheet would run."""
        name = wording.plain(self.name)
        return cells.cell(name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…")

    @property
    def side(self) -> compare.Side:
        """Its windows, all runs together."""
        return compare.merged(self.each(compare.side))

    @property
    def first(self) -> Half:
        """Its first run alone."""
        return replace(self, parts=self.parts[:1])

    @property
    def empty(self) -> bool:
        """Whether one of its runs has no time to compare."""
        return not all(side.windows for side in self.each(compare.side))

    def cold(self) -> list[tuple[int, ...]]:
        """Of each run the leading steps that are warm-up."""
        return [warm_up(side) for side in self.each(compare.side)]

    def without(self, cold: list[tuple[int, ...]]) -> Half:
        """Without these steps of each run."""
        parts = tuple(
            replace(part, steps=tuple(step for step in side.steps if step not in steps)) if steps else part
            for part, side, steps in zip(self.parts, self.each(compare.side), cold, strict=True)
        )
        return replace(self, parts=parts)

    def entire(self) -> Half:
        """Its runs from end to end."""
        return replace(self, parts=tuple(replace(part, steps=None, whole=True) for part in self.parts))


@dataclass(frozen=True)
class Pair:
    """Both sides, the way they were chosen, and whether their runs were recorded two by two."""

    by: str
    base: Half
    head: Half
    in_turns: bool = False
