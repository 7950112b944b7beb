"""Ranks to parts: in children, as many side by side as there are processors. Small ranks share one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy.ma  # noqa: F401 - DuckDB asks for it in every child: 30 ms each

from npulens.ingest.errors import IngestError, no_room
from npulens.ingest.loading import peek, sandbox
from npulens.ingest.loading.capture import RankSource
from npulens.ingest.loading.quota import UsageWatch
from npulens.ingest.messages import Message
from npulens.ingest.readers import readers
from npulens.ingest.tables.draft import AMPLE_MEMORY, MEMORY_LIMIT, Desk, Draft
from npulens.ingest.tables.fill import fill
from npulens.ingest.tables.finish import Part, finish

Say = Callable[[dict[str, Any]], None]
Progress = Callable[[int], None]

#: Of these a rank is put together within so much: 10 GB of either were (docs/scale.md).
_LITTLE = {"kineto": "60MB", "torch_npu_text": "90MB"}
#: DuckDB may use a tenth of the bytes of a large rank at once, where that is more than so many MB. Of those above it is
#: three hundredths, where so little is not enough.
_LARGE = 200
#: How many times its size a packed trace is taken for. Simulated ones are 12 times, no real one of 86 is 35 times.
_PACKED, _GZIP = 15, b"\x1f\x8b"
#: Bytes of a small rank: what is made of it fits into memory. A child reads so many of them one after the other.
_SMALL, _TOGETHER = 4_000_000, 32
#: Whether readers may write tables while they read.
_STRAIGHT = not os.environ.get("NPULENS_PLAIN")
#: Formats whose ranks share a DuckDB: their readers make nothing in it but by the draft.
_SHARING = {"torch_npu_db", "torch_npu_text", "kineto"}


@dataclass(frozen=True)
class Parsed:
    """A rank whose tables lie in staging."""

    source: RankSource
    part: Part
    begun: float  # when its reading began, by the monotonic clock


def worked(ranks: Iterable[Parsed]) -> float:
    """Seconds in which one of them at least was read."""
    total, until = 0.0, float("-inf")
    for begun, seconds in sorted((rank.begun, rank.part.seconds) for rank in ranks):
        total += max(0.0, begun + seconds - max(begun, until))
        until = max(until, begun + seconds)
    return total


def parse(
    sources: tuple[RankSource, ...], scratch: Path, watch: UsageWatch, say: Say
) -> tuple[list[Parsed], list[tuple[RankSource, IngestError]]]:
    """What can be read of every rank, and why the others cannot."""
    total = sum(source.size for source in sources)
    at_once = max(1, min(os.cpu_count() or 1, len(sources)))
    desks = Desks(scratch, packed=len(sources) > 1)
    tasks = [
        (task(source, scratch / f"part{i}", desks), sandbox.Limits.for_input(source.size))
        for i, source in enumerate(sources)
    ]
    parsed: dict[int, Parsed] = {}
    failed: list[tuple[RankSource, IngestError]] = []
    done = rows = 0
    for message in sandbox.run(tasks, at_once, watch.look, batches(sources, at_once)):
        source = sources[message.task]
        if message.error is not None:
            error = message.error
            path = error.path or str(source.root)
            failed.append((source, IngestError(error.kind, error.message, path, error.offset)))
        elif message.result is not None:
            part = Part(**message.result)
            rows += sum(part.rows.values())
            parsed[message.task] = Parsed(source, part, time.monotonic() - part.seconds)
        else:
            done += message.progress
        read = {"done_bytes": min(done, total), "total_bytes": total, "rows": rows}
        say({"stage": "read", **read, "text": source.root.name})
    return [parsed[i] for i in sorted(parsed)], failed


def batches(sources: Sequence[RankSource], at_once: int) -> list[list[int]]:
    """Which ranks a child may read one after the other: small ones, of the same formats."""
    small: dict[tuple[str, ...], list[int]] = {}
    found = []
    for number, source in enumerate(sources):
        if _unpacked(source) <= _SMALL:
            small.setdefault(tuple(claim.format for claim in source.claims), []).append(number)
        else:
            found.append([number])
    for numbers in small.values():
        many = min(_TOGETHER, -(-len(numbers) // at_once))
        found += [numbers[at : at + many] for at in range(0, len(numbers), many)]
    return found


class Desks:
    """What the ranks that a child reads one after the other share: for each format an open DuckDB.

    ``packed``: their tables will be put to those of other ranks.
    """

    def __init__(self, scratch: Path, *, packed: bool = False) -> None:
        self._scratch, self._desks, self.packed = scratch, dict[tuple[str, str], Desk](), packed

    def of(self, form: str, memory: str) -> Desk:
        """The one of a format."""
        if (form, memory) not in self._desks:
            home = self._scratch / f"desk{os.getpid()}" / f"{form}_{memory}"
            self._desks[form, memory] = Desk(home, memory_limit=memory, quick=True, files=False)
        return self._desks[form, memory]


def task(source: RankSource, scratch: Path, desks: Desks) -> sandbox.Task:
    """What a child does of one rank."""

    def read(progress: Progress) -> dict[str, Any]:
        begun = time.monotonic()
        part = put_together(source, scratch, progress, desks)
        return part.as_dict() | {"seconds": time.monotonic() - begun}

    return read


def put_together(source: RankSource, scratch: Path, progress: Progress, desks: Desks | None = None) -> Part:
    """The tables of a rank, within as little memory as it takes."""
    unpacked = _unpacked(source)
    *less, most = _memory(source, unpacked)
    desks = desks or Desks(scratch)
    if unpacked <= _SMALL:
        return _made(source, scratch / most, most, progress, desks, small=True)
    tries = (_tried(source, scratch / memory, memory, progress, desks) for memory in less)
    return next(filter(None, tries), None) or _made(source, scratch / most, most, progress, desks)


def _tried(source: RankSource, scratch: Path, memory: str, progress: Progress, desks: Desks) -> Part | None:
    """None if it takes more memory: not every operator of DuckDB can spill all it holds."""
    try:
        return _made(source, scratch, memory, progress, desks)
    except (IngestError, duckdb.Error) as error:
        if not _short_of_memory(error):
            raise
    shutil.rmtree(scratch, ignore_errors=True)
    return None


def _made(
    source: RankSource, scratch: Path, memory: str, progress: Progress, desks: Desks, *, small: bool = False
) -> Part:
    """The tables of a rank, of those of its formats that can be read."""
    drafts: list[Draft] = []
    failures: list[IngestError] = []
    with ExitStack() as opened:
        for claim in source.claims:
            draft = Draft(
                scratch / claim.format, source.facts.rank or 0, memory_limit=memory, progress=progress,
                desk=desks.of(claim.format, memory) if small and claim.format in _SHARING else None, small=small,
                alone=len(source.claims) == 1,
            )  # fmt: skip
            draft.straight = _STRAIGHT and len(source.claims) == 1 and not small
            opened.callback(draft.close)
            try:
                readers()[claim.format].read(claim, draft)
                drafts.append(draft)
            except IngestError as error:
                if _short_of_memory(error) or no_room(error):  # says nothing about the format
                    raise
                failures.append(error)
        if not drafts:
            raise failures[0]
        draft = fill(drafts)
        for failure in failures:
            draft.partial(None, Message("one_its_formats_could_not", {"reason": failure.said()}))
        for lost in source.damage:
            draft.partial(None, lost)
        return finish(draft, scratch / "tables", packed=desks.packed)


def _memory(source: RankSource, unpacked: int) -> list[str]:
    """What DuckDB may use for a rank: at first, where that was too little, and at most."""
    tenth = unpacked // 10**7
    first = [_LITTLE[claim.format] for claim in source.claims if claim.format in _LITTLE]
    thrifty = len(first) == len(source.claims) == 1
    share = 3 * tenth // 10 if thrifty else tenth
    usual = f"{share}MB" if share > _LARGE else MEMORY_LIMIT
    return [*first[:thrifty], usual, AMPLE_MEMORY if tenth < 500 else f"{2 * tenth}MB"]


def _unpacked(source: RankSource) -> int:
    """Bytes of a rank, of packed files those that they may come to."""
    packed = {file: _PACKED if peek.head(file).startswith(_GZIP) else 1 for file in source.files}
    return sum(file.stat().st_size * times for file, times in packed.items())


def _short_of_memory(error: BaseException | None) -> bool:
    """Whether DuckDB's limit is behind an error."""
    return error is not None and (isinstance(error, duckdb.OutOfMemoryException) or _short_of_memory(error.__cause__))
