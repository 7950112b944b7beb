"""What a family of hostile files offers: kinds, and for each file what is known about its right outcome."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Changing it makes other files of the same kinds.
SEED = 20261122
#: `make test` loads one file in so many.
SPARSE = 60


@dataclass(frozen=True)
class Planted:
    """A file or directory to load, and what an independent count says must come of it."""

    path: Path
    #: Table -> rows it must end with.
    rows: Mapping[str, int] = field(default_factory=dict)
    #: Table -> rows it must say it dropped.
    dropped: Mapping[str, int] = field(default_factory=dict)
    #: Table -> rows kept and dropped together.
    met: Mapping[str, int] = field(default_factory=dict)
    #: The same where a cell is dropped without its row: what is missing is dropped, and nothing is there twice.
    least: Mapping[str, int] = field(default_factory=dict)
    #: complete, partial or refused; several are possible.
    status: tuple[str, ...] = ()
    #: Kinds of the refusals, one of which must be there.
    refused_as: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """So many files of one kind; ``make`` writes the number-th into an empty directory."""

    name: str
    count: int
    make: Callable[[Path, random.Random, int], Planted]

    def dice(self, number: int) -> random.Random:
        return random.Random(f"{SEED}/{self.name}/{number}")

    def numbers(self, sparse: bool) -> range:
        """All of them, or one in so many, beginning where the kind's name says."""
        first = zlib.crc32(self.name.encode()) % min(SPARSE, self.count)
        return range(first, self.count, SPARSE) if sparse else range(self.count)


def damaged(data: bytes, dice: random.Random) -> bytes:
    """A valid file with a few things wrong: flipped bits, holes, a block twice, a block of noise."""
    raw = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8, 64))):
        at, length = dice.randrange(len(raw)), dice.choice((1, 4, 64, 512))
        match dice.randrange(5):
            case 0 | 1:
                raw[at] ^= 1 << dice.randrange(8)
            case 2:
                raw[at : at + length] = bytes(len(raw[at : at + length]))
            case 3:
                raw[at : at + length] = dice.randbytes(len(raw[at : at + length]))
            case _:
                other = dice.randrange(len(raw))
                raw[at : at + length] = raw[other : other + length]
    return bytes(raw)
