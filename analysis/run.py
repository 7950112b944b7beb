"""One run, as detectors see it: ranks, steps, and every derived fact computed once.

A derived fact is a function of the run (`idle_causes`, `clock`, `graph`...). `run.get(function)` computes it on first
use and keeps it, so that twenty detectors do not repeat any work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import duckdb
import numpy as np

from npulens.analysis.intervals import bare
from npulens.analysis.serving.slo import USUAL, Slo
from npulens.analysis.split import Activity, activities

T = TypeVar("T")

#: Ranks with so many events together are asked for at once: a statement for each takes longer than small ranks do.
AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Step:
    """A recorded step of one rank."""

    rank: int
    step: int
    ts_ns: int
    dur_ns: int
    phase: str | None = None  # of a serving engine: prefill, decode or mixed

    @property
    def end_ns(self) -> int:
        return self.ts_ns + self.dur_ns


class Run:
    """A DuckDB connection that has the run's tables and views, and what follows from them."""

    def __init__(self, con: duckdb.DuckDBPyConnection, slo: Slo = USUAL) -> None:
        self.con = con
        self.slo = slo  # what requests may take
        self._known: dict[Any, Any] = {}
        run_id, world, missing = con.execute("SELECT run_id, world_size, missing_ranks FROM run").fetchall()[0]
        self.run_id: str = run_id
        self.world_size: int | None = world
        self.missing_ranks: tuple[int, ...] | None = None if missing is None else tuple(missing)
        sizes = dict(con.execute("SELECT rank, coalesce(events, 0) FROM rank ORDER BY rank").fetchall())
        self.ranks: tuple[int, ...] = tuple(sizes)
        #: Of the job there are so many ranks, or more where its size was not recorded.
        self.least_world: int = world or len(self.ranks) + len(missing or ())
        self._beside = _blocks(sizes)
        self.blocks = tuple(
            tuple(rank for rank in self.ranks if self._beside[rank] == block)
            for block in dict.fromkeys(self._beside.values())
        )
        self._windows: dict[int, tuple[int, int] | None] = {}
        self._asked: dict[tuple[str, ...], tuple[int, dict[str, Any]]] = {}
        rows = con.execute("SELECT rank, step, ts_ns, dur_ns, phase FROM step ORDER BY rank, ts_ns").fetchall()
        steps: dict[int, list[Step]] = {rank: [] for rank in self.ranks}
        for row in rows:
            steps.get(row[0], []).append(Step(*row))
        self.steps: dict[int, tuple[Step, ...]] = {rank: tuple(found) for rank, found in steps.items()}

    @staticmethod
    def of(con: duckdb.DuckDBPyConnection, slo: Slo = USUAL) -> Run:
        """The run of a connection: the one that is held, with all that was derived of it, or a new one."""
        return _held.get((id(con), slo)) or Run(con, slo)

    def hold(self) -> Run:
        """From now on it is what `of` finds, as long as it lives: nobody changes the tables of its connection."""
        _held[id(self.con), self.slo] = self  # it holds its connection, so no other has that id meanwhile
        return self

    def get(self, fact: Callable[[Run], T]) -> T:
        """A derived fact, computed once."""
        if fact not in self._known:
            self._known[fact] = fact(self)
        found: T = self._known[fact]
        return found

    def assuming(self, fact: Callable[[Run], T], value: T) -> Run:
        """The same run, of which nothing is derived yet, with one fact as it is given."""
        other = Run(self.con, self.slo)
        other._known[fact] = value
        return other

    def activity(self, rank: int) -> Activity:
        """What the rank's device did, as sets of time."""
        key = ("activity", rank)
        if key not in self._known:
            first, last = self._beside[rank]
            for one, found_of in activities(self.con, first, last).items():
                self._known["activity", one] = found_of
        found: Activity = self._known[key]
        return found

    def columns(self, sql: str, parameters: Iterable[Any] = ()) -> dict[str, Any]:
        """A query's columns as numpy arrays; NULL becomes 0 or None, so ask for what is never NULL, or coalesce."""
        found = self.con.execute(sql, list(parameters)).fetchnumpy()
        return {name: bare(values) for name, values in found.items()}

    def of_rank(self, sql: str, rank: int, *more: str) -> dict[str, Any]:
        """One rank's rows of a query with a column `rank`.

        Its first two parameters are the first and the last rank wanted. Neighbours are asked for together, and held
        until the last of them was asked for.
        """
        (first, last), asked = self._beside[rank], (sql, *more)
        if asked not in self._asked or self._asked[asked][0] != first:
            columns = self.columns(sql, [first, last, *more])
            order = np.argsort(columns["rank"], kind="stable")
            if (np.diff(columns["rank"]) < 0).any():
                columns = {name: values[order] for name, values in columns.items()}
            self._asked[asked] = first, columns
        columns = self._asked[asked][1] if rank != last else self._asked.pop(asked)[1]
        begin, end = np.searchsorted(columns["rank"], [rank, rank + 1])
        return {name: values[begin:end] for name, values in columns.items() if name != "rank"}

    def window(self, rank: int) -> tuple[int, int] | None:
        """From the rank's first step to the end of its last; without steps, first to last edge of its device work."""
        if rank not in self._windows:
            self._windows[rank] = self._window(rank)
        return self._windows[rank]

    def _window(self, rank: int) -> tuple[int, int] | None:
        if self.steps[rank]:
            return self.steps[rank][0].ts_ns, self.steps[rank][-1].end_ns
        work = self.activity(rank).work()
        return (int(work.starts[0]), int(work.ends[-1])) if len(work.starts) else None

    @property
    def stepped(self) -> bool:
        """Whether the job marked steps at all."""
        return any(self.steps.values())

    @cached_property
    def step_count(self) -> int:
        """Steps of the rank that has most; a run without steps counts as one."""
        return max([1, *(len(steps) for steps in self.steps.values())])

    @cached_property
    def wall_ns(self) -> int:
        """The longest window of any rank: what a saving is taken from."""
        windows = [window for rank in self.ranks if (window := self.window(rank))]
        return max([0, *(end - begin for begin, end in windows)])

    @property
    def step_ns(self) -> int:
        """The mean step: a saving is told in ns of this."""
        return self.wall_ns // self.step_count


_held: WeakValueDictionary[tuple[int, Slo], Run] = WeakValueDictionary()


def _blocks(sizes: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Per rank the first and the last of those that are asked for together."""
    blocks: list[list[int]] = []
    whole = 0
    for rank, events in sizes.items():
        if not blocks or whole + events > AT_ONCE:
            blocks.append([])
            whole = 0
        blocks[-1].append(rank)
        whole += events
    return {rank: (block[0], block[-1]) for block in blocks for rank in block}
