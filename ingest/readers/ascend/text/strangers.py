"""Files of another capture that lie beside a trace: known by their time, and not mixed with it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables.draft import Draft

#: Files of one session overlap; memory is sampled a little before and after the tasks it is of.
APART_NS = 60 * 10**9


class _Window(NamedTuple):
    begin: int
    end: int


def kernels(draft: Draft, paths: list[Path]) -> None:
    """Empty the view kd if its tasks are of another time than the trace."""
    mine, theirs = _window(draft, "x", "ts", "ts + dur"), _window(draft, "kd", "ts", "ts + dur")
    if mine is None or theirs is None or not _apart(mine, theirs):
        return
    lost = count(draft, "SELECT count(*) FROM kd")
    draft.make("CREATE OR REPLACE VIEW kd AS FROM kd_all WHERE false")
    _say(draft, "kernel", paths[0].name, lost)


def window(draft: Draft) -> _Window | None:
    """The time of the trace and its kernels."""
    return _window(draft, "(SELECT ts, dur FROM x UNION ALL SELECT ts, dur FROM kd)", "ts", "ts + dur")


def table(draft: Draft, mine: _Window | None, view: str, into: str, name: str) -> bool:
    """Whether a table with the column ts_ns is of another time than the trace and its kernels; said if so."""
    theirs = _window(draft, view, "ts_ns", "ts_ns")
    if mine is None or theirs is None or not _apart(mine, theirs):
        return False
    _say(draft, into, name, count(draft, f"SELECT count(*) FROM {view}"))
    return True


def _say(draft: Draft, into: str, name: str, lost: int) -> None:
    draft.drop(into, Message("rows_of_another_time", {"file": name}), lost)
    draft.partial(None, Message("is_another_time_than_trace", {"file": name}))


def _window(draft: Draft, view: str, begin: str, end: str) -> _Window | None:
    first, last = draft.con.execute(f"SELECT min({begin}), max({end}) FROM {view}").fetchall()[0]
    return None if first is None or last is None else _Window(first, last)


def _apart(one: _Window, other: _Window) -> bool:
    return max(one.begin - other.end, other.begin - one.end) > APART_NS
