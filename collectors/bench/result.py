"""What a benchmark leaves: manifest.json with every figure, samples.json with every sample.

Both are written again after each part. So an interrupt, a full memory or a lost machine leaves what was measured until
then. A figure names the series it was made from, and whoever reads the result can make it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npulens.collectors import manifest
from npulens.collectors.backends.probe import Choice
from npulens.collectors.harness.latency import Series

WHAT = "bench"
SAMPLES = "samples.json"
#: Why a benchmark is not whole; ingest/words/formats.py has the same under benchmark_<name>, in Chinese too.
REASONS = {
    "interrupted": "interrupted during {what}, after {n} s",
    "cut_short": "it was cut short during {what}",
    "failed": "{what} failed: {error}",
    "runs_nothing": "no variant runs here",
}


@dataclass(frozen=True)
class Reason:
    """Why a benchmark is not whole: the name of a text and its values."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return REASONS[self.name].format_map(self.values)

    def as_data(self) -> dict[str, Any]:
        """The same as ingest/messages.py reads it."""
        return {"said": f"benchmark_{self.name}", "values": dict(self.values)}


class Result:
    """Collects the figures and samples of a benchmark and writes them to its directory."""

    def __init__(self, directory: Path, command: list[str], choice: Choice, about: Mapping[str, Any]) -> None:
        self.directory, self._command, self._choice, self._about = directory, command, choice, dict(about)
        self.figures: list[dict[str, Any]] = []
        self._series: dict[str, dict[str, Any]] = {}
        directory.mkdir(parents=True, exist_ok=True)

    def add(self, part: str, figure: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a figure of a part."""
        self.figures.append({"part": part, **figure})
        return self.figures[-1]

    def keep(self, name: str, series: Series) -> str:
        """Samples under a name that figures call them by."""
        self._series[name] = {"clock": series.clock, "ns": series.ns, "at_ns": series.at_ns}
        return name

    def keep_blocks(self, name: str, clock: str, blocks: Sequence[Sequence[int]]) -> str:
        """The blocks of one side of pairs, one after the other, and how many calls each has."""
        ns = [each for block in blocks for each in block]
        self._series[name] = {"clock": clock, "ns": ns, "at_ns": None, "blocks": [len(block) for block in blocks]}
        return name

    def save(self, status: str, reason: Reason | None, telemetry: Sequence[Mapping[str, Any]] = ()) -> None:
        """Writes both files, with what was measured so far."""
        half = self.directory / f".{SAMPLES}.half"
        half.write_text(json.dumps(self._series, separators=(",", ":")), encoding="utf-8")
        half.replace(self.directory / SAMPLES)
        told = {
            "status": status, "reason": None if reason is None else str(reason),
            "said": None if reason is None else reason.as_data(), **self._about, "samples": SAMPLES,
            "telemetry": list(telemetry), "figures": self.figures,
        }  # fmt: skip
        manifest.write(self.directory, WHAT, self._command, self._choice, told)
