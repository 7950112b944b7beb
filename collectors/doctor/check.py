"""What one check found. Sentences in two languages are made of it by whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PASS, WARN, FAIL, SKIP = "PASS", "WARN", "FAIL", "SKIP"


@dataclass(frozen=True)
class Check:
    """``said`` names the outcome among those of the check, ``seen`` fills its sentence, ``do`` are exact commands."""

    name: str
    status: str
    said: str
    seen: Mapping[str, Any] = field(default_factory=dict)
    do: tuple[str, ...] = ()
