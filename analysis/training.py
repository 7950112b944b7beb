"""How a training went, step by step, and from which step on two trainings part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb

COUNTER = "training"
#: Every step has a value of this one; the others may lack some.
_EVERY = "not finite"
#: Two values within this share of the larger are the same: orders of summation differ by far less.
SHARE = 0.01
_QUERY = f"SELECT series, ts_ns, value FROM sample WHERE counter = '{COUNTER}' ORDER BY rank, ts_ns"

Series = Mapping[str, Sequence[float | None]]


@dataclass(frozen=True)
class Parted:
    """One series of two trainings: the first step, counted from 1, where they differ; None: nowhere."""

    series: str
    step: int | None
    base: float | None
    head: float | None
    steps: int  # that both have


def series(con: duckdb.DuckDBPyConnection) -> Series:
    """The values of every series by step, of the rank that was loaded first; None where a step has no value."""
    found: dict[str, dict[int, float]] = {}
    for name, moment, value in con.execute(_QUERY).fetchall():
        found.setdefault(name, {}).setdefault(moment, value)
    moments = sorted(found.get(_EVERY, {}))
    return {name: [values.get(moment) for moment in moments] for name, values in found.items()}


def parted(base: Series, head: Series, share: float = SHARE) -> Iterator[Parted]:
    """Series by series, of those that both have."""
    for name in sorted(base.keys() & head.keys()):
        pairs = list(zip(base[name], head[name], strict=False))
        step = next((at for at, (one, two) in enumerate(pairs) if _differ(one, two, share)), None)
        one, two = (None, None) if step is None else pairs[step]
        yield Parted(name, None if step is None else step + 1, one, two, len(pairs))


def _differ(one: float | None, two: float | None, share: float) -> bool:
    if one is None or two is None:
        return one is not two
    return abs(one - two) > share * max(abs(one), abs(two))
