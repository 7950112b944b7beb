"""The JSON files of a cluster analysis: communication per operator and rank, bandwidth per pair, groups.

They nest group, step, operator and rank, but not in every version in this order. So what lies on the way to an entry is
told by how it looks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from pathlib import Path

import msgspec

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers.cluster.columns import whole

#: The files are read as a whole.
_LARGEST = 256 << 20
_DEEPEST = 8
_TIMES, _PAIR = "Communication Time Info", re.compile(r"^(\d{1,7})-(\d{1,7})$")
_SCOPES = ("p2p", "collective")
_Test = Callable[[str, dict[str, object]], bool]


@dataclass(frozen=True)
class Place:
    """What lies on the way to an entry."""

    group: str | None
    step: str | None
    scope: str | None
    name: str


@dataclass(frozen=True)
class Operator:
    """One communication operator of one rank."""

    place: Place
    rank: int | None
    told: dict[str, object]


@dataclass(frozen=True)
class Pair:
    """The bandwidth between two ranks."""

    place: Place
    src: int
    dst: int
    told: dict[str, object]


@dataclass(frozen=True)
class Group:
    """Ranks that communicate with each other."""

    name: str
    kind: str | None
    ranks: tuple[int, ...]
    scope: str


def operators(path: Path) -> Iterator[Operator]:
    """Every operator of cluster_communication.json. Raises IngestError."""
    for way, told in _walk(read(path), lambda key, value: _TIMES in value):
        yield Operator(_place(way[:-1]), whole(way[-1]), told)


def pairs(path: Path) -> Iterator[Pair]:
    """Every pair of ranks of cluster_communication_matrix.json. Raises IngestError."""
    for way, told in _walk(read(path), lambda key, value: _PAIR.match(key) is not None):
        src, _, dst = way[-1].partition("-")
        yield Pair(_place(way[:-1]), int(src), int(dst), told)


def groups(path: Path) -> Iterator[Group]:
    """Every group of communication_group.json. Raises IngestError."""
    told = read(path)
    for scope, listed in told.items() if isinstance(told, dict) else ():
        for entry in listed if isinstance(listed, list) else ():
            named = entry if isinstance(entry, dict) else {"ranks": entry}
            ranks = next((_ranks(named[key]) for key in ("ranks", "rank_set", "global_ranks") if key in named), ())
            if ranks:
                name = named.get("group_name") or f"({', '.join(map(str, ranks))})"
                kind = named.get("pg_name")
                yield Group(str(name), str(kind) if kind else None, ranks, str(scope))


def read(path: Path) -> object:
    """A JSON file, its decimals exact. Raises IngestError."""
    try:
        if path.stat().st_size > _LARGEST:
            raise IngestError(
                "too_large", Message("is_larger_than_mb", {"file": path.name, "n": _LARGEST >> 20}), str(path)
            )
        return msgspec.json.Decoder(float_hook=Decimal).decode(path.read_bytes())
    except (msgspec.MsgspecError, RecursionError, InvalidOperation, OSError) as error:
        raise IngestError(
            "damaged", Message("file_cannot_be_read", {"file": path.name, "error": error}), str(path)
        ) from error


def scaled(value: object, factor: int) -> int | None:
    """A decimal number in units of 1/factor, rounded half to even; None for anything else."""
    try:
        number = Decimal(value) if isinstance(value, int | str | Decimal) and not isinstance(value, bool) else None
    except InvalidOperation:
        return None
    if number is None or not number.is_finite() or abs(number * factor) > 2**62:
        return None
    return int((number * factor).to_integral_value(ROUND_HALF_EVEN))


def _walk(told: object, is_leaf: _Test) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """The way to every entry that passes, and the entry."""
    pending: list[tuple[tuple[str, ...], object]] = [((), told)]
    while pending:
        way, value = pending.pop()
        if not isinstance(value, dict) or len(way) > _DEEPEST:
            continue
        for key, below in reversed(value.items()):
            if isinstance(below, dict) and is_leaf(key, below):
                yield (*way, key), below
            else:
                pending.append(((*way, key), below))


def _place(way: tuple[str, ...]) -> Place:
    """The name stands last; a step, a scope and a group look like themselves."""
    *above, name = way or ("",)
    step = next((key for key in above if key.startswith("step")), None)
    scope = next((key for key in above if key in _SCOPES), None)
    group = next((key for key in above if key not in (step, scope)), None)
    return Place(group or (name.rpartition("@")[2] if "@" in name else None), step, scope, name)


def _ranks(listed: object) -> tuple[int, ...]:
    """Ranks written as a list or as the text of one."""
    cells = re.findall(r"\d+", listed) if isinstance(listed, str) else listed if isinstance(listed, list) else []
    found = [whole(str(cell)) for cell in cells if not isinstance(cell, bool)]
    return tuple(rank for rank in found if rank is not None) if None not in found else ()
