"""The ledger: what became of every file of an upload. Nothing is dropped in silence.

A file was read into a run, stands beside a capture and was passed over (why), or was refused (why). Files of
archives are listed as they are called there, the archive counting as a directory.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from npulens.ingest.archive.opener import Opened, Opener
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import refuse
from npulens.ingest.messages import Message

READ, BESIDE, REFUSED = "read", "beside", "refused"
#: Files of one upload that are listed one by one.
MOST_LISTED = 200_000
#: Of those beside a run, how many its manifest keeps.
MOST_KEPT = 500
#: Files of one directory with one fate for one reason: so many are listed, the others counted.
MOST_ALIKE = 1_000
#: The same over all directories, for what was not read.
MOST_ANYWHERE = 4_000
#: Refusals that speak of a directory as a whole and not of each file in it.
_SUMS = ("empty", "unknown_format", "not_found")

#: Files beside a capture: pattern over the path, and what they are.
_KNOWN = (
    (r"(^|/)(\.DS_Store|\._[^/]*|__MACOSX/.*|Thumbs\.db|desktop\.ini)$", Message("note_file_manager_s_own")),
    (r"(^|/)logs?/|\.log(\.\d+)?$|(^|/)host_start\.log", "a log"),
    (r"\.done$|(^|/)(all_file\.complete|end_info[^/]*)$", Message("mark_that_profiler_leaves_when")),
    (r"(^|/)FRAMEWORK/", Message("raw_data_framework_read_by")),
    (r"(^|/)(host|device_\d+)/|\.slice_\d+$", Message("raw_data_device_read_by")),
    (r"(^|/)(manifest|truth)\.json$", Message("description_capture")),
    (r"(^|/)(README|LICENSE|NOTICE|CHANGELOG)[^/]*$|\.(md|txt|rst)$", "a note"),
    (r"\.(html?|xlsx?|pdf|png|svg|docx?)$", Message("report_made_from_capture")),
    (r"\.(py|sh|ya?ml|toml|cfg|ini)$", Message("script_or_settings")),
    (r"\.db-(wal|journal|shm)$|-(wal|journal|shm)$", Message("part_database_beside_it_that")),
    (r"\.(gz|zip|tar|tgz|xz|zst|bz2)$", Message("packed_beside_what_was_read")),
    (r"\.csv$", Message("table_that_npulens_does_not")),
    (r"\.json$", Message("json_that_npulens_does_not")),
)  # fmt: skip
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), text) for pattern, text in _KNOWN)


@dataclass(frozen=True)
class Fate:
    """What became of one file. ``root`` is the rank that read it or that it stands beside."""

    path: PurePath  # as it is called outside
    fate: str
    reason: str | None = None
    root: Path | None = None


def write(
    paths: Sequence[Path], read: Mapping[Path, Path], passed: Mapping[Path, str], refused: Sequence[IngestError],
    opener: Opener | None,
) -> list[Fate]:  # fmt: skip
    """One row a file, in the order of the upload.

    ``read`` is file -> the root of the rank that reads it. ``passed`` is why a file that could be read is not.
    """
    opened = {each.path: each for each in opener.opened.values()} if opener else {}
    errors = {Path(error.path): error for error in refused if error.path}
    book = _Book(read, passed, set(read.values()), errors, opened)
    fates: list[Fate] = []
    for place in [*paths, *(each.root for each in opened.values())]:
        captured = any(place in (root, *root.parents) for root in book.roots)
        for number, file in enumerate(_files(place)):
            if number >= MOST_LISTED:
                text = Message("more_than_files_rest_is", {"n": f"{MOST_LISTED:,}"})
                fates.append(Fate(_called(place, opener), BESIDE, text))
                break
            fates.append(book.fate(file, captured, _called(file, opener)))
    for each in opened.values():
        fates.extend(_members(each, _called(each.path, opener)))
    return fates


def rows(
    fates: Sequence[Fate], key: Callable[[Path], str], runs: Mapping[str, str], errors: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The ledger for whoever asked; ``runs`` and ``errors`` say by the key of its root what a rank has become."""
    found, keys = [], {root: key(root) for root in {each.root for each in fates} if root is not None}
    alike: Counter[tuple[PurePath, str, str | None, str | None]] = Counter()
    everywhere: Counter[tuple[str, str | None, str | None]] = Counter()
    farther: dict[tuple[str, str | None, str | None], PurePath] = {}  # what is alike in very many directories
    for each in fates:
        root = None if each.root is None else keys[each.root]
        run_id = runs.get(root) if root else None
        fate, reason = each.fate, each.reason
        if each.fate == READ and root is not None and run_id is None:
            fate, reason = REFUSED, errors.get(root, Message("its_rank_was_not_loaded"))
        parent, same = each.path.parent, (fate, run_id, reason)
        everywhere[same] += 1
        if everywhere[same] > MOST_ANYWHERE and fate != READ:
            farther[same] = PurePath(os.path.commonpath([farther.get(same, parent), parent]))
            continue
        kind = (parent, *same)
        alike[kind] += 1
        if alike[kind] <= MOST_ALIKE:
            found.append({"path": plain(each.path), "fate": fate, "run_id": run_id, "reason": reason})
    for (parent, fate, run_id, reason), count in alike.items():
        if count > MOST_ALIKE:
            more = _more("this_directory", count - MOST_ALIKE, reason)
            found.append({"path": plain(parent / "\u2026"), "fate": fate, "run_id": run_id, "reason": more})
    for (fate, run_id, reason), parent in farther.items():
        count = everywhere[fate, run_id, reason] - MOST_ANYWHERE
        more = _more("in_these_directories", count, reason)
        found.append({"path": plain(parent / "\u2026"), "fate": fate, "run_id": run_id, "reason": more})
    return found


def _more(where: str, count: int, reason: str | None) -> Message:
    """What is said of files with one fate that are counted and not listed."""
    values = {"count": f"{count:,}"}
    key = f"more_files_{where}"
    return Message(f"{key}_for_reason", {**values, "reason": reason}) if reason else Message(key, values)


def passed_over(fates: Sequence[Fate], roots: Collection[Path]) -> dict[str, Any]:
    """What a run's manifest keeps: the files beside its ranks that were not read, and why."""
    found = [{"path": plain(each.path), "reason": each.reason} for each in fates if each.root in roots]
    found = [row for row in found if row["reason"]]
    return {"passed_over": found[:MOST_KEPT], "passed_over_more": max(0, len(found) - MOST_KEPT)}


def plain(path: PurePath) -> str:
    """A path as text that can be stored, whatever bytes it has."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def beside(path: str) -> str:
    """Why a file that stands beside a capture is not read."""
    return next((text for pattern, text in _PATTERNS if pattern.search(path)), Message("no_format_that_npulens_reads"))


@dataclass(frozen=True)
class _Book:
    """What is known of an upload before its files are gone through."""

    read: Mapping[Path, Path]
    passed: Mapping[Path, str]
    roots: Collection[Path]
    errors: Mapping[Path, IngestError]
    opened: Mapping[Path, Opened]
    around: dict[Path, tuple[Path | None, str | None]] = field(default_factory=dict)  # by directory, as asked for

    def fate(self, file: Path, captured: bool, called: PurePath) -> Fate:
        """Of one file; ``captured`` says whether anything of its upload was read."""
        if file in self.read:
            return Fate(called, READ, None, self.read[file])
        if file in self.passed:
            return Fate(called, BESIDE, self.passed[file])
        if (archive := self.opened.get(file)) is not None:
            return Fate(called, READ, Message("archive_members_listed_one_by", {"n": f"{archive.found.members:,}"}))
        if (error := self.errors.get(file)) is not None:
            return Fate(called, REFUSED, error.message)
        if file.parent not in self.around:
            self.around[file.parent] = self._around(file.parent)
        root, why = self.around[file.parent]
        if root is not None:
            return Fate(called, BESIDE, beside(file.relative_to(root).as_posix()), root)
        if why is not None:
            return Fate(called, REFUSED, why)
        if file.is_symlink():
            return Fate(called, BESIDE, Message("link_which_is_not_followed"))
        if not file.is_file():
            return Fate(called, BESIDE, Message("device_or_pipe"))
        if captured and not refuse.looks(file):
            return Fate(called, BESIDE, beside(file.as_posix()))
        return Fate(called, REFUSED, refuse.name_file(file).message)

    def _around(self, directory: Path) -> tuple[Path | None, str | None]:
        """The rank that a directory belongs to, or why nothing in it is read."""
        places = (directory, *directory.parents)
        root = next((place for place in places if place in self.roots), None)
        whole = ((place, self.errors[place]) for place in places if place in self.errors)
        said = (f"part of {place.name}: {error.message}" for place, error in whole if error.kind not in _SUMS)
        return root, next(said, None)


def _members(each: Opened, called: PurePath) -> Iterator[Fate]:
    """Members that are no file of ours: skipped, or lost."""
    for name, why in each.found.skipped:
        yield Fate(called / name.lstrip("/"), BESIDE, why)
    for own, name, why in each.found.lost:
        if not own:
            yield Fate(called / name.lstrip("/"), REFUSED, why)


def _called(path: Path, opener: Opener | None) -> PurePath:
    return opener.origin(path) if opener else path


def _files(place: Path) -> Iterator[Path]:
    """Everything below a place that is no directory; links are named and not followed."""
    if not place.is_dir():
        if place.exists() or place.is_symlink():
            yield place
        return
    for directory, inner, files in os.walk(place):
        inner.sort()
        linked = [name for name in inner if os.path.islink(os.path.join(directory, name))]
        for name in sorted([*files, *linked]):
            yield Path(directory, name)
