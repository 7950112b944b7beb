"""What ``npulens collect --training`` writes: a line of JSON for each step of an optimiser.

The first line says what it is. Each other one has the step's number and its moment since 1970. It also has what was
read: loss, norm of the gradients, scale of the loss. A value that was not finite is missing, and the line says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim, Facts
from npulens.ingest.readers.kineto.head import is_unix
from npulens.ingest.tables.draft import Draft

TITLE = "training series"
COUNTER = "training"
_HEAD = b'{"npulens_training": 1'
_SERIES = {"loss": "loss", "norm": "gradient norm", "scale": "loss scale", "left_out": "skipped steps",
           "not_finite": "not finite"}  # fmt: skip
_SAMPLES = pa.schema({"ts_ns": pa.int64(), "series": pa.string(), "value": pa.float64()})
_LONGEST, _BLOCK = 1 << 12, 4096


def sniff(path: Path) -> Claim | None:
    """A first line that says what it is."""
    head = peek.head(path)
    if not head.startswith(_HEAD):
        return None
    told = _line(head.split(b"\n")[0]) or {}
    rank = told.get("rank")
    rank = rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 31 else None
    first = _line(head.split(b"\n")[1]) if head.count(b"\n") > 1 else None
    begin = first["ts_ns"] if first and _stamped(first) else None
    return Claim("training", path, (path,), Facts(rank, None if rank is None else "metadata", begin_ns=begin))


def read(claim: Claim, draft: Draft) -> None:
    """Every value as a sample of its series."""
    path, rows = claim.files[0], list[tuple[int, str, float]]()
    with draft.spool("training_raw", _SAMPLES) as kept, path.open("rb") as file:
        file.readline(_LONGEST)
        while line := file.readline(_LONGEST):
            draft.advance(len(line))
            told = _line(line)
            if told is None or not _stamped(told):
                draft.drop("sample", Message("training_line_is_none"))
                continue
            rows += _values(told)
            if len(rows) >= _BLOCK:
                kept.write(_batch(rows))
                rows.clear()
        if rows:
            kept.write(_batch(rows))
    if not kept.rows:
        raise IngestError("empty", Message("training_without_step"), str(path))
    draft.fact("clock", "unix")
    draft.provide("sample", f"SELECT '{COUNTER}' AS counter, * FROM training_raw")
    for table in ("kernel", "host_op"):
        draft.absent(table, Message("training_holds_no_events"))


def _line(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _stamped(told: dict[str, Any]) -> bool:
    stamp = told.get("ts_ns")
    return isinstance(stamp, int) and not isinstance(stamp, bool) and is_unix(stamp)


def _values(told: dict[str, Any]) -> list[tuple[int, str, float]]:
    """What the line says; a second optimiser has series of its own."""
    which = told.get("optimizer")
    more = f" {which + 1}" if isinstance(which, int) and 0 < which < 100 else ""
    return [
        (told["ts_ns"], series + more, float(told[key])) for key, series in _SERIES.items() if _number(told.get(key))
    ]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _batch(rows: list[tuple[int, str, float]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(each) for each in columns], schema=_SAMPLES)
