"""The tables of spans of a small trace: the same as ../tables.py says in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.kineto.few.comm import Rest
from npulens.ingest.readers.kineto.few.links import Tasks
from npulens.ingest.readers.kineto.few.trace import Trace
from npulens.ingest.tables.arrays import NONE, Found, Texts, Unusual, first, truths
from npulens.ingest.tables.json_text import as_json
from npulens.ingest.tables.steps import Ints

_BREAK = re.compile(r"[ \t\n\f\r]*\n[ \t\n\f\r]*")
_WAYS = (
    (("HTOD", "HOSTTODEVICE", "HOST_TO_DEVICE"), "h2d"), (("DTOH", "DEVICETOHOST", "DEVICE_TO_HOST"), "d2h"),
    (("DTOD", "DEVICETODEVICE", "DEVICE_TO_DEVICE"), "d2d"), (("HTOH", "HOSTTOHOST", "HOST_TO_HOST"), "h2h"),
    (("PTOP", "PEERTOPEER", "PEER_TO_PEER"), "p2p"),
)  # fmt: skip


def give_host(trace: Trace, seen: Collection[str], found: Found) -> None:
    """Operators and their stacks."""
    host = trace.raws["host_raw"]
    columns: dict[str, object] = {"span_id": host.ints("row")}
    columns |= {name: host.ints(name) for name in ("sequence", "fwd_thread", "external_id", "correlation")}
    if {"Input Dims", "Input dims", "Input type"} & set(seen):
        columns |= {f"input_{name}": host.table[name].combine_chunks() for name in ("shapes", "dtypes")}
    found.give("host_op", columns)
    if "Call stack" in seen:
        codes = host.ints("frames")
        rows = np.flatnonzero(codes != NONE)
        frames = trace.texts(codes[rows]).map(lambda known: pc.replace_substring(known, ";", "\n"))
        found.give("stack", {"span_id": host.ints("row")[rows], "frames": frames})


def give_kernels(trace: Trace, tasks: Tasks, found: Found) -> None:
    """Kernels; ROCm before 6.3 wrote the launch geometry on the call."""
    device = trace.raws["device_raw"]
    rows = np.flatnonzero(trace.shapes.where("kernel", "memset")[tasks.of])
    place, lent = tasks.at[rows], _geometry(trace)
    told = [lent.get(src, _NOTHING) for src in tasks.src[rows].tolist()] if lent else [_NOTHING] * len(rows)
    shared = np.array([NONE if one.shared is None else one.shared for one in told], np.int64)
    own = device.ints("shared_bytes")[place]
    found.give("kernel", {
        "span_id": tasks.row[rows], "op_span_id": tasks.operator[rows], "stream": device.ints("stream")[place],
        "grid": first(device.texts("grid").take(place), Texts.of(pa.array([one.grid for one in told], pa.string()))),
        "block": first(device.texts("block").take(place), Texts.of(pa.array([one.block for one in told], pa.string()))),
        "registers": device.ints("registers")[place], "shared_bytes": np.where(own == NONE, shared, own),
        "occupancy_percent": device.table["occupancy"].combine_chunks().take(pa.array(place)),
    })  # fmt: skip


@dataclass(frozen=True)
class _Geometry:
    """How a kernel was launched, as its call says."""

    grid: str | None = None
    block: str | None = None
    shared: int | None = None


_NOTHING = _Geometry()


def _geometry(trace: Trace) -> dict[int, _Geometry]:
    """Of the calls that say so, by their rows."""
    strays = trace.raws["stray_raw"]
    rows, keys = strays.ints("row").tolist(), strays.table["key"].to_pylist()
    calls = {row for row, key in zip(rows, keys, strict=True) if key == "grid"}
    found: dict[int, dict[str, str | None]] = {}
    said, value = (strays.table[name].to_pylist() if calls else [None] * len(rows) for name in ("said", "value"))
    for row, key, text, number in zip(rows, keys, said, value, strict=True):
        if row in calls and key in ("grid", "block", "shared memory"):
            if key in found.setdefault(row, {}):
                raise Unusual
            found[row][key] = number if key == "shared memory" else _listed(text)
    return {
        row: _Geometry(told.get("grid"), told.get("block"), _shared(told.get("shared memory")))
        for row, told in found.items()
    }


def _listed(text: str | None) -> str | None:
    """A list written as those of kernels are."""
    return _BREAK.sub("", text).replace(", ", ",") if text and text[0] == "[" else None


def _shared(text: str | None) -> int | None:
    if text is not None and not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise Unusual
    return None if text is None else int(text)


def give_transfers(trace: Trace, tasks: Tasks, rest: Rest, found: Found) -> None:
    """Direction by the task's name, else by what the driver wrote; a call without Async waits."""
    device = trace.raws["device_raw"]
    rows = np.flatnonzero(trace.shapes.where("memcpy")[tasks.of])
    place = tasks.at[rows]
    calls = trace.texts(np.where(tasks.call[rows] == NONE, NONE, (tasks.call[rows] >> 16) - 1)).list
    ways, sizes, blocking = list[str | None](), list[int | None](), list[bool | None]()
    for row, shape, call in zip(tasks.row[rows].tolist(), tasks.of[rows].tolist(), calls, strict=True):
        told = rest.text(row, "direction", "kind") or ""
        words = f"{trace.shapes.name[shape].as_py()} {told}".upper()
        ways.append(next((way for parts, way in _WAYS if any(part in words for part in parts)), None))
        sizes.append(rest.whole(row, "size"))
        if "PAGEABLE" in words:
            blocking.append(True)
        else:
            blocking.append("Async" not in call if call is not None and "Memcpy" in call else None)
    size = np.array([NONE if one is None else one for one in sizes], np.int64)
    known = device.ints("bytes")[place]
    bandwidth = device.table["bandwidth"].combine_chunks().take(pa.array(place))
    found.give("transfer", {
        "span_id": tasks.row[rows], "direction": pa.array(ways, pa.string()),
        "bytes": np.where(known == NONE, size, known),
        "bandwidth_bytes_per_s": pc.multiply(pc.if_else(pc.is_finite(bandwidth), bandwidth, None), 1e9),
        "blocking": pa.array(blocking, pa.bool_()),
    })  # fmt: skip


def give_arguments(trace: Trace, tasks: Tasks, found: Found) -> None:
    """The rest of every span, and what a column for another kind took away from it."""
    more = _taken(trace, tasks)
    strayed = _strayed(trace, device=False)
    for side, taken in (("device", more), ("host", strayed)):
        raw = trace.raws[f"{side}_rest_raw"]
        rows, texts = raw.ints("row").tolist(), raw.table["rest"].to_pylist()
        args = [
            text if (told := taken.get(row)) is None else f"{text[:-1].rstrip(' ')}, {told}}}"
            for row, text in zip(rows, texts, strict=True)
        ]
        had = set(rows)
        alone = [row for row in taken if row not in had]
        found.give("arg", {
            "span_id": np.array([*rows, *alone], np.int64),
            "args": pa.array([*args, *(f"{{{taken[row]}}}" for row in alone)], pa.string()),
        })  # fmt: skip


def _taken(trace: Trace, tasks: Tasks) -> dict[int, str]:
    """Of spans of the device what columns took that their kind has no row in, and ids that nothing was found by."""
    pieces: dict[int, list[str]] = {}

    def add(row: int, text: str) -> None:
        if text:
            pieces.setdefault(row, []).append(text)

    _without_row(trace, tasks, add)
    device = trace.raws["device_raw"]
    of = np.searchsorted(trace.shapes.shape, device.ints("shape"))
    notes = np.flatnonzero(trace.shapes.where("device_annotation")[of])
    _ids(trace, notes, add)
    for row, text in _strayed(trace, device=True).items():
        add(row, text)
    _ids(trace, tasks.at[~tasks.linked], add)
    return {row: ", ".join(texts) for row, texts in pieces.items()}


def _without_row(trace: Trace, tasks: Tasks, add: Callable[[int, str], None]) -> None:
    """Tasks that are neither kernels nor copies."""
    device = trace.raws["device_raw"]
    memset = trace.shapes.where("memset")[tasks.of]
    asked = np.flatnonzero(~trace.shapes.where("kernel", "memcpy")[tasks.of])
    said = ("grid_said", "block_said", "occupancy", "bandwidth")
    columns = {name: device.table[name].combine_chunks() for name in said}
    numbers = {name: device.ints(name) for name in ("registers", "shared_bytes", "bytes", "collective")}
    for task in asked.tolist():
        place = int(tasks.at[task])
        geometry = _joined(
            ("grid", columns["grid_said"][place].as_py()), ("block", columns["block_said"][place].as_py()),
            ("registers per thread", _whole(numbers["registers"], place)),
            ("shared memory", _whole(numbers["shared_bytes"], place)),
            ("est. achieved occupancy %", _double(columns["occupancy"][place].as_py())),
        )  # fmt: skip
        moved = _joined(
            ("bytes", _whole(numbers["bytes"], place)),
            ("memory bandwidth (GB/s)", _double(columns["bandwidth"][place].as_py())),
        )
        code = int(numbers["collective"][place])
        name = trace.text(code) if code != NONE else None
        parts = ("" if memset[task] else geometry, moved,
                 _joined(("Collective name", None if name is None else as_json(name))))  # fmt: skip
        add(int(tasks.row[task]), ", ".join(part for part in parts if part))


def _joined(*pairs: tuple[str, str | None]) -> str:
    return ", ".join(f'"{key}": {value}' for key, value in pairs if value is not None)


def _whole(values: Ints, place: int) -> str | None:
    return None if values[place] == NONE else str(int(values[place]))


def _double(value: float | None) -> str | None:
    """A number as DuckDB writes it."""
    return None if value is None else repr(value)


def _ids(trace: Trace, places: Ints, add: Callable[[int, str], None]) -> None:
    device = trace.raws["device_raw"]
    correlation, external = device.ints("correlation"), device.ints("external_id")
    for place in places.tolist():
        add(int(device.ints("row")[place]),
            _joined(("correlation", _whole(correlation, place)), ("External id", _whole(external, place))))  # fmt: skip


def _strayed(trace: Trace, *, device: bool) -> dict[int, str]:
    """Arguments of spans whose kind has no column for them, by key."""
    strays = trace.raws["stray_raw"]
    here = np.flatnonzero(truths(strays.table["device"].combine_chunks()) == device)
    if not len(here):
        return {}
    rows, codes = strays.ints("row")[here].tolist(), strays.ints("code")[here].tolist()
    key, value, said = (
        strays.table[name].combine_chunks().take(pa.array(here)).to_pylist() for name in ("key", "value", "said")
    )
    found: dict[int, list[tuple[str, str]]] = {}
    for row, name, number, code, text in zip(rows, key, value, codes, said, strict=True):
        told = text if text is not None else trace.text(code) if code != NONE else None
        written = (
            number
            if number is not None
            else None
            if told is None
            else told
            if told[:1] in ("[", "{")
            else as_json(told)
        )
        if written is not None:
            found.setdefault(row, []).append((name, f"{as_json(name)}: {written}"))
    if any(len({name for name, _ in pairs}) < len(pairs) for pairs in found.values()):
        raise Unusual
    return {row: ", ".join(text for _, text in sorted(pairs)) for row, pairs in found.items()}
