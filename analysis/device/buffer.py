"""Whether a chain of operators fits into the unified buffer of a vector core. If not, into how many parts it is cut.

Sizes are those of the chips' own platform files. No figure here was verified on a chip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npulens.analysis.device.abilities import models

#: Tensors begin at a multiple of so many bytes (ubblock_size of the platform files).
BLOCK = 32
FITS, SPLIT, CANNOT = "fits", "split", "cannot"


@dataclass(frozen=True)
class Chip:
    """A chip with a unified buffer of known size."""

    name: str
    buffer_bytes: int
    source: str


@dataclass(frozen=True)
class Fit:
    """What is said of one chain on one chip."""

    said: str  # fits, split, cannot
    parts: int  # of a row
    rows: int  # of a tile; 0 where not even one row is whole
    tile_bytes: int  # in the buffer at once


def chips() -> list[Chip]:
    """Every chip whose unified buffer a source tells."""
    return [
        Chip(model.model, int(model.facts["unified_buffer_bytes"]), model.source)
        for model in models()
        if "unified_buffer_bytes" in model.facts
    ]


def chip(name: str) -> Chip | None:
    """The chip of that name."""
    return next((one for one in chips() if name in (one.name, one.name.removeprefix("Ascend"))), None)


def fit(chain: Mapping[str, Any], buffer_bytes: int) -> Fit:
    """A chain as the laboratory tells it. A chain without an operator by row can be cut anywhere."""
    width, live, fixed = int(chain["width"]), chain["live"], chain["fixed"]
    for parts in _parts(width):
        within = -(-width // parts)
        row, once = _row(within, live), sum(_aligned(-(-each // parts)) for each in fixed)
        rows = (buffer_bytes - once) // row
        if rows >= 1:
            rows = min(rows, int(chain["rows"]))
            cut = parts > 1 and chain["by_row"]
            return Fit(SPLIT if cut else FITS, parts, rows if parts == 1 else 0, once + row * rows)
    return Fit(CANNOT, 0, 0, _row(1, live))


def _parts(width: int) -> Sequence[int]:
    """Into how many parts a row may be cut: no part is smaller than one element."""
    return range(1, width + 1)


def _row(width: int, live: Sequence[int]) -> int:
    return sum(_aligned(width * size) for size in live)


def _aligned(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
