"""One scale for runs of different devices: families of operators, each by its share of its own device's roof.

Rates do not compare across devices, and times do not across jobs. The share of the own roof does: the least time that
the work of a family needs over the time that it took. Only operators with known work and a known roof count in it. How
much of the family's time that is stands beside the share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from npulens.analysis.work.roofline import Roofline, Row


@dataclass(frozen=True)
class Family:
    """Operators of one family in one run; None: not known of any of them."""

    family: str
    ns: int
    time_share: float  # of the device's time
    share: float | None  # of the roof, by time
    least: bool  # whether a roof that can bind is not known of some of them, so that the share is at least this
    known: float  # part of the family's time that the share is of
    above: float  # part of its time that was faster than its roof, and counts in no share


@dataclass(frozen=True)
class Scale:
    """One run on the scale."""

    run_id: str
    label: str | None
    devices: tuple[str, ...]
    measured: bool  # whether a roof that was measured on the machine counts
    kernel_ns: int  # of a step and rank
    share: float | None  # of all operators, as of a family
    known: float
    hfu: float | None
    mfu: float | None
    families: tuple[Family, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def scale(run_id: str, label: str | None, found: Roofline) -> Scale:
    """A run on the scale, the families with most time first."""
    by_family: dict[str, list[Row]] = {}
    for row in found.rows:
        by_family.setdefault(row.family, []).append(row)
    families = [_family(name, rows, found.kernel_ns) for name, rows in by_family.items()]
    whole = _family("", found.rows, found.kernel_ns)
    return Scale(
        run_id, label, tuple(sorted({one.device for one in found.roofs} | {row.device for row in found.rows
                                                                           if row.device is not None})),
        any(one.own for one in found.roofs), found.kernel_ns // max(1, found.steps * found.ranks),
        whole.share, whole.known, found.hfu, None if found.window is None else found.window.mfu,
        tuple(sorted(families, key=lambda one: -one.ns)),
    )  # fmt: skip


def order(scales: Iterable[Scale]) -> tuple[str, ...]:
    """Every family of the runs, by the largest part of the time that it takes in one of them."""
    most: dict[str, float] = {}
    for one in scales:
        for each in one.families:
            most[each.family] = max(most.get(each.family, 0.0), each.time_share)
    return tuple(sorted(most, key=lambda name: (-most[name], name)))


def _family(name: str, rows: Sequence[Row], kernel_ns: int) -> Family:
    told = [row for row in rows if row.share is not None and row.roof_ns is not None]
    ns, known_ns = sum(row.ns for row in rows), sum(row.ns for row in told)
    least_ns = sum(row.calls * (row.roof_ns or 0.0) for row in told)
    return Family(
        name, ns, ns / kernel_ns if kernel_ns else 0.0, least_ns / known_ns if known_ns else None,
        any(not row.complete for row in told), known_ns / ns if ns else 0.0,
        sum(row.ns for row in rows if row.above is not None) / ns if ns else 0.0,
    )  # fmt: skip
