"""Files that come to a serving run later: its own captures are read again beside them.

What a client says of a request is put together with what the engine says while both are read. A finished run cannot
take it in. So its captures, which the store keeps, are laid out again. They are called as if they lay beside what came.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.loading.capture import RankSource
from npulens.ingest.messages import Message
from npulens.ingest.readers import serving
from npulens.ingest.store import raw
from npulens.ingest.store.runs import RunInfo
from npulens.ingest.store.seal import hash_of


@dataclass(frozen=True)
class Earlier:
    """The captures of a run, laid out again."""

    run_id: str
    captures: list[raw.Capture]
    tops: tuple[Path, ...]
    laid: Mapping[Path, Path]  # where the files of each load lie, and what that place is called


@cache
def formats() -> frozenset[str]:
    """What tells of requests or of stages."""
    return frozenset(
        module.name.removeprefix("read_") for module in pkgutil.iter_modules(serving.__path__)
        if module.name.startswith("read_")
    )  # fmt: skip


def is_wanted(joined: RunInfo, sources: Sequence[RankSource]) -> bool:
    """Whether one of both tells of requests. Ranks alone are put together as they are."""
    return not formats().isdisjoint([*joined.formats, *(claim.format for each in sources for claim in each.claims)])


def laid_out(store: Path, run_id: str, paths: Sequence[Path], target: Path) -> Earlier:
    """What was kept of a run, but what comes again. IngestError where nothing was kept."""
    kept = raw.captures(store, run_id)
    if not kept:
        raise IngestError("no_raw", Message("serving_files_are_joined_in_one_load", {"run": run_id}))
    base = Path(os.path.commonpath([path.parent for path in paths]))
    names = {path.relative_to(base).parts[0] for path in paths}
    given = {hash_of(path) for path in paths if path.is_file()}
    tops: list[Path] = []
    laid: dict[Path, Path] = {}
    for number, each in enumerate(kept):
        place = target / str(number)
        found = raw.unpack(store, each, place)
        own = [top for top in found if each.files.get(str(top.relative_to(place))) not in given]
        first = {top.relative_to(place).parts[0] for top in own}
        laid[place] = base if names.isdisjoint(first) else base / run_id / str(number)
        names |= first
        tops += own
    return Earlier(run_id, kept, tuple(tops), laid)
