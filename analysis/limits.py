"""A detector's limits: what counts as bad, in which unit, and who says so.

Every field of a detector's frozen `Limits` is made by `limit`, so that no number stands without
its unit and source. npulens.toml overrides them: ``[limits.sync_stall] min_share = 0.005``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

T = TypeVar("T", bound="Limits")
#: "Clean" needs evidence for this share of the time it speaks of.
COVERED = 0.8


def limit(default: float, unit: str, source: str) -> Any:
    """A limit with its unit and where the number comes from."""
    return field(default=default, metadata={"unit": unit, "source": source})


@dataclass(frozen=True)
class Limits:
    """What every detector has."""

    min_share: float = limit(0.01, "share of the step", "below 1 % of the step a fix is not worth reading about")


@dataclass(frozen=True)
class ServingLimits(Limits):
    """What every detector of serving has."""

    min_share: float = limit(0.05, "share of the measure", "a replay of requests is not surer than this")


def overridden(limits: T, values: Mapping[str, Any], where: str) -> T:
    """The limits with some replaced; an unknown name or a value that is no number is an error that says where."""
    known = {f.name for f in fields(limits)}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{where}: there is no limit {name!r}; there are {', '.join(sorted(known))}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{where}: {name} must be a number, not {value!r}")
    return replace(limits, **values)
