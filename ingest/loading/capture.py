"""What lies in an upload: rank by rank, which reader reads which files.

The walk asks every reader about every directory, top down, and about every file that no
directory claimed. An archive that nobody claims is unpacked, and the walk goes on inside of it.
What nobody claims but looks like a capture is refused by its name.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from blake3 import blake3

from npulens.ingest import archive
from npulens.ingest.archive.opener import Opener
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import ledger, peek, refuse
from npulens.ingest.loading.quota import OverQuota
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim, Facts, readers
from npulens.ingest.readers.cluster import companion
from npulens.ingest.store.seal import hash_once

#: Files and directories one upload may hold before it is refused.
MAX_ENTRIES = 40_000
#: Directories of them, each of which is listed and asked about several times.
MAX_DIRECTORIES = 10_000
#: A larger number is no rank: the ids of its spans would leave 64 bits (ingest/tables/finish.py, SPAN_BITS).
HIGHEST_RANK = (1 << 19) - 1


@dataclass(frozen=True)
class RankSource:
    """Everything found about one rank: one or several formats of the same directory."""

    root: Path
    claims: tuple[Claim, ...]
    damage: tuple[Message, ...] = ()  # what the archive it came in has lost of it

    @property
    def facts(self) -> Facts:
        """What the formats say together: on each fact, the first that speaks."""
        said = [claim.facts for claim in self.claims]
        ranked = (facts for facts in said if facts.rank is not None and 0 <= facts.rank <= HIGHEST_RANK)
        named = next(ranked, Facts())
        return Facts(
            rank=named.rank,
            rank_source=named.rank_source,
            world_size=next((facts.world_size for facts in said if facts.world_size is not None), None),
            groups=tuple(sorted({group for facts in said for group in facts.groups})),
            begin_ns=next((facts.begin_ns for facts in said if facts.begin_ns is not None), None),
            end_ns=next((facts.end_ns for facts in said if facts.end_ns is not None), None),
        )

    def by_device(self) -> tuple[RankSource, ...]:
        """One source for each of the devices that share the files; mostly there is one."""
        devices = sorted({device for claim in self.claims for device in claim.beside})
        if not devices:
            return (self,)
        return tuple(replace(self, claims=tuple(claim.of(device) for claim in self.claims)) for device in devices)

    @property
    def device(self) -> int | None:
        """Which of the devices that share the files it is."""
        return next((claim.device for claim in self.claims if claim.device is not None), None)

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted({path for claim in self.claims for path in claim.files}))

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.files)


@dataclass(frozen=True)
class Found:
    """The sources of an upload, what was refused, and what became of every file."""

    sources: tuple[RankSource, ...]
    refused: tuple[IngestError, ...]
    files: tuple[ledger.Fate, ...] = ()


@peek.once()
def find(paths: list[Path], opener: Opener | None = None) -> Found:
    """Walk an upload; without an opener archives are refused."""
    claims: dict[Path, dict[str, Claim]] = {}
    real = opener.stand_ins.real if opener else Path
    refused: list[IngestError] = []
    for path in paths:
        before, named, opened = len(claims), len(refused), len(opener.opened) if opener else 0
        unclaimed: list[Path] = []
        if not path.exists():
            refused.append(IngestError("not_found", Message("there_is_no_such_file"), str(path)))
            continue
        walk = _Walk(path, claims, refused)
        for entry in walk:
            if entry in walk.done:
                continue
            found = _told(entry, opener, walk, refused)
            for claim in found:
                known = claims.setdefault(claim.root, {})
                known[claim.format] = claim.with_files(known[claim.format]) if claim.format in known else claim
            if not found and not _opened(entry, opener, walk, refused):
                unclaimed.append(entry)
        nothing_else, said = len(claims) == before, len(refused) > named or (opener and opener.lost_since(opened))
        roots = {real(root) for root in claims}
        refused.extend(refuse.name_all(path, unclaimed, roots, nothing_else, bool(said)))
    claims, beside = companion.part(claims)
    sources = [
        RankSource(root, tuple(of[name] for name in sorted(of)), opener.damage(root) if opener else ())
        for root, of in sorted(claims.items())
    ]
    if opener:
        refused.extend(opener.losses([source.root for source in sources]))
    read = {real(file): real(source.root) for source in sources for file in source.files}
    files = ledger.write(paths, read, beside, refused, opener)
    return Found(tuple(each for source in sources for each in source.by_device()), tuple(refused), tuple(files))


def _opened(entry: Path, opener: Opener | None, walk: _Walk, refused: list[IngestError]) -> bool:
    """Unpack an archive and let the walk go on inside of it; False for what is none."""
    kind = archive.recognise(entry) if opener else None
    if opener is None or kind is None:
        return False
    try:
        walk.visit(opener.open(entry, kind))
    except OverQuota:
        raise
    except IngestError as error:
        refused.append(error)
    return True


def _told(entry: Path, opener: Opener | None, walk: _Walk, refused: list[IngestError]) -> list[Claim]:
    """What readers claim of an entry, or of the stand-in in which its files have names that readers know."""
    if _is_empty(entry):
        return []
    asked = opener.stand_ins.of(entry) if opener else entry
    found = _claims(asked, refused)
    if opener is None or asked == entry:
        return found
    if found:
        walk.done.add(entry)
    elif asked.is_dir():  # a folder of single files: each is asked about beside the others
        for file in sorted(path for path in asked.iterdir() if path.is_file()):
            found.extend(_claims(file, refused))
        walk.done |= {opener.stand_ins.real(file) for claim in found for file in claim.files}
    return found


def _is_empty(entry: Path) -> bool:
    """Whether it is a directory in which nothing lies: no reader claims one, and there may be tens of thousands."""
    try:
        return (seen := peek.at(entry)).is_dir and not seen.names
    except OSError:  # readers find out and say so
        return False


def _claims(entry: Path, refused: list[IngestError]) -> list[Claim]:
    found: list[Claim] = []
    if archive.recognise(entry) is archive.Kind.tar:  # a member called {x} makes it begin as JSON does
        return found
    for reader in readers().values():
        try:
            claim = reader.sniff(entry)
        except IngestError as error:
            refused.append(error)
            continue
        except OSError as error:  # what lies in it would have a longer path than the system takes
            refused.append(unreadable(entry, error))
            break
        if claim is not None:
            found.extend(claim if isinstance(claim, tuple) else [claim])
    return found


def unreadable(entry: Path, error: OSError) -> IngestError:
    """The refusal of what the system does not give."""
    return IngestError("unreadable", Message("cannot_be_read", {"error": error.strerror}), str(entry))


class _Walk:
    """Directories top down, then files; nothing below a directory that was claimed. Links are not followed."""

    def __init__(self, path: Path, claims: dict[Path, dict[str, Claim]], refused: list[IngestError]) -> None:
        self._path, self._claims, self._refused = path, claims, refused
        self._pending = deque([path])
        self.done: set[Path] = set()  # what is read by way of a stand-in
        self._seen = self._directories = 0

    def visit(self, path: Path) -> None:
        """Look at this next."""
        self._pending.appendleft(path)

    def __iter__(self) -> Iterator[Path]:
        while self._pending:
            entry = self._pending.popleft()
            self._seen += 1
            try:
                is_directory = peek.at(entry).is_dir
            except OSError as error:  # its path is longer than the system takes
                self._refused.append(unreadable(entry, error))
                continue
            yield entry
            if is_directory and (self._claims.keys() | self.done).isdisjoint((entry, *entry.parents)):
                self._directories += 1
                self._enter(entry)

    def _enter(self, directory: Path) -> None:
        """Its directories and then its files come next, by name."""
        try:
            children = sorted(os.scandir(directory), key=lambda child: child.name, reverse=True)
        except OSError as error:
            self._refused.append(unreadable(directory, error))
            return
        if self._seen + len(self._pending) + len(children) > MAX_ENTRIES:
            raise IngestError(
                "too_many_files", Message("more_than_files_load_part", {"n": MAX_ENTRIES}), str(self._path)
            )
        if self._directories > MAX_DIRECTORIES:
            raise IngestError(
                "too_many_files",
                Message("more_than_directories_outside_captures", {"n": f"{MAX_DIRECTORIES:,}"}),
                str(self._path),
            )  # fmt: skip
        kept = [child for child in children if not child.is_symlink()]
        for wanted in (False, True):
            inner = [child for child in kept if child.is_dir(follow_symlinks=False) == wanted]
            self._pending.extendleft(Path(child.path) for child in inner)


def hash_files(files: list[Path]) -> dict[Path, str]:
    """BLAKE3 of each file, two at a time (hashing releases the GIL): as safe as SHA-256 and three times as fast."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(files, pool.map(hash_once, files), strict=True))


def content_id(entries: dict[str, str]) -> str:
    """Id of a set of files: a hash of each path within the capture and its content."""
    digest = blake3()
    for name in sorted(entries):
        digest.update(f"{name}\0{entries[name]}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:24]
