"""What MindSpore's files hold only as averages and sums, and as settings: rows of ``summary``, verbatim in ``args``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.readers.mindspore.timeline import LATEST_NS, TICK_NS
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import literal

_MS = 1_000_000
_SMALL, _LARGE = 1 << 16, 64 << 20
_ROW = pa.schema([("source", pa.string()), ("name", pa.string()), ("category", pa.string()), ("args", pa.string())])
_COUNTER = pa.schema([("device_start_count", pa.int64()), ("device_freq_mhz", pa.float64())])
_RULE = re.compile(r"^[-=\s]*(?:op compute time)?[-=\s]*$")
_GAP = re.compile(r"\s{2,}")


def least_tick(path: Path | None, draft: Draft) -> int | None:
    """min_cycle_counter: the counter's value at the timeline's zero, in ns."""
    if path is None:
        return None
    text = path.read_bytes()[:_SMALL].decode("utf-8", "replace").strip()
    match = re.fullmatch(r"(\d{1,17})(?:\.0+)?", text)
    draft.advance(path.stat().st_size)
    if match is None or int(match[1]) * TICK_NS > LATEST_NS:
        draft.partial("clock", Message("holds_no_number", {"file": path.name}))
        return None
    return int(match[1]) * TICK_NS


def provide(found: Mapping[str, Path], draft: Draft) -> None:
    """Provide the sums and averages of every file that is here."""
    for role, name, source in (
        ("types", "kernel_type", "aicore_intermediate_type"),
        ("details", "full_kernel_name", "aicore_intermediate_detail"),
        ("flops", "full_kernel_name", "flops"),
        ("pipeline", "op_type", "minddata_pipeline"),
    ):
        if role in found:
            _table(found[role], role, name, source, draft)
    for role, source in (("op_times", "op_compute_time"), ("op_type_times", "op_compute_time_detail")):
        if role in found:
            draft.table(f"{role}_rows", list(_lines(found[role], source, draft)), _ROW)
            draft.provide("summary", f"SELECT * FROM {role}_rows")
    if "queues" in found:
        draft.table("queue_rows", list(_queues(found["queues"], draft)), _ROW)
        draft.provide("summary", "SELECT * FROM queue_rows")


def _table(path: Path, role: str, name: str, source: str, draft: Draft) -> None:
    """A CSV file whose rows say something of one name each."""
    file = read_csv(path, draft, f"{role}_raw")
    if file is None:
        draft.partial("summary", Message("is_empty", {"file": path.name}))
        return
    if file.damage:
        draft.partial("summary", file.damage)
    total = f"scaled({file.cell('total_time')}, {_MS})" if role == "types" else "NULL::BIGINT"
    times = file.whole("execution_frequency")
    taken = (name, *(("total_time", "execution_frequency") if role == "types" else ("execution_frequency",)))
    lost = f"SELECT count(*) FROM {file.name} WHERE {file.said(name)} IS NULL"
    draft.drop(
        "summary", Message("rows_without_name", {"file": path.name}), int(draft.con.execute(lost).fetchall()[0][0])
    )
    draft.provide("summary", _sums(file, source, name, times, total, taken))


def _sums(file: Csv, source: str, name: str, times: str, total: str, taken: tuple[str, ...]) -> str:
    return f"""SELECT {literal(source)} AS source, {file.said(name)} AS name, {times} AS count, {total} AS total_ns,
        {file.rest(file.others(*taken))} AS args FROM {file.name} WHERE {file.said(name)} IS NOT NULL"""


def _lines(path: Path, source: str, draft: Draft) -> Iterator[dict[str, str | None]]:
    """A table drawn with spaces: a title, a header, a rule, rows; a second table may follow."""
    header: list[str] = []
    before = ""
    with path.open(encoding="utf-8", errors="replace") as file:
        while line := file.readline(_SMALL):
            text = line.strip()
            if _RULE.match(text):
                header = _header(before, len(text.split())) if "-" in text else []
            elif header:
                cells = text.rsplit(maxsplit=len(header) - 1)
                if len(cells) == len(header):
                    args = dict(zip(header[1:], cells[1:], strict=True))
                    yield {"source": source, "name": cells[0].rstrip(), "args": json.dumps(args)}
                else:
                    draft.drop("summary", Message("lines_that_do_not_fit", {"file": path.name}))
            before = text
    draft.advance(path.stat().st_size)


def _header(text: str, columns: int) -> list[str]:
    """The names above a rule of so many dashes; those with spaces in them stand two spaces apart."""
    return next((cells for cells in (_GAP.split(text), text.split()) if len(cells) == columns and columns > 1), [])


def _queues(path: Path, draft: Draft) -> Iterator[dict[str, str | None]]:
    """pipeline_profiling: queue lengths of the input pipeline, sampled at a known interval but at no known time."""
    told = _json(path, draft)
    operators = told.get("op_info")
    for operator in operators if isinstance(operators, list) else []:
        if isinstance(operator, dict):
            args = {**operator, "sampling_interval": told.get("sampling_interval")}
            yield {"source": "pipeline_profiling", "name": str(operator.get("op_type")), "args": json.dumps(args)}
        else:
            draft.drop("summary", Message("entries_that_are_not_understood", {"file": path.name}))


def settings(found: Mapping[str, Path], draft: Draft, least_ns: int | None) -> None:
    """The points that bound forward and backward, and what is known of the device's counter."""
    if "points" in found:
        draft.fact("settings", json.dumps({"step_trace_points": _json(found["points"], draft)}, ensure_ascii=False))
    if least_ns is not None:
        rows = [{"device_start_count": least_ns // TICK_NS, "device_freq_mhz": 1000 / TICK_NS}]
        draft.table("counter_row", rows, _COUNTER)
        draft.provide("clock", "SELECT * FROM counter_row")


def _json(path: Path, draft: Draft) -> Mapping[str, object]:
    try:
        if path.stat().st_size > _LARGE:
            draft.partial("summary", Message("is_larger_than_mb_and", {"file": path.name, "n": _LARGE >> 20}))
            return {}
        told = msgspec.json.decode(path.read_bytes())
    except (msgspec.MsgspecError, RecursionError, OSError) as error:
        draft.partial("summary", Message("file_cannot_be_read", {"file": path.name, "error": error}))
        return {}
    draft.advance(path.stat().st_size)
    if not isinstance(told, dict):
        draft.partial("summary", Message("holds_no_json_object", {"file": path.name}))
        return {}
    return told
