"""The engine of one machine: children of this process, as many side by side as there are processors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from npulens.ingest.engines.engine import Outcome
from npulens.ingest.loading.capture import RankSource
from npulens.ingest.loading.parsing import Say, parse
from npulens.ingest.loading.quota import UsageWatch
from npulens.ingest.tables.assemble import write_tables


class Local:
    """This machine."""

    def parse(self, sources: tuple[RankSource, ...], scratch: Path, watch: UsageWatch, say: Say) -> Outcome:
        """Read every rank in children."""
        return parse(sources, scratch, watch, say)

    def write(self, tables: Sequence[str], parts: Sequence[tuple[Path, int]], staged: Path) -> None:
        """Write two tables at a time."""
        write_tables(tables, parts, staged)
