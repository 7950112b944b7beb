"""Files of a serving run, put to the ranks that a profiler saw of it: one upload, one run.

What lies in one directory is of one run. Of several directories those are, whose requests overlap in time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from npulens.ingest.loading.parsing import Parsed
from npulens.ingest.loading.roles import STAGES
from npulens.ingest.readers.serving.found import SERVING
from npulens.ingest.serving.join import OWN, join
from npulens.ingest.tables.assemble import Piece, Source
from npulens.ingest.tables.concatenate import is_packed
from npulens.ingest.tables.finish import Part

#: A profiler's window may lie so far from the requests beside it.
_NEAR_NS = 5 * 60 * 10**9


def is_serving(parsed: Parsed) -> bool:
    """Whether a part is no rank but tells of requests."""
    return SERVING in parsed.part.facts


@dataclass
class _Bundle:
    parts: list[Parsed]

    @property
    def directories(self) -> set[Path]:
        return {part.source.root.parent for part in self.parts}

    @property
    def window(self) -> tuple[int, int] | None:
        """From the first to the last stamp since 1970."""
        stamped = [p.part for p in self.parts if p.part.stamped and p.part.facts.get("clock", "unix") == "unix"]
        return (min(p.origin_ns for p in stamped), max(p.end_ns for p in stamped)) if stamped else None

    def near(self, other: _Bundle) -> int | None:
        """How far apart two lie; None: too far, or there is no telling."""
        ours, theirs = self.window, other.window
        if ours is None or theirs is None:
            return None
        apart = max(0, ours[0] - theirs[1], theirs[0] - ours[1])
        return apart if apart <= _NEAR_NS else None

    def half_within(self, other: _Bundle) -> bool:
        """Whether half of the shorter one overlaps the other."""
        ours, theirs = self.window, other.window
        if ours is None or theirs is None:
            return False
        common = min(ours[1], theirs[1]) - max(ours[0], theirs[0])
        return common * 2 >= min(ours[1] - ours[0], theirs[1] - theirs[0]) and common >= 0

    def beside(self, other: _Bundle) -> bool:
        """Whether they share a directory, or one lies above the other."""
        return any(
            one == two or one in two.parents or two in one.parents
            for one in self.directories for two in other.directories
        )  # fmt: skip


def attached(groups: Sequence[list[Parsed]], serving: Sequence[Parsed], together: bool = False) -> list[list[Parsed]]:
    """Sessions of ranks with the serving files that are of them, and runs of serving files alone.

    ``together``: somebody said that all of them are of one run.
    """
    sessions = [_Bundle(list(group)) for group in groups]
    whole = [_Bundle(list(serving))] if together and serving else _bundles(serving)
    alone = []
    for bundle in whole:
        home = _home(bundle, sessions)
        if home is None and together and len(sessions) == 1:
            home = sessions[0]
        if home is None:
            alone.append(bundle.parts)
        else:
            home.parts += bundle.parts
    return [*(session.parts for session in sessions), *alone]


def _bundles(serving: Sequence[Parsed]) -> list[_Bundle]:
    """Serving files that are of one run."""
    bundles: list[_Bundle] = []
    for part in serving:
        same = next((one for one in bundles if part.source.root.parent in one.directories), None)
        if same is None:
            bundles.append(_Bundle([part]))
        else:
            same.parts.append(part)
    whole: list[_Bundle] = []
    for bundle in sorted(bundles, key=lambda one: one.window is None):
        found = next((one for one in whole if bundle.half_within(one)), None)
        if found is None and bundle.window is None and len(bundles) == 2 and len(whole) == 1:
            found = whole[0]
        if found is None:
            whole.append(bundle)
        else:
            found.parts += bundle.parts
    return whole


def _home(bundle: _Bundle, sessions: Sequence[_Bundle]) -> _Bundle | None:
    """The session that serving files are of: the nearest in their directory, else one that overlaps them.

    Stages that folders tell are of all the sessions in these.
    """
    if any(part.part.facts[SERVING] == STAGES for part in bundle.parts):
        return None
    if bundle.window is None:
        beside = [one for one in sessions if bundle.beside(one)]
        near = beside or list(sessions)
        return near[0] if len(near) == 1 else None
    told = [(not bundle.beside(one), apart, at) for at, one in enumerate(sessions)
            if (apart := bundle.near(one)) is not None and (apart == 0 or bundle.beside(one))]  # fmt: skip
    return sessions[min(told)[2]] if told else None


def folded(
    group: Sequence[Parsed], pieces: Sequence[Piece], out: Path
) -> tuple[list[Piece], list[Source]]:  # fmt: skip
    """Pieces and sources of a run: serving parts become one, told with the first rank."""
    ranks = [(parsed, piece) for parsed, piece in zip(group, pieces, strict=True) if not is_serving(parsed)]
    beside = [piece for parsed, piece in zip(group, pieces, strict=True) if is_serving(parsed)]
    traces = [(p.part.rank, Path(p.part.directory), p.part.origin_ns) for p, _ in ranks]
    lone = traces[0] if len(traces) == 1 and not beside and not is_packed(traces[0][1]) else None
    served = join([piece.part for piece in beside], traces, out, lone)
    own, sources = [piece for _, piece in ranks], [_source(p.part) for p, _ in ranks]
    if served is None:
        return own, sources
    if lone is None:
        sources.append(_source(served))
    first = own[0] if own else replace(beside[0], path="", files={}, bytes=0, part=served, formats=())
    files = dict(first.files)
    for piece in beside:
        files |= {os.path.join(os.path.dirname(piece.path), name): digest for name, digest in piece.files.items()}
    return [
        replace(
            first, part=_told(first.part, served), files=files,
            formats=tuple(sorted({*first.formats, *(name for piece in beside for name in piece.formats)})),
            bytes=first.bytes + sum(piece.bytes for piece in beside),
        ),
        *own[1:],
    ], sources  # fmt: skip


def _source(part: Part) -> Source:
    return Source(Path(part.directory), part.origin_ns if part.stamped else None)


def _told(part: Part, served: Part) -> Part:
    """What a rank recorded, and what was served."""
    if part is served:
        return part
    rest = [row for row in part.coverage if row["table"] not in OWN]
    own = [row for row in served.coverage if row["table"] in OWN]
    return replace(
        part, coverage=[*rest, *own], rows=part.rows | {name: served.rows.get(name, 0) for name in OWN},
        reasons=list(dict.fromkeys([*part.reasons, *served.reasons])),
    )  # fmt: skip
