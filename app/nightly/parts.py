"""Where a change of the step comes from: the run before it against tonight's, kernel by kernel and gap by gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from npulens.analysis.regression.change import Change, Contribution, change
from npulens.app import run_compare
from npulens.app.nightly.night import Row, Share
from npulens.ingest.errors import IngestError

#: Parts that are kept; the sum of the others is one more.
_MOST = 12
_WIDEST = 160  # characters of a part's name
#: The metric whose change is made of parts.
_STEP = "step_ns"


@dataclass(frozen=True)
class _Pair:
    """Two runs, base first."""

    base: str
    head: str


def explained(store: Path, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows that moved, with what their change is made of where there are runs of both sides to look at."""
    seen: dict[_Pair, Change | None] = {}
    return tuple(_explained(store, row, seen) for row in rows)


def _explained(store: Path, row: Row, seen: dict[_Pair, Change | None]) -> Row:
    told = row.verdict in ("regressed", "improved", "machine", "likely") and (row.fresh or row.by == "pairs")
    if not told or row.metric != _STEP or row.run_id is None or row.base_run is None:
        return row
    pair = _Pair(row.base_run, row.run_id)
    if pair not in seen:
        seen[pair] = _change(store, pair)
    found = seen[pair]
    if found is None:
        return row
    moved = [one for one in found.contributions if one.delta_ns]
    parts = tuple(Share(one.kind, _what(one), one.delta_ns) for one in moved[:_MOST])
    rest = sum(one.delta_ns for one in moved[_MOST:])
    return replace(row, parts=parts, rest_ns=rest, residual_ns=found.residual_ns, parts_ns=found.delta_ns)


def _what(one: Contribution) -> str:
    """A kernel by its short name and its shapes; causes and directions stay the words they are."""
    if one.kind in ("gap", "copy"):
        return one.what
    return f"{run_compare.short(one.what)} {one.shapes}".strip()[:_WIDEST]


def _change(store: Path, pair: _Pair) -> Change | None:
    """The change between two runs; None where one is gone or cannot be split."""
    try:
        base, head = run_compare.halves(store, (pair.base, pair.head), (None, None), (None, None), False)
    except IngestError:
        return None
    return change(base.runs, head.runs)
