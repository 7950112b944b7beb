"""What a walk found and no reader took: raw directories and strange files, each with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import lookalike, peek
from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.states import outermost, state
from npulens.ingest.readers.mindspore import raw as mindspore_raw

#: Files of these endings look like captures; others beside a capture (logs, notes) are passed over in silence.
_LOOKS = re.compile(
    r"\.(json|gz|db|dat|sqlite|nsys-rep|qdrep|ncu-rep|pb|et|pftrace|perfetto-trace|zip|tar|t?[gx]z|t?zst|t?bz2?|7z|rar"
    r"|pickle|pkl|bin)$|tfevents",
    re.I,
)
#: Files that stand beside captures and describe them.
_BESIDE = ("manifest.json", "truth.json")
#: Refusals listed one by one for one path; the rest is summed up.
_LISTED = 20


def looks(entry: Path) -> bool:
    """Whether a file beside a capture has to be named, because people may take it for one."""
    return _LOOKS.search(entry.name) is not None and entry.name not in _BESIDE


def name_all(
    path: Path, unclaimed: list[Path], claimed: Collection[Path], nothing_else: bool, said: bool = False
) -> list[IngestError]:
    """Refusals for what a walk found and nobody claimed; a directory that holds a capture is no raw one.

    ``said``: something of it was refused already, so there is no need to call it empty.
    """
    above = {place for root in claimed for place in (root, *root.parents)}
    bare = [e for e in unclaimed if e not in above and peek.at(e).is_dir]
    states = outermost(error for entry in bare if (error := _raw_state(entry)))
    raw = {Path(error.path) for error in states if error.path}
    files = [e for e in unclaimed if (not raw or raw.isdisjoint((e, *e.parents))) and e.is_file()]
    if not nothing_else:
        files = [entry for entry in files if looks(entry)]
    found = states + [name_file(entry) for entry in files[:_LISTED]]
    if len(files) > _LISTED:
        found.append(
            IngestError("unknown_format", Message("more_files_are_no_capture", {"n": len(files) - _LISTED}), str(path))
        )
    if nothing_else and not found and not said:
        found.append(IngestError("empty", Message("nothing_to_load_here_no"), str(path)))
    return found


def _raw_state(entry: Path) -> IngestError | None:
    """Directories that hold raw data somebody has yet to parse, or nothing of a capture at all."""
    try:
        children = peek.at(entry).names
    except OSError:  # the walk has said so
        return None
    return state(entry) or mindspore_raw.directory(entry, children)


def name_file(entry: Path) -> IngestError:
    """What a file is that nobody reads."""
    try:
        head = peek.at(entry).head
    except OSError as error:
        return IngestError("unreadable", Message("cannot_be_read", {"error": error.strerror}), str(entry))
    return mindspore_raw.file(entry) or lookalike.named(entry, head)
