"""What one check says of an archive. Sentences in two languages are made of it by whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

BELIEVED, NOT_BELIEVED, NOT_THERE = "believed", "not_believed", "not_there"


@dataclass(frozen=True)
class Verdict:
    """One line of the answer. ``said`` names its sentence, ``seen`` fills it."""

    check: str
    about: str  # the recording or part that was looked at; "" for the archive as a whole
    outcome: str
    said: str
    seen: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The keys that `npulens evidence verify --json` promises."""
        return asdict(self)


def judged(check: str, about: str, wrong: bool, said: str, seen: Mapping[str, Any]) -> Verdict:
    """Believed, or not believed with the same figures."""
    return Verdict(check, about, NOT_BELIEVED if wrong else BELIEVED, said if not wrong else f"{said}_not", seen)


def absent(check: str, about: str, said: str, seen: Mapping[str, Any] | None = None) -> Verdict:
    """There is nothing to look at, and why."""
    return Verdict(check, about, NOT_THERE, said, seen or {})
