"""One run, as detectors see it: ranks, steps, and every derived fact computed once.

A derived fact is a function of the run (`idle_causes`, `clock`, `graph`...). `run.get(function)` computes it on first
use and keeps it, so that twenty detectors do not repeat any work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import numpy as np

from npulens.analysis.split import Activity, activity

T = TypeVar("T")


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

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self._known: dict[Any, Any] = {}
        run_id, world, missing = con.execute("SELECT run_id, world_size, missing_ranks FROM run").fetchall()[0]
        self.run_id: str = run_id
        self.world_size: int | None = world
        self.missing_ranks: tuple[int, ...] | None = None if missing is None else tuple(missing)
        self.ranks: tuple[int, ...] = tuple(
            rank for (rank,) in con.execute("SELECT rank FROM rank ORDER BY rank").fetchall()
        )
        rows = con.execute("SELECT rank, step, ts_ns, dur_ns, phase FROM step ORDER BY rank, ts_ns").fetchall()
        steps: dict[int, list[Step]] = {rank: [] for rank in self.ranks}
        for row in rows:
            steps.get(row[0], []).append(Step(*row))
        self.steps: dict[int, tuple[Step, ...]] = {rank: tuple(found) for rank, found in steps.items()}

    def get(self, fact: Callable[[Run], T]) -> T:
        """A derived fact, computed once."""
        if fact not in self._known:
            self._known[fact] = fact(self)
        found: T = self._known[fact]
        return found

    def activity(self, rank: int) -> Activity:
        """What the rank's device did, as sets of time."""
        key = ("activity", rank)
        if key not in self._known:
            self._known[key] = activity(self.con, rank)
        found: Activity = self._known[key]
        return found

    def columns(self, sql: str, parameters: Iterable[Any] = ()) -> dict[str, Any]:
        """A query's columns as numpy arrays; NULL becomes 0 or None, so ask for what is never NULL, or coalesce."""
        found = self.con.execute(sql, list(parameters)).fetchnumpy()
        return {name: np.ma.getdata(values) for name, values in found.items()}

    def window(self, rank: int) -> tuple[int, int] | None:
        """From the rank's first step to the end of its last; without steps, first to last edge of its device work."""
        if self.steps[rank]:
            return self.steps[rank][0].ts_ns, self.steps[rank][-1].end_ns
        work = self.activity(rank).work()
        return (int(work.starts[0]), int(work.ends[-1])) if len(work.starts) else None

    @property
    def stepped(self) -> bool:
        """Whether the job marked steps at all."""
        return any(self.steps.values())

    @property
    def step_count(self) -> int:
        """Steps of the rank that has most; a run without steps counts as one."""
        return max([1, *(len(steps) for steps in self.steps.values())])

    @property
    def wall_ns(self) -> int:
        """The longest window of any rank: what a saving is taken from."""
        windows = [window for rank in self.ranks if (window := self.window(rank))]
        return max([0, *(end - begin for begin, end in windows)])

    @property
    def step_ns(self) -> int:
        """The mean step: a saving is told in ns of this."""
        return self.wall_ns // self.step_count
