"""Captures of an RL job that lie in STEP/ROLE/: verl writes one of each rank, role and step.

A rank is there again for every role. So the captures of a role and a step are a run of their own. How the roles follow
each other is one run more. It is made of the folders' names and of the windows of the captures in them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePath

from npulens.ingest.archive.opener import Opener
from npulens.ingest.errors import IngestError
from npulens.ingest.loading.capture import RankSource
from npulens.ingest.loading.parsing import Parsed
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.serving.found import SERVING, Found
from npulens.ingest.readers.serving.read_verl import REPLICA, role
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.finish import Part, finish

#: Who tells of a job's stages, where folders do.
STAGES = "role folders"
#: What the folder of a step is called.
_STEP = re.compile(r"(?:(?:global_)?step[_-]?)?(\d{1,15})", re.IGNORECASE)
#: How many folders up from a capture its role may be: a capture may be a file, a directory, or one within.
_HIGHEST = 3
#: Longest time in which nothing of a step was captured. Beyond it, a host's clock is another one.
_APART_NS = 60 * 60 * 10**9


@dataclass(frozen=True)
class Folder:
    """Where a capture lies: below the directory that was given to verl, in a step's folder, in a role's."""

    home: PurePath  # as it is called outside
    step: int
    name: str


@dataclass(frozen=True)
class _Window:
    """What one rank of a role did in a step."""

    folder: Folder
    rank: int | None
    begin: int
    end: int


def folders(parsed: Sequence[Parsed], opener: Opener) -> dict[int, Folder]:
    """The folder of each capture that lies in one of a role, by its place among those that were parsed."""
    ranks = ((at, one) for at, one in enumerate(parsed) if SERVING not in one.part.facts)
    told = {at: found for at, one in ranks if (found := _folder(opener.origin(one.source.root)))}
    names = defaultdict[PurePath, set[str]](set)
    for folder in told.values():
        names[folder.home].add(folder.name)
    known = {home for home, own in names.items() if sum(role(name) != "other" for name in own) > 1}
    return {at: folder for at, folder in told.items() if folder.home in known}


def _folder(capture: PurePath) -> Folder | None:
    """The innermost STEP/ROLE that a capture lies in."""
    for own in list(capture.parents)[:_HIGHEST]:
        step = _STEP.fullmatch(own.parent.name)
        if step is not None and not _STEP.fullmatch(own.name):
            return Folder(own.parent.parent, int(step[1]), own.name)
    return None


def jobs(
    parsed: Sequence[Parsed], placed: Mapping[int, Folder], opener: Opener, scratch: Path
) -> tuple[list[Parsed], list[tuple[RankSource, IngestError]]]:
    """Of each job the stages of its steps, as a part without a rank, or why there is none."""
    by_home = defaultdict[PurePath, list[int]](list)
    for at, folder in placed.items():
        by_home[folder.home].append(at)
    made: list[Parsed] = []
    failed: list[tuple[RankSource, IngestError]] = []
    for number, own in enumerate(by_home.values()):
        captures = [parsed[at] for at in own]
        home = _real(captures[0], placed[own[0]], opener)
        files = tuple(sorted({file for one in captures for file in one.source.files}))
        source = RankSource(home, (Claim("verl", home, files),))
        try:
            part = _stages(captures, [placed[at] for at in own], home, scratch / f"roles{number}")
            made.append(Parsed(source, part, max(one.begun for one in captures)))
        except IngestError as error:
            failed.append((source, error))
    return made, failed


def _stages(captures: Sequence[Parsed], places: Sequence[Folder], home: Path, scratch: Path) -> Part:
    with closing(Draft(scratch, 0, small=True)) as draft:
        found = Found(draft, STAGES, home)
        for window in _fitting(_windows(captures, places, found), found):
            replica = REPLICA.search(window.folder.name)
            found.add("stage", {
                "ts_ns": window.begin, "dur_ns": window.end - window.begin, "name": window.folder.name,
                "role": role(window.folder.name), "replica": None if replica is None else int(replica[1]),
                "role_rank": window.rank, "step": window.folder.step, "source": "role folder",
            })  # fmt: skip
        if not found.counts["stage"]:
            raise IngestError("empty", Message("role_folders_do_not_fit", {"folder": home.name}), str(home))
        found.done()
        return finish(draft, scratch / "tables")


def _real(capture: Parsed, place: Folder, opener: Opener) -> Path:
    """The home of a job as a directory here."""
    root = opener.stand_ins.real(capture.source.root)
    up = len(opener.origin(capture.source.root).parts) - len(place.home.parts)
    return Path(*root.parts[: len(root.parts) - up])


def _windows(captures: Sequence[Parsed], places: Sequence[Folder], found: Found) -> list[_Window]:
    """Of each capture whose stamps count since 1970."""
    made = []
    for one, place in zip(captures, places, strict=True):
        if one.part.stamped and one.part.facts.get("clock", "unix") == "unix":
            made.append(_Window(place, one.source.facts.rank, one.part.origin_ns, one.part.end_ns))
        else:
            found.lost(Message("serving_span_without_stamp"), table="stage")
    return made


def _fitting(windows: Sequence[_Window], found: Found) -> list[_Window]:
    """Those of the steps whose captures can be of one clock; of the others nothing is said."""
    steps = defaultdict[int, list[_Window]](list)
    for window in sorted(windows, key=lambda one: (one.begin, one.end, one.folder.name)):
        steps[window.folder.step].append(window)
    begins = {step: own[0].begin for step, own in steps.items() if _of_one_clock(own)}
    crossed = {one for one in begins for other in begins if (one < other) != (begins[one] < begins[other])}
    good = sorted(begins.keys() - crossed)
    for step in sorted(steps.keys() - set(good)):
        found.lost(Message("role_clocks_do_not_fit", {"step": step}), len(steps[step]), table="stage")
    return [window for step in good for window in steps[step]]


def _of_one_clock(step: Sequence[_Window]) -> bool:
    """Whether no window lies far from all others, and the ranks of each role worked at the same time."""
    until = step[0].end
    for one in step[1:]:
        if one.begin - until > _APART_NS:
            return False
        until = max(until, one.end)
    roles = defaultdict[str, dict[int | None, tuple[int, int]]](dict)
    for one in step:
        begin, end = roles[one.folder.name].get(one.rank, (one.begin, one.end))
        roles[one.folder.name][one.rank] = (min(begin, one.begin), max(end, one.end))
    return all(
        max(begin for begin, _ in ranks.values()) <= min(end for _, end in ranks.values()) for ranks in roles.values()
    )
