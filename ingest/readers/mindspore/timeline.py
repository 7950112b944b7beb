"""timeline_display_*.json, a bare array of trace events, and output_timeline_data_*.txt: the same operators as text.

The display counts microseconds from the first operator, in floats. The text gives the device's own milliseconds, which
say where that zero lies. MindSpore caps either file, so each completes the other.
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
from npulens.ingest.readers.ascend.cells import read_csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables.draft import Draft, Spool

#: A tick of the device's counter: 100 MHz, as dividing the counter's least value by the text's least stamp confirms.
TICK_NS = 10
#: Stamps beyond these are damage, and sums with them would not fit 64 bits.
LATEST_NS = 2**61
_MS = 1_000_000
_COLUMNS = (Column("type", "s"), Column("fullname", "s"), Column("name", "s"))
_EVENT = pa.schema(
    [("row", pa.int64()), ("ts", pa.int64()), ("dur", pa.int64()), *((name, pa.int32()) for name in (
        "name", "pid", "tid", "type", "fullname"))]
)  # fmt: skip
_META = pa.schema([("name", pa.int32()), ("pid", pa.int32()), ("tid", pa.int32()), ("value", pa.int32())])
_TEXT = pa.schema([("code", pa.int32()), ("text", pa.string())])
_REST = pa.schema([("row", pa.int64()), ("rest", pa.string())])
_NO_CALLS = """SELECT NULL::BIGINT AS row, NULL::VARCHAR AS fullname, NULL::BIGINT AS stream,
    NULL::BIGINT AS ts, NULL::BIGINT AS dur WHERE false"""


def read_calls(path: Path | None, draft: Draft) -> None:
    """Make the view ``calls``: operators with the device's own stamps."""
    file = None if path is None else read_csv(path, draft, "calls_raw")
    if path is None or file is None:
        if path is not None:
            draft.partial("span", Message("is_empty", {"file": path.name}))
        draft.con.execute(f"CREATE VIEW calls AS {_NO_CALLS}")
        return
    if file.damage:
        draft.partial("span", file.damage)
    draft.keep(
        "calls_made",
        f"""SELECT row, {file.said("op_name")} AS fullname, try_cast({file.cell("stream_id")} AS BIGINT) AS stream,
        scaled({file.cell("start_time(ms)", "start_time")}, {_MS}) AS ts,
        scaled({file.cell("duration(ms)", "duration")}, {_MS}) AS dur FROM calls_raw""",
    )
    good = f"fullname IS NOT NULL AND abs(ts) <= {LATEST_NS} AND dur BETWEEN 0 AND {LATEST_NS}"
    lost = count(draft, f"SELECT count(*) FROM calls_made WHERE ({good}) IS NOT TRUE")
    draft.drop("span", Message("rows_without_name_time_or", {"file": path.name}), lost)
    draft.con.execute(f"CREATE VIEW calls AS SELECT * FROM calls_made WHERE {good}")


def read_display(path: Path | None, draft: Draft) -> None:
    """Make the views event_raw, meta_raw, text_raw and rest_raw of the display."""
    spools = {name: draft.spool(name, shape) for name, shape in (
        ("event_raw", _EVENT), ("meta_raw", _META), ("text_raw", _TEXT), ("rest_raw", _REST))}  # fmt: skip
    try:
        if path is not None:
            _scan(path, draft, spools)
    finally:
        for spool in spools.values():
            spool.close()


def _scan(path: Path, draft: Draft, spools: Mapping[str, Spool]) -> None:
    events, done = scan(path, _COLUMNS), 0
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
    """One batch as rows of the raw tables; what is no span and no metadata is counted."""
    first, texts = batch.new_strings
    codes = pa.array(np.arange(first, first + len(texts), dtype=np.int32))
    found = {"text_raw": pa.Table.from_arrays([codes, texts], schema=_TEXT)}
    if not batch.n:
        return found
    complete, meta = batch.ph == ord("X"), batch.ph == ord("M")
    flow = np.isin(batch.ph, [ord(letter) for letter in "stf"])
    stamped = (batch.ts >= -LATEST_NS) & (batch.ts <= LATEST_NS)
    good: NDArray[np.bool_] = complete & stamped & (batch.dur >= 0) & (batch.dur <= LATEST_NS)
    draft.drop("span", Message("events_without_usable_time_and"), int((complete & ~good).sum()))
    draft.drop("span", Message("events_kind_not_read_here"), int((~complete & ~meta & ~flow).sum()))
    draft.drop("link", Message("arrows_timeline_which_are_not"), int(flow.sum()))
    row = batch.row + np.arange(batch.n, dtype=np.int64)

    def coded(key: str) -> NDArray[np.int32]:
        made = np.full(batch.n, -1, np.int32)
        rows, values = batch.args[key]
        made[rows] = values
        return made

    spans: list[NDArray[Any]] = [row, batch.ts, batch.dur, batch.name, batch.pid, batch.tid, coded("type")]
    spans.append(coded("fullname"))
    names = [batch.name, batch.pid, batch.tid, coded("name")]
    found["event_raw"] = _picked(spans, good, _EVENT)
    found["meta_raw"] = _picked(names, meta, _META)
    kept = good[batch.rest_rows]
    rests = [pa.array(row[batch.rest_rows][kept]), batch.rest_text.filter(pa.array(kept))]
    found["rest_raw"] = pa.Table.from_arrays(rests, schema=_REST)
    return found


def _picked(columns: Sequence[NDArray[Any]], mask: NDArray[np.bool_], shape: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([pa.array(column[mask]) for column in columns], schema=shape)
