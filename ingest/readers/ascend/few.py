"""What the tasks of a small rank say, made of arrays: for its database and for its text export."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from npulens.ingest.readers.ascend import helpers
from npulens.ingest.tables.arrays import NONE, Texts, Unusual, at, matches, most_frequent
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.steps import Ints


@dataclass(frozen=True)
class Running:
    """Operators of communication while they run: row, begin, end and group of each."""

    ts: Ints
    till: Ints
    group: Ints
    rows: Ints  # those that have a begin, and an end that is not before it


def latest(keys: Ints, ts: Ints, known_keys: Ints, known_ts: Ints) -> Ints:
    """For each the last row of others with its key that begins by then, or -1.

    Where two of those begin together it is not told which is the last.
    """
    order = np.lexsort((known_ts, known_keys))
    twice = (np.diff(known_keys[order]) == 0) & (np.diff(known_ts[order]) == 0)
    if (twice & (known_keys[order][1:] != NONE)).any():
        raise Unusual
    begins: dict[int, tuple[list[int], list[int]]] = {}
    for key, begin, row in zip(known_keys[order].tolist(), known_ts[order].tolist(), order.tolist(), strict=True):
        stamps, rows = begins.setdefault(key, ([], []))
        stamps.append(begin)
        rows.append(row)
    nothing: tuple[list[int], list[int]] = ([], [])
    begins.pop(NONE, None)
    found = []
    for key, stamp in zip(keys.tolist(), ts.tolist(), strict=True):
        stamps, rows = begins.get(key, nothing)
        place = bisect_right(stamps, stamp)
        found.append(rows[place - 1] if place else -1)
    return np.array(found, np.int64)


@dataclass(frozen=True)
class Quiet:
    """Tasks of all streams, to find those of the streams that help communication (helpers.py)."""

    stream: Ints
    ts: Ints
    end: Ints
    says: Texts
    own: Bools

    def helping(self, lasting: Bools, operators: Running) -> tuple[Bools, Ints]:
        """Which tasks help, and the operator that each lies in."""
        helps, operator = np.zeros(len(self.ts), bool), np.full(len(self.ts), -1, np.int64)
        rows, known = self._rows(lasting & (self.stream != NONE)), operators.rows
        if not len(rows) or not len(known):
            return helps, operator
        one = np.zeros(len(known), np.int64)
        begun = latest(np.zeros(len(rows), np.int64), self.ts[rows], one, operators.ts[known])
        begun = at(known, begun, -1)
        inside = (begun >= 0) & (self.ts[rows] <= at(operators.till, begun))
        for stream in np.unique(self.stream[rows]).tolist():
            here = self.stream[rows] == stream
            mine, groups = rows[here], operators.group[begun[here & inside]]
            if not len(groups):
                continue
            of_group = known[operators.group[known] == most_frequent(groups)]
            last = latest(
                np.zeros(len(mine), np.int64), self.ts[mine], np.zeros(len(of_group), np.int64), operators.ts[of_group]
            )
            last = at(of_group, last, -1)
            till = at(operators.till, last)
            within = (last >= 0) & (self.ts[mine] <= till)
            if within.mean() >= helpers.HELPS:
                helps[mine] = True
                operator[mine] = np.where((last >= 0) & (self.end[mine] <= till), last, -1)
        return helps, operator

    def _rows(self, rows: Bools) -> Ints:
        """Tasks of streams whose every task is nobody's, and that hold what only communication has, or nothing else."""
        streams, of = np.unique(self.stream[rows], return_inverse=True)
        only = self.says.where(matches(helpers.ONLY_COMM, any_case=True))
        named = ~self.says.where(matches(helpers.NAMELESS, any_case=True))
        has_own, has_only, has_named = (
            np.bincount(of[which[rows]], minlength=len(streams)) > 0 for which in (self.own, only, named)
        )
        return np.flatnonzero(rows)[(~has_own & (has_only | ~has_named))[of]]
