"""What an engine does of a load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from npulens.ingest.errors import IngestError
from npulens.ingest.loading.capture import RankSource
from npulens.ingest.loading.parsing import Parsed, Say
from npulens.ingest.loading.quota import UsageWatch

#: Ranks that were read, and those that could not be, with the reason.
Outcome = tuple[list[Parsed], list[tuple[RankSource, IngestError]]]


class Engine(Protocol):
    """Reads ranks and writes tables. What it cannot do for want of a machine ends the load; a rank's own fault not."""

    def parse(self, sources: tuple[RankSource, ...], scratch: Path, watch: UsageWatch, say: Say) -> Outcome:
        """Read every rank within limits; each part lies below ``scratch``."""

    def write(self, tables: Sequence[str], parts: Sequence[tuple[Path, int]], staged: Path) -> None:
        """Write tables of a run: of every part (its directory, by how much its origin comes after the run's)."""
