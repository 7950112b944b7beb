"""What a small trace marks in time rather than as spans: the same as ../read_kineto.py says in SQL."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.kineto.few.trace import Trace
from npulens.ingest.tables.arrays import NONE, Found, Texts, Unusual, coded, nullable, same, truths
from npulens.ingest.tables.marks import ENGINE_STEP, PROFILER_STEP
from npulens.ingest.tables.steps import Ints

#: c10::DeviceType, as "[memory]" events number it.
DEVICES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps", 15: "hpu", 19: "mtia", 20: "npu"}


def give_steps(trace: Trace, shift: int, found: Found) -> int:
    """Steps by the profiler's marks; their number."""
    marks = trace.shapes.where("step_mark", "device_annotation")
    ours = marks & truths(pc.match_substring_regex(trace.shapes.name, PROFILER_STEP))
    rows = np.flatnonzero(ours[trace.of])
    if not len(rows) and (marks & truths(pc.match_substring_regex(trace.shapes.name, ENGINE_STEP))).any():
        raise Unusual  # of a serving engine
    numbers = [_number(trace.shapes.name[place].as_py()) for place in trace.of[rows].tolist()]
    device = trace.shapes.device[trace.of[rows]]
    totals: dict[int, int] = {}
    for row in rows[~device].tolist():
        totals[int(trace.track[row])] = totals.get(int(trace.track[row]), 0) + int(trace.dur[row])
    host: dict[int, tuple[int, int, int]] = {}
    on_device: dict[int, tuple[int, int]] = {}
    for row, number, there in zip(rows.tolist(), numbers, device.tolist(), strict=True):
        ts, dur = int(trace.ts[row]), int(trace.dur[row])
        if there:
            begin, end = on_device.get(number, (ts, ts + dur))
            on_device[number] = min(begin, ts), max(end, ts + dur)
        else:
            told = (-totals[int(trace.track[row])], -dur, ts)
            host[number] = min(host.get(number, told), told)
    steps = sorted({*host, *on_device})
    found.tables["step"] = [pa.Table.from_pylist([_step(step, host, on_device, shift) for step in steps], _STEP)]
    return len(steps)


_STEP = pa.schema([
    ("step", pa.int64()), ("ts_ns", pa.int64()), ("host_dur_ns", pa.int64()), ("device_ts_ns", pa.int64()),
    ("device_dur_ns", pa.int64()), ("source", pa.string()),
])  # fmt: skip


def _number(text: str) -> int:
    digits = re.sub(r".*#", "", text)
    if len(digits) > 18:
        raise Unusual
    return int(digits)


def _step(
    step: int, host: dict[int, tuple[int, int, int]], device: dict[int, tuple[int, int]], shift: int
) -> dict[str, object]:
    mark, work = host.get(step), device.get(step)
    begin = mark[2] if mark is not None else work[0] if work is not None else 0
    return {
        "step": step, "ts_ns": begin + shift, "host_dur_ns": None if mark is None else -mark[1],
        "device_ts_ns": None if work is None else work[0] + shift,
        "device_dur_ns": None if work is None else work[1] - work[0],
        "source": "device annotation" if mark is None else "ProfilerStep",
    }  # fmt: skip


def give_memory(trace: Trace, shift: int, found: Found) -> None:
    """Blocks and pools of memory."""
    raw = trace.raws["memory_raw"]
    bytes_, address, ts = raw.ints("bytes"), raw.ints("address"), raw.ints("ts")
    if (bytes_ == NONE).any():
        raise Unusual
    device = _devices(raw.ints("device_type"), raw.ints("device_id"))
    (block,) = coded((device.filled("?"), np.where(address == NONE, NONE + 1, address)))
    order = np.lexsort((raw.ints("row"), ts, block))
    follows = np.diff(block[order]) == 0
    after = np.full(len(order), -1, np.int64)
    before = after.copy()
    after[order[:-1][follows]] = order[1:][follows]
    before[order[1:][follows]] = order[:-1][follows]
    known = address != NONE
    closed = known & (bytes_ > 0) & (after >= 0) & (bytes_[after] == -bytes_)
    closes = known & (bytes_ < 0) & (before >= 0) & (bytes_[before] == -bytes_)
    rows = np.flatnonzero(~closes)
    shut, nexts = closed[rows], after[rows]
    allocated, reserved = raw.ints("allocated"), raw.ints("reserved")
    found.give("memory_event", {
        "ts_ns": ts[rows] + shift, "dur_ns": np.where(shut, ts[nexts] - ts[rows], NONE), "bytes": bytes_[rows],
        "address": nullable(address[rows]).cast(pa.string()), "allocated_bytes": allocated[rows],
        "reserved_bytes": reserved[rows], "device": device.take(rows),
        "release_allocated_bytes": np.where(shut, allocated[nexts], NONE),
        "release_reserved_bytes": np.where(shut, reserved[nexts], NONE),
    })  # fmt: skip
    pools = np.flatnonzero((allocated != NONE) | (reserved != NONE))
    if len(pools):
        found.give("memory_sample", {
            "component": same("PyTorch", len(pools)), "ts_ns": ts[pools] + shift, "allocated_bytes": allocated[pools],
            "reserved_bytes": reserved[pools], "device": device.take(pools),
        })  # fmt: skip


def _devices(kind: Ints, number: Ints) -> Texts:
    pairs = list(zip(kind.tolist(), number.tolist(), strict=True))
    known = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    texts = [
        None if of == NONE else DEVICES.get(of, f"device type {of}") + (f":{at}" if at >= 0 else "") for of, at in known
    ]
    return Texts(np.array([known[pair] for pair in pairs], np.int64), pa.array([*texts, None], pa.string()))


def give_counters(trace: Trace, shift: int, found: Found) -> None:
    raw = trace.raws["count_raw"]
    value = raw.table["value"].combine_chunks()
    rows = np.flatnonzero(truths(pc.is_finite(value)))
    found.give("sample", {
        "counter": trace.texts(raw.ints("name")[rows]), "series": raw.texts("key").take(rows),
        "ts_ns": raw.ints("ts")[rows] + shift, "value": value.take(pa.array(rows)),
    })  # fmt: skip
