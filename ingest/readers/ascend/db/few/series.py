"""What a small database recorded over time: the same as ../series.py says in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.db.few.spans import All, of_kind, stamp, told
from npulens.ingest.tables.arrays import NONE, Found, Rows, Texts, Unusual, matches, nullable, same
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.marks import PROFILER_STEP
from npulens.ingest.tables.steps import Ints

_MIB = float(1 << 20)
Column = Callable[[Rows], pa.Array]
#: Tables of counters that are made here.
COUNTED = (
    "AICORE_FREQ", "NPU_MEM", "HBM", "DDR", "LLC", "ACC_PMU", "SOC_BANDWIDTH_LEVEL", "CPU_USAGE", "HOST_MEM_USAGE",
    "HOST_DISK_USAGE", "HOST_NETWORK_USAGE",
)  # fmt: skip
_ACC = {"read_bandwidth": "readBwLevel", "write_bandwidth": "writeBwLevel", "read_ost": "readOstLevel",
        "write_ost": "writeOstLevel"}  # fmt: skip


def make(made: All) -> None:
    """The tables of things that have a time and no span."""
    found, raws = made.found, made.raws
    for table in COUNTED:
        if len(rows := raws[table]):
            _counted(found, table, rows)
    _memory_samples(made)
    _memory_events(made)
    if len(raws["OP_MEMORY"]) and len(raws["NPU_OP_MEM"]):
        found.notes.append(("memory_event", Message("rows_npu_op_mem_repeat", {"n": len(raws["NPU_OP_MEM"])})))
    _steps(made)


def _counted(found: Found, table: str, rows: Rows) -> None:
    ts = stamp(rows.ints("timestampNs"))
    for counter, series, value in _counters(table, rows):
        numbers = np.asarray(pc.fill_null(value, 0.0).to_numpy(zero_copy_only=False))
        known = (ts != NONE) & np.asarray(pc.is_valid(value).to_numpy(zero_copy_only=False), bool) & counter.there
        at = np.flatnonzero(known)
        found.give("sample", {
            "counter": counter.take(at), "series": series.take(at), "ts_ns": ts[at], "value": numbers[at],
        })  # fmt: skip


def _counters(table: str, rows: Rows) -> list[tuple[Texts, Texts, pa.Array]]:
    """Counter, series and value of each that a table holds."""
    many = len(rows)

    def one(counter: str, series: str, column: str, per: float = 1.0) -> tuple[Texts, Texts, pa.Array]:
        return same(counter, many), same(series, many), _over(rows.table[column], per)

    if table == "AICORE_FREQ":
        dies = rows.ints("dieId")
        several = len(np.unique(dies[dies != NONE])) > 1
        counter = _numbered("AI Core Freq {}", dies) if several else same("AI Core Freq", many)
        return [(counter, same("MHz", many), rows.table["freq"].combine_chunks())]
    if table == "NPU_MEM":
        owner = rows.texts("type").map(lambda known: _renamed(known, {"app": "APP", "device": "Device"}))
        sizes = {"DDR": _wide(rows, "ddr"), "HBM": _wide(rows, "hbm"), "Memory": both(rows)}
        return [
            (_filled("{}/" + what, owner), same("KB", many), pc.divide(pc.cast(size, pa.float64(), safe=False), 1024.0))
            for what, size in sizes.items()
        ]
    if table == "HBM":
        way = _way(rows.texts("type"))
        counter = _filled("HBM {}/{}", _text(rows.ints("hbmId")), way)
        return [(counter, _filled("{}(MB/s)", way), _over(rows.table["bandwidth"], _MIB))]
    if table == "LLC":
        names = [_filled("LLC {} {}/" + what, _text(rows.ints("llcId")), _way(rows.texts("mode")))
                 for what in ("Hit Rate", "Throughput")]  # fmt: skip
        return [
            (names[0], same("Hit Rate(%)", many), _over(rows.table["hitRate"], 100.0)),
            (names[1], same("Throughput(MB/s)", many), _over(rows.table["throughput"], _MIB)),
        ]
    if table == "ACC_PMU":
        accs = rows.ints("accId")
        return [(_numbered(f"Acc PMU {{}}/{name}", accs), same("value", many), rows.table[column].combine_chunks())
                for name, column in _ACC.items()]  # fmt: skip
    if table == "CPU_USAGE":
        return [(_numbered("CPU {}", rows.ints("cpuId")), same("Usage(%)", many), rows.table["usage"].combine_chunks())]
    return [one(*each) for each in _PLAIN[table]]


_PLAIN: Mapping[str, tuple[tuple[str, str, str, float], ...]] = {
    "DDR": (("DDR/Read", "Read(MB/s)", "read", _MIB), ("DDR/Write", "Write(MB/s)", "write", _MIB)),
    "SOC_BANDWIDTH_LEVEL": (
        ("L2 Buffer Bw Level", "L2 Buffer Bw Level", "l2BufferBwLevel", 1.0),
        ("Mata Bw Level", "Mata Bw Level", "mataBwLevel", 1.0),
    ),
    "HOST_MEM_USAGE": (("Memory Usage", "Usage(%)", "usage", 1.0),),
    "HOST_DISK_USAGE": (
        ("Disk Usage", "Usage(%)", "usage", 1.0), ("Disk Read", "bytes/s", "readRate", 1.0),
        ("Disk Write", "bytes/s", "writeRate", 1.0),
    ),
    "HOST_NETWORK_USAGE": (("Network Usage", "Usage(%)", "usage", 1.0), ("Network", "bytes/s", "speed", 1.0)),
}  # fmt: skip


def _over(column: pa.ChunkedArray, per: float) -> pa.Array:
    whole = column.combine_chunks()
    return whole if per == 1.0 else pc.divide(whole, per)


def _renamed(known: pa.Array, names: Mapping[str, str]) -> pa.Array:
    return pa.array([names.get(text or "") for text in known.to_pylist()], pa.string())


def _way(texts: Texts) -> Texts:
    """read or write as the counters of the text export write it."""
    says = told(texts)
    return says.map(lambda known: pa.array([
        None if text is None else text[:1].upper() + text[1:] for text in known.to_pylist()], pa.string()))  # fmt: skip


def _text(values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Texts:
    return Texts.of(nullable(values).cast(pa.string()))


def _numbered(pattern: str, values: Ints) -> Texts:
    return _filled(pattern, _text(values))


def _filled(pattern: str, *parts: Texts) -> Texts:
    """A text with others in it; NULL if one of them is."""
    rows = list(zip(*(part.codes.tolist() for part in parts), strict=True))
    known = {codes: number for number, codes in enumerate(dict.fromkeys(rows))}
    texts = [[part.known[code].as_py() for part, code in zip(parts, codes, strict=True)] for codes in known]
    made = [None if None in each else pattern.format(*each) for each in texts]
    return Texts(np.array([known[codes] for codes in rows], np.int64), pa.array([*made, None], pa.string()))


def _wide(rows: Rows, column: str) -> pa.Array:
    return rows.table[column].combine_chunks()


def both(rows: Rows) -> pa.Array:
    """Bytes in both kinds of memory, where 64 bits hold them."""
    try:
        return pc.add_checked(_wide(rows, "ddr"), _wide(rows, "hbm"))
    except pa.ArrowInvalid as error:
        raise Unusual from error


def _device(rows: Rows, at: Ints) -> Texts:
    return _numbered("NPU:{}", rows.ints("deviceId")).take(at)


def _memory_samples(made: All) -> None:
    raws, found = made.raws, made.found
    for table, component, ts_name in (
        ("MEMORY_RECORD", "component", "timestamp"), ("NPU_MEM", "type", "timestampNs"),
        ("NPU_MODULE_MEM", "moduleId", "timestampNs"),
    ):  # fmt: skip
        rows = raws[table]
        named = rows.texts(component)
        if table == "NPU_MEM":
            named = named.map(lambda known: _renamed(known, {"app": "APP"}))
        ts = stamp(rows.ints(ts_name))
        at = np.flatnonzero(named.there & (ts != NONE))
        columns: dict[str, object] = {"component": named.take(at), "ts_ns": ts[at], "device": _device(rows, at)}
        if table == "MEMORY_RECORD":
            columns |= {
                "allocated_bytes": rows.ints("totalAllocated")[at], "reserved_bytes": rows.ints("totalReserved")[at],
                "active_bytes": rows.ints("totalActive")[at], "stream_ptr": _text(rows.ints("streamPtr")[at]),
            }  # fmt: skip
        elif table == "NPU_MEM":
            columns["reserved_bytes"] = both(rows).take(pa.array(at))
        else:
            columns["reserved_bytes"] = rows.ints("totalReserved")[at]
        found.give("memory_sample", columns)


def _memory_events(made: All) -> None:
    raws, found = made.raws, made.found
    if not len(raws["OP_MEMORY"]):
        rows = raws["NPU_OP_MEM"]
        size = rows.ints("size")
        at = np.flatnonzero((size >= 0) & (size <= 9 * 10**18))
        released = rows.texts("type").where(lambda known: pc.equal(known, "release"))
        found.give("memory_event", {
            "ts_ns": stamp(rows.ints("timestampNs"))[at], "name": rows.texts("operatorName").take(at),
            "bytes": np.where(released, -size, size)[at], "address": _text(rows.ints("addr")[at]),
            "allocated_bytes": rows.ints("totalAllocate")[at], "reserved_bytes": rows.ints("totalReserve")[at],
            "device": _device(rows, at),
        })  # fmt: skip
        return
    rows = raws["OP_MEMORY"]
    begin, at = stamp(rows.ints("allocationTime")), np.flatnonzero(rows.ints("size") != NONE)
    found.give("memory_event", {
        "ts_ns": begin[at], "dur_ns": _length(rows, "duration", begin, "releaseTime")[at],
        "active_dur_ns": _length(rows, "activeDuration", begin, "activeReleaseTime")[at],
        "name": rows.texts("name").take(at), "bytes": rows.ints("size")[at],
        "allocated_bytes": rows.ints("allocationTotalAllocated")[at],
        "reserved_bytes": rows.ints("allocationTotalReserved")[at],
        "active_bytes": rows.ints("allocationTotalActive")[at],
        "release_allocated_bytes": rows.ints("releaseTotalAllocated")[at],
        "release_reserved_bytes": rows.ints("releaseTotalReserved")[at],
        "release_active_bytes": rows.ints("releaseTotalActive")[at],
        "stream_ptr": _text(rows.ints("streamPtr")[at]), "device": _device(rows, at),
    })  # fmt: skip


def _length(rows: Rows, said: str, begin: Ints, end: str) -> Ints:
    told_of, ends = rows.ints(said), stamp(rows.ints(end))
    counted = np.where((ends != NONE) & (begin != NONE), ends - begin, NONE)
    return np.where(told_of != NONE, told_of, counted)


def _steps(made: All) -> None:
    rows, api = made.raws["STEP_TIME"], made.api
    if len(rows):
        begin, end = stamp(rows.ints("startNs")), stamp(rows.ints("endNs"))
        told_of: Bools = (rows.ints("id") != NONE) & (begin != NONE) & (end != NONE) & (end >= begin)
        at = np.flatnonzero(told_of)
        made.found.give("step", {
            "step": rows.ints("id")[at], "ts_ns": begin[at], "host_dur_ns": (end - begin)[at],
            "source": same("STEP_TIME", len(at)),
        })  # fmt: skip
        return
    marked = of_kind(api.kind, "step_mark") & api.lasting
    at = np.flatnonzero(marked & api.name.where(matches(PROFILER_STEP)))
    if not len(at) and marked.any():  # of a serving engine
        raise Unusual
    numbers = [int(re.sub(r".*#", "", name or "")) for name in api.name.take(at).list]
    made.found.give("step", {
        "step": pa.array([one if one < 2**63 else None for one in numbers], pa.int64()), "ts_ns": api.ts[at],
        "host_dur_ns": (api.end - api.ts)[at], "source": same("ProfilerStep", len(at)),
    })  # fmt: skip
