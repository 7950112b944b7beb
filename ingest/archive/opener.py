"""The archives of one load: each unpacked by a child with limits, and where everything in them came from."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from npulens.ingest import archive
from npulens.ingest.archive import names
from npulens.ingest.archive.kinds import Kind, stem
from npulens.ingest.archive.tree import Unpacked
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import sandbox
from npulens.ingest.loading.quota import OverQuota, Quota, UsageWatch
from npulens.ingest.loading.renamed_files import StandIns
from npulens.ingest.messages import Message, verbatim

#: Archives within archives are opened this deep; a .tar.gz is one.
MOST_DEEP = 2
#: Address space of the child; xz and zstd ask for some hundred MB, the rest is reserved and not used.
_MEMORY = 6 * sandbox.GIB
#: Packed bytes that earn a load one archive more: each takes a child of its own.
_WEIGHT = 10_000


@dataclass(frozen=True)
class Opened:
    """An archive and what became of it."""

    path: Path
    root: Path
    found: Unpacked
    depth: int


class Opener:
    """Opens archives below a directory of the load's own, and knows what they are called for people."""

    def __init__(
        self, scratch: Path, quota: Quota, watch: UsageWatch | None = None, laid: Mapping[Path, Path] | None = None
    ) -> None:
        """``laid``: directories of the load's own in which files of an earlier one lie, and what those are called."""
        self._scratch, self._quota, self._watch, self._laid = scratch, quota, watch, dict(laid or {})
        self._left_bytes, self._left_members = quota.unpacked_bytes, quota.members
        self.opened: dict[Path, Opened] = {}
        self._near: dict[Path, list[Opened]] = {}  # directory -> the archives it lies in: files come by the thousand
        self._count = self._packed = 0
        self.stand_ins = StandIns(scratch / "told")

    def open(self, path: Path, kind: Kind) -> Path:
        """Unpack an archive; the directory its content lies in. Raises IngestError with the archive's path."""
        depth = 1 + max((each.depth for each in self._around(path)), default=0)
        if depth > MOST_DEEP:
            raise IngestError("nested_archive", Message("archive_within_archive_within_archive"), str(path))
        self._count += 1
        self._packed += path.stat().st_size
        if self._count > self._quota.archives + self._packed // _WEIGHT:
            raise OverQuota("too_many_files", Message("more_than_archives_next_to", {"n": f"{self._quota.archives:,}"}))
        place = self._scratch / str(self._count)
        place.mkdir(parents=True)
        called = self.origin(path).name
        root = place / names.own(stem(called, kind))
        try:
            found = self._unpack(path, kind, root, called)
        except OverQuota:
            raise
        except IngestError as error:
            shutil.rmtree(place, ignore_errors=True)
            raise IngestError(error.kind, error.message, str(path), error.offset) from error
        self._left_bytes -= found.bytes
        self._left_members -= found.members
        self.opened[root] = Opened(path, root, found, depth)
        self._near.clear()
        return root

    def origin(self, path: Path) -> PurePath:
        """What a file is called outside: archives count as directories, and stand-ins are what they stand for."""
        found = self.place(path)
        here = next((each for each in self._laid if found.is_relative_to(each)), None)
        return found if here is None else self._laid[here] / found.relative_to(here)

    def place(self, path: Path) -> PurePath:
        """The same, with files of an earlier load where they lie now."""
        path = self.stand_ins.real(path)
        for each in self._around(path):
            within, parts = path.relative_to(each.root), []
            for length in range(1, len(within.parts) + 1):
                own = PurePath(*within.parts[:length])
                parts.append(each.found.renamed.get(str(own), own.name))
            return self.place(each.path).joinpath(*parts)
        return path

    def damage(self, root: Path) -> tuple[Message, ...]:
        """What a rank lacks because an archive around it is damaged."""
        said, root = [], self.stand_ins.real(root)
        for each in self._around(root):
            name, here = self.origin(each.path).name, self.origin(root).parts
            if each.found.damage:
                said.append(Message("archive_is_incomplete", {"name": name, "reason": each.found.damage}))
            for own, member, why in each.found.lost:
                whole = self._called(each, own, member)
                if whole is not None and whole.parts[: len(here)] == here:
                    said.append(Message("in_archive", {"member": member, "name": name, "reason": why}))
        return tuple(said)

    def lost_since(self, count: int) -> bool:
        """Whether one of the archives opened after the first ``count`` has lost anything."""
        return any(each.found.damage or each.found.lost for each in [*self.opened.values()][count:])

    def losses(self, roots: list[Path]) -> Iterator[IngestError]:
        """What the archives lost that no rank of ``roots`` tells of."""
        roots = [self.stand_ins.real(root) for root in roots]
        told = [self.origin(root).parts for root in roots]
        for each in self.opened.values():
            within = [root for root in roots if each.root == root or each.root in root.parents]
            if each.found.damage and not within:
                yield IngestError(
                    "bad_archive", Message("nothing_in_it_can_be", {"reason": each.found.damage}), str(each.path)
                )
            for own, member, why in each.found.lost:
                whole = self._called(each, own, member)
                if whole is None or not any(whole.parts[: len(here)] == here for here in told):
                    yield IngestError(
                        "bad_member", Message("in_it_is_not_read", {"member": member, "reason": why}), str(each.path)
                    )

    def _called(self, each: Opened, own: str, member: str) -> PurePath | None:
        """What a lost member is called outside; None for a name that is no place in the archive."""
        if own:
            return self.origin(each.root / own)
        try:
            return self.origin(each.path).joinpath(*names.parts(member))
        except names.Unsafe:
            return None

    def _around(self, path: Path) -> list[Opened]:
        """The archives a path lies in, the innermost first."""
        if not self.opened:
            return []
        place = path if path in self.opened else path.parent
        if place not in self._near:
            found = [self.opened[each] for each in (place, *place.parents) if each in self.opened]
            self._near[place] = [*found, *(outer for each in found[-1:] for outer in self._around(each.path))]
        return self._near[place]

    def _unpack(self, path: Path, kind: Kind, root: Path, called: str) -> Unpacked:
        quota = replace(self._quota, unpacked_bytes=self._left_bytes, members=self._left_members)
        packed = path.stat().st_size
        wall = self._watch.left_s if self._watch else quota.time_s
        limits = sandbox.Limits(_MEMORY, max(1, self._left_bytes), 120 + packed // 250_000, wall)

        def work(progress: Callable[[int], None]) -> dict[str, object]:
            return archive.unpack(path, kind, root, quota, called).as_dict()

        look = self._watch.look if self._watch else None
        for message in sandbox.run([(work, limits)], at_once=1, look=look):
            if message.error is not None:
                raise message.error
            if message.result is not None:
                said = message.result
                pairs = [(str(a), str(b)) for a, b in said["skipped"]]
                lost = [(str(a), str(b), verbatim(c)) for a, b, c in said["lost"]]
                return Unpacked(said["renamed"], said["members"], said["bytes"], pairs, lost, said["damage"])
        raise IngestError("crashed", Message("archive_could_not_be_unpacked"))
