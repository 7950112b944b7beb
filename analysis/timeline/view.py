"""A tile with everything a canvas wants of it: the tracks of the run, gaps, the critical path, and names as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import duckdb
import numpy as np

from npulens.analysis.idle.pieces import CODES
from npulens.analysis.intervals import Ints
from npulens.analysis.look.path import KINDS
from npulens.analysis.timeline import gaps, path
from npulens.analysis.timeline.gaps import Pieces
from npulens.analysis.timeline.tiles import FEW, Arranged, Cells, Spans, tile

#: The kinds of the pieces of a gap track and of the critical path, after the kinds of the run.
GAP, PATH = "gap", "path"
#: Names of a run that are kept at most: about 10 MB.
_KEPT = 40_000


@dataclass(frozen=True)
class View:
    """`name` and `kind` of spans and cells count in `names` and `kinds`."""

    bucket_ns: int
    spans: Spans
    cells: Cells
    names: tuple[str, ...]
    kinds: tuple[str, ...]


def view(
    con: duckdb.DuckDBPyConnection, how: Arranged, pieces: Mapping[int, Pieces], begin: int, end: int, pixels: int,
    tracks: Sequence[int], longest_name: int,
) -> View:  # fmt: skip
    """Some tracks from ``begin`` to before ``end``. `pieces` holds those of tracks that are derived, once known."""
    derived = [(track, pieces[track]) for track in tracks if track in pieces]
    counted = sum(last - first for first, last in (gaps.within(of, begin, end) for _, of in derived))
    few = FEW - counted if counted < FEW else -1
    found = tile(con, how, begin, end, pixels, [track for track in tracks if track >= 0], few)
    kinds = how.kinds
    parts = [gaps.tile(of, track, begin, end, found.bucket_ns) for track, of in sorted(derived, key=lambda one: one[0])]
    ids, names = _names(con, how, found.spans, found.cells, longest_name)
    spans = [
        replace(part, name=part.name + len(names), kind=part.kind + len(kinds) + (part.track == path.TRACK))
        for part, _ in parts
    ]
    cells = [replace(part, name=part.name + len(names)) for _, part in parts]
    spans.append(replace(found.spans, name=np.searchsorted(ids, found.spans.name)))
    cells.append(replace(found.cells, name=np.searchsorted(ids, found.cells.name)))
    return View(
        found.bucket_ns, Spans(*_joined(spans)), Cells(*_joined(cells)), (*names, *((*CODES, *KINDS) if parts else ())),
        (*kinds, GAP, PATH),
    )  # fmt: skip


def _joined(parts: Sequence[Spans] | Sequence[Cells]) -> list[Ints]:
    return [np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(parts[0])]


def _names(
    con: duckdb.DuckDBPyConnection, how: Arranged, spans: Spans, cells: Cells, longest: int
) -> tuple[Ints, list[str]]:  # fmt: skip
    """The names that a tile uses, by number; one character more than the longest shows that there was more."""
    ids = np.unique(np.concatenate((spans.name, cells.name)))
    every = ids.tolist()
    known = {one: how.names.get((longest, one)) for one in every}
    if lacking := [one for one, text in known.items() if text is None]:
        rows = con.execute(
            "SELECT id, left(text, ?) FROM name JOIN (SELECT unnest(?) AS id) USING (id)", [longest + 1, lacking]
        ).fetchall()
        known.update(rows)
        if len(how.names) + len(rows) > _KEPT:
            how.names.clear()
        how.names.update({(longest, one): text for one, text in rows[:_KEPT]})
    return ids, [text for one in every if (text := known[one]) is not None]
