"""What pages measure of a run, or of a part of it. The server measures small runs, a process aside large ones.

Both keep open what they were asked about last. Streamlit is not needed for this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb

from npulens.analysis.kept import wanted_by
from npulens.analysis.run import Run
from npulens.analysis.selection import within
from npulens.analysis.settings import Settings
from npulens.app import run_open
from npulens.app.report.subject import Subject, subject

#: Measurements that look at calls of the host outside of the selection: what launched its work.
_NEEDS_HOSTS = (
    "npulens.analysis.look.communication.", "npulens.analysis.look.efficiency.", "npulens.analysis.look.kernel_detail.",
    "npulens.analysis.selection.flame.",
)  # fmt: skip
Measure = Callable[..., Any]


def name(measure: Measure) -> str:
    """What a function of analysis is called everywhere."""
    return f"{measure.__module__}.{measure.__qualname__}"


def measured(place: str, run_id: str, part: within.Part | None, measure: Measure, given: tuple[object, ...]) -> Any:
    """``measure(con, *given)`` of a run, or of what is selected of it."""
    called = name(measure)
    if part is not None:
        return _narrowed(place, run_id, part, called.startswith(_NEEDS_HOSTS)).measure(called, measure, given)
    wanted = wanted_by(called)
    if not wanted and run_open.large(Path(place), run_id):  # a process aside: nobody else asks it meanwhile
        return measure(_derived(place, run_id, None).run.con, *given)
    whole = _opened(place, run_id, wanted)  # held: its files are open as long as it is there
    con = whole.cursor()  # threads share a database, never a connection
    try:
        return measure(con, *given)
    finally:
        con.close()


def derived(place: str, run_id: str, part: within.Part | None, measure: Callable[[Run], Any]) -> Any:
    """``measure(run)``; what one derives of the run the next one finds."""
    held = _derived(place, run_id, part)
    with held.lock:
        return measure(held.run)


def judged(place: str, run_id: str, settings: Settings) -> Subject:
    """What the detectors say of it.

    Without the detectors: those of a visitor's own folder are of no module that another process could name.
    """
    held = _derived(place, run_id, None)
    with held.lock:
        return replace(subject(Path(place), run_id, settings, held.run.con), detectors=())


def prepared(place: str, run_id: str, names: tuple[str, ...]) -> None:
    """Some of what pages ask next of a large run is computed and kept."""
    held = _derived(place, run_id, None)
    with held.lock:
        run_open.keep(Path(place), run_id, names, run=held.run)


@lru_cache(8)
def _opened(place: str, run_id: str, kept: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    """The run; what is to be kept of a large one is computed first, where nobody has asked for it yet."""
    if kept:
        run_open.keep(Path(place), run_id, kept)
    return run_open.opened(Path(place), run_id)


class _Narrowed:
    """A connection that holds a selection. One question after the other: its tables are its own."""

    def __init__(self, place: str, run_id: str, part: within.Part, hosts: bool) -> None:
        self._whole = place, run_id
        self._held_open = _opened(place, run_id, ())
        self._con = self._held_open.cursor()
        within.narrow(self._con, part, hosts=hosts)
        self._run = Run(self._con).hold()  # one question finds what another derived
        self._held: set[str] = set()
        self._lock = Lock()

    def measure(self, called: str, measure: Measure, given: tuple[object, ...]) -> Any:
        with self._lock:
            lacking = [one for one in wanted_by(called) if one not in self._held]
            if lacking:
                whole = _opened(*self._whole, tuple(lacking))
                with whole.cursor() as con:
                    within.hold(self._con, con, lacking)
                self._held |= set(lacking)
            return measure(self._con, *given)


@lru_cache(6)
def _narrowed(place: str, run_id: str, part: within.Part, hosts: bool) -> _Narrowed:
    return _Narrowed(place, run_id, part, hosts)


class _Derived:
    """A run with all that was derived of it."""

    def __init__(self, place: str, run_id: str, part: within.Part | None) -> None:
        self._held_open = _opened(place, run_id, ())
        con = self._held_open.cursor()
        if part is not None:
            within.narrow(con, part)
        self.run, self.lock = Run(con).hold(), Lock()


@lru_cache(2)
def _derived(place: str, run_id: str, part: within.Part | None) -> _Derived:
    return _Derived(place, run_id, part)
