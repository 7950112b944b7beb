"""Several ranks in one file as TraceFuse merges them: processes are renumbered, and ``args.rank`` tells whose they are.

Its processes are called "RANK 3 - GPU". Correlations and flows are renumbered with them, External ids are not. The
header is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from npulens.ingest.events import Batch, Column, scan

#: What the first or last bytes of such a file hold: the number that a process had, or what a process is called.
_SIGN = re.compile(rb'"pid_raw"\s*:|"RANK \d{1,6} - ')
_CALLED = re.compile(r"^RANK (\d{1,6}) - ")
_COLUMNS = (Column("name", "s"), Column("rank", "i"))
#: No job has a rank beyond it.
_LAST = 999_999


def is_fused(head: bytes, tail: bytes) -> bool:
    """Whether the file may be one; :func:`processes` knows."""
    return any(_SIGN.search(piece) is not None for piece in (head, tail))


def processes(path: Path) -> Mapping[str, int]:
    """The rank of each process; none if the file leaves open whose a process with spans is. One pass over the file."""
    met = _Met()
    for batch in scan(path, _COLUMNS):
        met.add(batch)
    told = {process: next(iter(ranks)) for process, ranks in met.ranks.items() if len(ranks) == 1}
    sane = {process: rank for process, rank in told.items() if 0 <= rank <= _LAST}
    return sane if met.working <= sane.keys() else {}


@dataclass
class _Met:
    """What was told of processes so far."""

    ranks: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    working: set[str] = field(default_factory=set)
    _texts: list[str] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        self._texts += batch.new_strings[1].to_pylist()
        complete = batch.ph == ord("X")
        self.working.update(self._text(code) for code in np.unique(batch.pid[complete]).tolist())
        rows, ranks = batch.args["rank"]
        pairs = np.unique(np.stack([batch.pid[rows].astype(np.int64), ranks.astype(np.int64)]), axis=1)
        for code, rank in pairs.T.tolist():
            self.ranks[self._text(code)].add(int(rank))
        rows, names = batch.args["name"]
        for row, code in zip(rows.tolist(), names.tolist(), strict=True):
            if batch.ph[row] == ord("M") and (called := _CALLED.match(self._text(int(code)))):
                self.ranks[self._text(int(batch.pid[row]))].add(int(called[1]))

    def _text(self, code: int) -> str:
        return self._texts[code] if code >= 0 else ""
