"""trace.json of `msprof op simulator`: every instruction of every core, on the pipe that ran it.

An event names its core as process and its pipe as thread. Flags between pipes come as pairs of events with one id.
Times are floats of microseconds. A cycle is about half a nanosecond, and an instruction of one cycle can have 0 ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npulens.ingest.events import Batch, Column, scan
from npulens.ingest.messages import Message, of_file
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables.draft import Draft, Spool

#: What the first bytes of the file hold, and no trace of a job does.
MARK = b'"profilingType"'
#: Instructions that only wait for another pipe or core.
WAITS = ("WAIT_FLAG", "wait_event", "BAR", "WAIT_INTRA_BLOCK", "WAIT_INTRA_BLOCKI", "WAIT_FLAG_DEV")
_RATE = "throughput(MB/s)"
_LATEST_NS = 2**61
_COLUMNS = (Column(_RATE, "f"),)
_EVENT = pa.schema(
    [("row", pa.int64()), ("ts", pa.int64()), ("dur", pa.int64()),
     *((name, pa.int32()) for name in ("ph", "name", "pid", "tid")), ("id", pa.int64())]
)  # fmt: skip
_RATES = pa.schema([("ts", pa.int64()), ("name", pa.int32()), ("value", pa.float64())])
_TEXT = pa.schema([("code", pa.int32()), ("text", pa.string())])
_REST = pa.schema([("row", pa.int64()), ("rest", pa.string())])


def read(path: Path, draft: Draft) -> int:
    """Fill tracks, spans, arguments and counters from the file; the number of its spans."""
    shapes = {"event_raw": _EVENT, "rate_raw": _RATES, "text_raw": _TEXT, "rest_raw": _REST}
    spools = {name: draft.spool(name, shape) for name, shape in shapes.items()}
    try:
        _scan(path, draft, spools)
    finally:
        for spool in spools.values():
            spool.close()
    return _tables(draft)


def _scan(path: Path, draft: Draft, spools: Mapping[str, Spool]) -> None:
    events, done = scan(path, _COLUMNS, flow_names=False), 0
    for batch in events:
        for name, table in _parted(batch, draft).items():
            spools[name].write(table)
        draft.advance(events.file_bytes - done)
        done = events.file_bytes
    for reason, times in events.lost().items():
        draft.drop("span", reason, times)
    if events.truncated:
        draft.cut(events.truncated, of_file(path, events.truncated))


def _parted(batch: Batch, draft: Draft) -> dict[str, pa.Table]:
    first, texts = batch.new_strings
    codes = pa.array(np.arange(first, first + len(texts), dtype=np.int32))
    found = {"text_raw": pa.Table.from_arrays([codes, texts], schema=_TEXT)}
    if not batch.n:
        return found
    complete, begin, end, rate, meta = (batch.ph == ord(letter) for letter in "XBECM")
    flow = np.isin(batch.ph, [ord(letter) for letter in "stf"])
    stamped = (batch.ts >= 0) & (batch.ts <= _LATEST_NS) & (batch.name >= 0)
    span = complete & stamped & (batch.dur >= 0) & (batch.dur <= _LATEST_NS)
    good: NDArray[np.bool_] = span | ((begin | end) & stamped)
    draft.drop("span", Message("events_without_usable_time_and"), int(((complete | begin | end) & ~good).sum()))
    draft.drop("span", Message("events_kind_not_read_here"),
               int((~(complete | begin | end | rate | meta | flow)).sum()))  # fmt: skip
    draft.drop("link", Message("arrows_timeline_which_are_not"), int(flow.sum()))
    row = batch.row + np.arange(batch.n, dtype=np.int64)
    columns: list[NDArray[Any]] = [row, batch.ts, batch.dur, batch.ph.astype(np.int32), batch.name]
    columns += [batch.pid, batch.tid, batch.id]
    found["event_raw"] = _picked(columns, good, _EVENT)
    rows, values = batch.args[_RATE]
    told = stamped[rows] & rate[rows]
    draft.drop("sample", Message("events_without_usable_time_and"), int(rate.sum() - told.sum()))
    found["rate_raw"] = _picked([batch.ts[rows], batch.name[rows], np.asarray(values)], told, _RATES)
    kept = good[batch.rest_rows]
    rests = [pa.array(row[batch.rest_rows][kept]), batch.rest_text.filter(pa.array(kept))]
    found["rest_raw"] = pa.Table.from_arrays(rests, schema=_REST)
    return found


def _picked(columns: Sequence[NDArray[Any]], mask: NDArray[np.bool_], shape: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([pa.array(column[mask]) for column in columns], schema=shape)


def _tables(draft: Draft) -> int:
    waits = ", ".join(f"'{name}'" for name in WAITS)
    draft.con.execute("CREATE VIEW texts AS SELECT code, any_value(text) AS text FROM text_raw GROUP BY code")
    paired = draft.keep(
        "flag",
        f"""SELECT min(row) FILTER (ph = {ord("B")}) AS row, min(ts) FILTER (ph = {ord("B")}) AS ts,
        max(ts) FILTER (ph = {ord("E")}) AS until, name, pid, tid, id
        FROM event_raw WHERE ph <> {ord("X")} GROUP BY name, pid, tid, id""",
    )
    lost = count(draft, "SELECT count(*) FROM flag WHERE (ts <= until) IS NOT TRUE")
    draft.drop("span", Message("events_without_usable_time_and"), lost)
    spans = paired - lost + count(draft, f"SELECT count(*) FROM event_raw WHERE ph = {ord('X')}")
    draft.keep(
        "instruction",
        f"""SELECT row_number() OVER (ORDER BY e.ts, e.row) AS span_id, e.row, e.ts, e.dur, n.text AS name,
            CASE WHEN n.text IN ({waits}) THEN 'wait' ELSE 'device_other' END AS kind,
            coalesce(p.text, '') AS core, coalesce(t.text, '') AS pipe,
            dense_rank() OVER (ORDER BY {_order("p.text")}, p.text, t.text) AS track
        FROM (SELECT row, ts, dur, name, pid, tid FROM event_raw WHERE ph = {ord("X")}
            UNION ALL SELECT row, ts, until - ts, name, pid, tid FROM flag WHERE ts <= until) e
        JOIN texts n ON n.code = e.name LEFT JOIN texts p ON p.code = e.pid LEFT JOIN texts t ON t.code = e.tid""",
    )
    if spans:
        draft.provide("track", """SELECT DISTINCT track, 'other' AS kind, pipe AS name, core AS process, core AS pid,
            pipe AS tid, track AS sort FROM instruction""")  # fmt: skip
        draft.provide("span", "SELECT span_id, track, kind, name, ts AS ts_ns, dur AS dur_ns FROM instruction")
        draft.provide("arg", "SELECT span_id, rest AS args FROM instruction JOIN rest_raw USING (row)")
    if count(draft, "SELECT count(*) FROM rate_raw"):
        draft.provide("sample", """SELECT 'MTE Throughput/' || n.text AS counter, 'MB/s' AS series, r.ts AS ts_ns,
            r.value FROM rate_raw r JOIN texts n ON n.code = r.name WHERE isfinite(r.value)""")  # fmt: skip
    return spans


def _order(core: str) -> str:
    """SQL: cores by their numbers, the cube core of each before its vector cores."""
    return (f"try_cast(regexp_extract({core}, 'core(\\d+)', 1) AS INTEGER), NOT contains({core}, 'cubecore'), "
            f"try_cast(regexp_extract({core}, '(\\d+)$', 1) AS INTEGER)")  # fmt: skip
