"""Where members go: files of ours below one directory, counted byte by byte."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from npulens.ingest.archive import names
from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import Quota, amount, check_free, swollen
from npulens.ingest.messages import Message, joined

#: How often the disk is looked at.
_LOOK_BYTES = 64 << 20
#: Characters all names of an archive may have: they are kept in memory.
_MOST_NAMES = 32 << 20
#: Bytes in the mean below which members are scraps.
_SCRAP = 1000
#: Formats whose readers know an incomplete file and say so: cut short, they are kept.
_SALVAGED = (b"{", b"[", b"SQLite format 3\0")


class Damaged(Exception):
    """Why the bytes of a member, or of the whole archive, end too early."""

    def __init__(self, said: Message) -> None:
        super().__init__(said)
        self.said = said


@dataclass(frozen=True)
class Unpacked:
    """What became of an archive. Paths are those within it; own paths are relative to where it was unpacked."""

    renamed: dict[str, str]  # own path -> what its last component is called in the archive, where that differs
    members: int
    bytes: int
    skipped: list[tuple[str, str]]  # member -> why it is not looked at, without loss (links, devices)
    lost: list[tuple[str, str, Message]]  # own path or "", member, why it is missing or incomplete
    damage: Message | None  # why the archive as a whole ends too early

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Budget:
    """Counts what really comes out of an archive."""

    def __init__(self, quota: Quota, packed: int, place: Path) -> None:
        self._quota, self._packed, self._place = quota, packed, place
        self.members = self.bytes = self._names = self._directories = 0
        self._look_at = 0

    @property
    def left_members(self) -> int:
        """How many more members there may be."""
        return self._quota.members - self.members

    def member(self, name_length: int) -> None:
        """One more member."""
        self.members += 1
        self._names += name_length
        if self.members > self._quota.members or self._names > _MOST_NAMES:
            raise too_many(self._quota)
        self._count()

    def directory(self) -> None:
        """One more directory that has to be made."""
        self._directories += 1
        self._count()

    def _count(self) -> None:
        count = self.members + self._directories
        if count > self._quota.scraps and self.bytes < count * _SCRAP:
            raise IngestError(
                "too_many_files", Message("archive_more_than_files_next", {"n": f"{self._quota.scraps:,}"})
            )

    def spend(self, size: int) -> None:
        """So many more bytes."""
        self.bytes += size
        quota = self._quota
        if self.bytes > quota.unpacked_bytes:
            raise IngestError(
                "archive_bomb", Message("it_unpacks_to_more_than", {"size": amount(quota.unpacked_bytes)})
            )
        if self.bytes > quota.ratio_from_bytes and self.bytes > quota.unpacked_ratio * self._packed:
            raise swollen(self._packed, quota.unpacked_ratio)
        if self.bytes >= self._look_at:
            self._look_at = self.bytes + _LOOK_BYTES
            check_free(self._place, quota, _LOOK_BYTES)


def too_many(quota: Quota) -> IngestError:
    """The refusal of an archive with too many members."""
    return IngestError("too_many_files", Message("archive_more_than_files_load", {"n": f"{quota.members:,}"}))


class Tree:
    """The files of one archive while it is unpacked."""

    def __init__(self, root: Path, budget: Budget) -> None:
        self.root, self.budget = root, budget
        self.damage: Message | None = None
        self._aside = root.with_name(f"{root.name}.member")
        self._known: dict[tuple[Path, str], Path] = {}
        self._taken: set[tuple[Path, str]] = set()
        self._again: Counter[tuple[Path, str]] = Counter()
        self._directories, self._files = {root}, set[Path]()
        self._empty = set[Path]()  # files of nothing, made at the end: to make one takes as long as to write one
        self._renamed: dict[str, str] = {}
        self.skipped: list[tuple[str, str]] = []
        self.lost: list[tuple[str, str, Message]] = []

    def skip(self, name: str, why: Message) -> None:
        """A member that holds nothing to read."""
        self.skipped.append((name, why))

    def lose(self, name: str, why: Message, own: Path | None = None) -> None:
        """A member that should be there and is not, or not whole."""
        self.lost.append(("" if own is None else str(own.relative_to(self.root)), name, why))

    def directory(self, parts: tuple[str, ...]) -> Path | None:
        """The directory of ours for one of the archive; None where a file has its name."""
        path = self.root
        for part in parts:
            path = self._child(path, part)
            if path in self._files:
                return None
            if path not in self._directories:
                self.budget.directory()
                path.mkdir()
                self._directories.add(path)
        return path

    def file(self, parts: tuple[str, ...]) -> Path | None:
        """The file of ours that a member has become, if it has."""
        path: Path | None = self.root
        for part in parts:
            path = None if path is None else self._known.get((path, part))
        if path is None or path not in self._files:
            return None
        self._make(path)
        return path

    def write(self, parts: tuple[str, ...], data: Iterable[bytes]) -> None:
        """One file; of one that comes twice the last counts, as it does for every program that unpacks."""
        name, parent = "/".join(parts), self.directory(parts[:-1])
        target = None if parent is None else self._child(parent, parts[-1])
        if target is None or target in self._directories:
            return self.lose(name, Message("file_and_directory_have_same"))
        again = target in self._files
        into = self._aside if again else target
        cut = self._receive(data, into)
        if cut is not None and (again or into in self._empty or not _is_salvaged(into)):
            into.unlink(missing_ok=True)
            self._empty.discard(into)
            return self.lose(name, cut, target if again else None)
        if again:
            self._make(into)
            self._empty.discard(target)
            os.replace(into, target)
            self.skip(name, Message("it_is_in_archive_more"))
        self._files.add(target)
        if cut is not None:
            self.lose(name, joined([cut, Message("what_there_is_it_is")]), target)

    def outcome(self) -> Unpacked:
        """What there is to say when it is done."""
        for path in tuple(self._empty):
            self._make(path)
        return Unpacked(self._renamed, self.budget.members, self.budget.bytes, self.skipped, self.lost, self.damage)

    def _receive(self, data: Iterable[bytes], into: Path) -> Message | None:
        """Write a member; why it is not whole."""
        self._empty.add(into)
        try:
            blocks = (block for block in data if block)
            first = next(blocks, None)
            if first is None:
                return None
            with into.open("wb") as file:
                self._empty.discard(into)
                for block in chain((first,), blocks):
                    self.budget.spend(len(block))
                    file.write(block)
        except Damaged as damage:
            return damage.said
        except OSError as error:
            raise _disk(error) from error
        return None

    def _make(self, path: Path) -> None:
        """Make a file if it holds nothing and is not there yet."""
        if path in self._empty:
            self._empty.discard(path)
            try:
                path.touch()
            except OSError as error:
                raise _disk(error) from error

    def _child(self, parent: Path, name: str) -> Path:
        """The path of ours for a component; two spellings of one name never meet."""
        if (known := self._known.get((parent, name))) is not None:
            return known
        mine = names.own(name)
        while (parent, mine.lower()) in self._taken:
            self._again[parent, names.own(name).lower()] += 1
            mine = names.own_again(name, self._again[parent, names.own(name).lower()] + 1)
        self._taken.add((parent, mine.lower()))
        path = self._known[parent, name] = parent / mine
        if mine != name:
            self._renamed[str(path.relative_to(self.root))] = name
        return path


def _is_salvaged(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_SALVAGED)


def _disk(error: OSError) -> IngestError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IngestError("disk_full", Message("store_s_disk_is_full"))
    if error.errno == errno.EFBIG:
        return IngestError("archive_bomb", Message("one_its_files_is_larger"))
    return IngestError("system", Message("system_refused", {"error": error.strerror or error}))
