"""The CSV files beside a small trace: the same as ../csv_tables.py says in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.text.csv_tables import STEP_COLUMNS
from npulens.ingest.readers.ascend.text.few.cells import Cells
from npulens.ingest.readers.ascend.text.few.device import KIND, Device
from npulens.ingest.readers.ascend.text.few.host import Details, frames
from npulens.ingest.readers.ascend.text.few.trace import Trace
from npulens.ingest.readers.ascend.text.strangers import APART_NS
from npulens.ingest.readers.ascend.text.trace_view import LATEST
from npulens.ingest.tables.arrays import NONE, Found, Texts, Unusual, coded, lookup, same
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.json_text import as_json
from npulens.ingest.tables.steps import Ints

Columns = dict[str, object]
_SIZES = ("Allocated", "Reserved", "Active")


def apart(mine: tuple[int, int] | None, stamps: Ints) -> bool:
    """Whether stamps are of another time than a window."""
    known = stamps[stamps != NONE]
    if mine is None or not len(known):
        return False
    return max(mine[0] - int(known.max()), int(known.min()) - mine[1]) > APART_NS


def give(files: Mapping[str, Cells], window: tuple[int, int] | None, made: Device, found: Found) -> None:
    """Rows of the tables; ``window``: the time of the trace and its kernels."""
    for name, cells in files.items():
        table, make, whole = _FILES[name]
        columns = make(cells)
        if table in ("memory_sample", "memory_event") and apart(window, np.asarray(columns["ts_ns"])):
            raise Unusual
        rows = whole(columns)
        found.dropped.append((table, Message("rows_that_lack_what_names", {"file": name}), int((~rows).sum())))
        kept = {key: _kept(value, np.flatnonzero(rows)) for key, value in columns.items()}
        if table == "l2_cache":
            kept["span_id"] = _kernels(kept, made)
        found.give(table, kept)


def details(trace: Trace, cells: Cells | None) -> Details:
    """Stack and shapes of calls."""
    if cells is None:
        return Details(trace, None, None, None)
    shapes = cells.said("Input Shapes").map(
        lambda known: pc.replace_substring(pc.replace_substring(known, "\r", ""), "\n", "")
    )
    return Details(trace, cells.said("Name"), cells.said("Call Stack").map(frames), shapes)


def _kept(value: object, rows: Ints) -> object:
    if isinstance(value, Texts):
        return value.take(rows)
    if isinstance(value, np.ndarray):
        return value[rows]
    assert isinstance(value, pa.Array)
    return value.take(pa.array(rows))


def _stamped(columns: Columns) -> Bools:
    ts = np.asarray(columns["ts_ns"])
    return np.asarray((ts >= -LATEST) & (ts <= LATEST))


def _there(column: str) -> Callable[[Columns], Bools]:
    def there(columns: Columns) -> Bools:
        texts = columns[column]
        assert isinstance(texts, Texts)
        return texts.there

    return there


def _of_component(columns: Columns) -> Bools:
    return _there("component")(columns) & _stamped(columns)


def _memory_record(cells: Cells) -> Columns:
    return {
        "component": cells.said("Component"), "ts_ns": cells.ns("Timestamp(us)"),
        **{f"{which.lower()}_bytes": cells.bytes(f"Total {which}") for which in _SIZES},
        "stream_ptr": cells.said("Stream Ptr"), "device": cells.said("Device Type", "Device"),
    }  # fmt: skip


def _operator_memory(cells: Cells) -> Columns:
    start = cells.ns("Allocation Time(us)")
    lengths = {
        ours: _or_until(cells.ns(said), start, cells.ns(end))
        for ours, said, end in (
            ("dur_ns", "Duration(us)", "Release Time(us)"),
            ("active_dur_ns", "Active Duration(us)", "Active Release Time(us)"),
        )
    }
    return {
        "ts_ns": start, **lengths, "name": cells.said("Name"), "bytes": cells.bytes("Size"),
        **{f"{which.lower()}_bytes": cells.bytes(f"Allocation Total {which}") for which in _SIZES},
        **{f"release_{which.lower()}_bytes": cells.bytes(f"Release Total {which}") for which in _SIZES},
        "stream_ptr": cells.said("Stream Ptr"), "device": cells.said("Device Type", "Device"),
    }  # fmt: skip


def _or_until(length: Ints, start: Ints, end: Ints) -> Ints:
    known = (start != NONE) & (end != NONE)
    if known.any() and max(abs(int(start[known].min())), int(np.abs(end[known]).max())) > LATEST:
        raise Unusual
    counted = np.where(known, np.where(known, end, 0) - np.where(known, start, 0), NONE)
    return np.where(length == NONE, counted, length)


def _step_trace_time(cells: Cells) -> Columns:
    return {
        "step": cells.whole("Step"), **{ours: cells.ns(theirs) for ours, theirs in STEP_COLUMNS.items()},
        "source": same("step_trace_time.csv", len(cells)),
    }  # fmt: skip


def _timed(
    source: str, name: str, category: str | None, total: str, least: str, most: str
) -> Callable[[Cells], Columns]:
    """A file of sums by name."""

    def columns(cells: Cells) -> Columns:
        taken = [name, *([category] if category else []), "Count", total, least, most]
        return {
            "source": same(source, len(cells)), "name": cells.said(name),
            **({"category": cells.said(category)} if category else {}), "count": cells.whole("Count"),
            "total_ns": cells.ns(total), "min_ns": cells.ns(least), "max_ns": cells.ns(most),
            "args": _rest(cells, cells.file.others(*taken)),
        }  # fmt: skip

    return columns


def _listed(source: str, *names: str) -> Callable[[Cells], Columns]:
    """A file that lists things without times."""

    def columns(cells: Cells) -> Columns:
        return {
            "source": same(source, len(cells)), "name": cells.said(*names),
            "args": _rest(cells, cells.file.others(*names)),
        }  # fmt: skip

    return columns


def _rest(cells: Cells, names: Sequence[str]) -> Texts:
    """These columns of a row as one JSON object, verbatim; NULL if there is none."""
    if not names:
        return cells.cell()
    keys = [as_json(name) for name in names]
    made = []
    for row in zip(*(cells.cell(name).list for name in names), strict=True):
        written = ("null" if cell is None else as_json(cell) for cell in row)
        made.append(f"{{{','.join(f'{key}:{cell}' for key, cell in zip(keys, written, strict=True))}}}")
    return Texts.of(pa.array(made, pa.string()))


def _operator_details(cells: Cells) -> Columns:
    """One row per operator, with the file's sums of the device in args."""
    own, name = cells.ns("Host Self Duration(us)"), cells.said("Name")
    others = cells.file.others("Name", "Input Shapes", "Call Stack", "Host Self Duration(us)")
    if not others:
        raise Unusual
    sums = {other: cells.exact(other) for other in others}
    codes, of, counts = np.unique(Texts.of(name.array).codes, return_inverse=True, return_counts=True)
    total, least, most = [0] * len(codes), [NONE] * len(codes), [NONE] * len(codes)
    added: list[dict[str, Decimal]] = [{} for _ in codes]
    for row, group in enumerate(of.tolist()):
        for other, values in sums.items():
            value = values[row]
            if value is not None and abs(value) < 10**15:
                added[group][other] = added[group].get(other, Decimal(0)) + value
        length = int(own[row])
        if length != NONE:
            least[group] = length if most[group] == NONE else min(least[group], length)
            most[group] = max(most[group], length)
            total[group] += length
    rows = np.array([int(np.flatnonzero(of == group)[0]) for group in range(len(codes))], np.int64)
    args = ["{" + ",".join(f"{as_json(other)}:{_sum(told.get(other))}" for other in others) + "}" for told in added]
    if any(abs(length) >= 2**62 for length in total):
        raise Unusual
    none = np.array(most, np.int64) == NONE
    return {
        "source": same("operator_details", len(codes)), "name": name.take(rows), "count": counts.astype(np.int64),
        "total_ns": np.where(none, NONE, np.array(total, np.int64)), "min_ns": np.array(least, np.int64),
        "max_ns": np.array(most, np.int64), "args": Texts.of(pa.array(args, pa.string())),
    }  # fmt: skip


def _sum(value: Decimal | None) -> str:
    return "null" if value is None else f'"{value:.15f}"'


def _l2_cache(cells: Cells) -> Columns:
    return {
        "stream": cells.whole("Stream Id"), "task_id": cells.whole("Task Id"), "name": cells.said("Op Name"),
        "hit_share": cells.approx("Hit Rate"), "victim_share": cells.approx("Victim Rate"),
    }  # fmt: skip


def _kernels(columns: Mapping[str, object], made: Device) -> Ints:
    """The kernel of each row, if only one fits it: task ids come round again."""
    rows = np.flatnonzero(made.shown & (made.kind == KIND["kernel"]))
    stream, task, name = columns["stream"], columns["task_id"], columns["name"]
    assert isinstance(stream, np.ndarray) and isinstance(task, np.ndarray) and isinstance(name, Texts)
    ours, theirs = coded((stream, task, name), (made.stream[rows], made.task[rows], made.name.take(rows)))
    known, times = np.unique(theirs[theirs != NONE], return_counts=True)
    once = np.isin(theirs, known[times == 1])
    of = lookup(ours, np.where(once, theirs, NONE))
    return np.where(of < 0, NONE, made.row[rows][of]) if len(rows) else of


_FILES: Mapping[str, tuple[str, Callable[[Cells], Columns], Callable[[Columns], Bools]]] = {
    "memory_record.csv": ("memory_sample", _memory_record, _of_component),
    "npu_module_mem.csv": ("memory_sample", _memory_record, _of_component),
    "operator_memory.csv": (
        "memory_event", _operator_memory,
        lambda columns: (np.asarray(columns["bytes"]) != NONE)
        & (_stamped(columns) | (np.asarray(columns["ts_ns"]) == NONE)),
    ),
    "step_trace_time.csv": (
        "profiler_step", _step_trace_time,
        lambda columns: np.asarray(
            (np.asarray(columns["computing_ns"]) != NONE) | (np.asarray(columns["communication_ns"]) != NONE)
        ),
    ),
    "op_statistic.csv": (
        "summary", _timed("op_statistic", "OP Type", "Core Type", "Total Time(us)", "Min Time(us)", "Max Time(us)"),
        _there("name"),
    ),
    "api_statistic.csv": (
        "summary", _timed("api_statistic", "API Name", "Level", "Time(us)", "Min(us)", "Max(us)"), _there("name"),
    ),
    "operator_details.csv": ("summary", _operator_details, _there("name")),
    "communication_statistic.csv": (
        "summary",
        _timed("communication_statistic", "OP Type", None, "Total Time(us)", "Min Time(us)", "Max Time(us)"),
        _there("name"),
    ),
    "fusion_op.csv": ("summary", _listed("fusion_op", "Fusion Op"), _there("name")),
    "static_op_mem.csv": ("summary", _listed("static_op_mem", "Op Name", "Name"), _there("name")),
    "l2_cache.csv": ("l2_cache", _l2_cache, _there("name")),
}  # fmt: skip
#: Files that are made here.
NAMES = tuple(_FILES)
