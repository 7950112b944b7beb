"""The contract tables of a small text export, made of arrays instead of statements.

As those of a small database (../../db/few): what the arrays are not made for is left to the statements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.cells import Csv
from npulens.ingest.readers.ascend.text import lanes as text_lanes
from npulens.ingest.readers.ascend.text.few import comm, device, host, kernels, links, tables
from npulens.ingest.readers.ascend.text.few.cells import Cells, approx
from npulens.ingest.readers.ascend.text.few.comm import Analysed
from npulens.ingest.readers.ascend.text.few.device import KIND, Device
from npulens.ingest.readers.ascend.text.few.host import Details
from npulens.ingest.readers.ascend.text.few.kernels import Kernels
from npulens.ingest.readers.ascend.text.few.links import Arrows
from npulens.ingest.readers.ascend.text.few.trace import Lanes, Trace
from npulens.ingest.tables.arrays import NONE, Found, Rows, Unusual
from npulens.ingest.tables.steps import Ints


@dataclass(frozen=True)
class Groups:
    """Groups of communication: the name of each hash, and the ranks of each name."""

    names: Mapping[str, str]
    ranks: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Made:
    """What was made of an export."""

    trace: Trace
    lanes: Lanes
    named: Sequence[text_lanes.Named]
    device: Device
    kernels: Kernels
    analysed: Analysed
    arrows: Arrows
    details: Details
    found: Found

    @property
    def first(self) -> int | None:
        """The earliest stamp of events and of kernel_details."""
        stamps = np.concatenate((self.trace.ts, self.kernels.ts))
        return int(stamps.min()) if len(stamps) else None

    @property
    def devices(self) -> list[int]:
        known = self.kernels.device
        return [int(one) for one in np.unique(known[(known >= 0) & (known < 2**31)])]

    @property
    def sums(self) -> tuple[int | None, int | None]:
        """What kernel_details and communication.json come to."""
        polled = self.device.kernel[self.device.shown & (self.device.kind == KIND["device_other"])]
        rows = np.setdiff1d(np.flatnonzero(~self.kernels.comm), polled)
        elapsed = self.analysed.rows.ints("elapsed_ns")[self.analysed.of[self.analysed.of >= 0]]
        return _sum(self.kernels.dur[rows]), _sum(elapsed[elapsed != NONE])

    @property
    def recorded(self) -> tuple[bool, ...]:
        """Whether there are kernels, operators, links, stacks, counters."""
        events = self.trace.raws["x_host"]
        shown, kind = self.device.shown, self.device.kind
        operators = np.concatenate([events.ints(name) for name in ("sequence", "connection", "correlation")])
        arrows = (self.arrows.src != NONE) & (self.arrows.src != self.arrows.dst)
        return (
            bool((shown & np.isin(kind, [KIND["kernel"], KIND["memset"]])).any()), bool((operators != NONE).any()),
            bool(arrows.any()), bool((events.ints("stack") != NONE).any()) or self.details.any_frames,
            len(self.trace.raws["counter"]) + len(self.trace.raws["counter_rest"]) > 0,
        )  # fmt: skip


def _sum(values: Ints) -> int | None:
    return int(values.sum()) if len(values) else None


def make(
    raws: Mapping[str, pa.Table], kernel_files: Sequence[Csv], metrics: Sequence[str], files: Mapping[str, Csv],
    groups: Groups, rank: int,
) -> Made | None:  # fmt: skip
    """What is found in the raw tables of an export; None: the statements have to read it."""
    rows = {name: Rows(table) for name, table in raws.items()}
    if len(kernel_files) > 1 or not set(files) <= set(tables.NAMES):
        return None
    if any(file.has("kernel_type") for file in kernel_files):  # lists every task
        return None
    try:
        return _made(rows, kernel_files, metrics, files, groups, rank)
    except (Unusual, pa.ArrowInvalid):
        return None


def _made(
    rows: Mapping[str, Rows], kernel_files: Sequence[Csv], metrics: Sequence[str], files: Mapping[str, Csv],
    groups: Groups, rank: int,
) -> Made:  # fmt: skip
    found, trace = Found(), Trace(rows)
    lines = kernels.make(next((Cells(file, rows) for file in kernel_files), None), metrics)
    found.dropped.append(("kernel", Message("row_without_name_start_or"), lines.broken))
    window = _window(trace.ts, trace.ts + trace.dur)
    if tables.apart(window, lines.ts) or tables.apart(_window(lines.ts, lines.ts + lines.dur), trace.ts):
        raise Unusual
    named = trace.named()
    listed = text_lanes.lanes_of(named, trace.seen(), groups.names, lambda codes: _words(trace, codes))
    lanes = Lanes.make(trace, listed)
    found.tables["track"] = [_tracks(listed)]
    made = device.make(trace, lanes, lines, found)
    if len(rows["analysed"]) and not len(made.operators.row) and not len(lines) and not len(made.row):
        raise Unusual
    analysed = comm.make(trace, lanes, made, groups.names, groups.ranks, rank, found)
    device.give(made, trace, lines, found)
    arrows = links.make(trace, lanes, made, found)
    cells = {name: Cells(file, rows) for name, file in files.items()}
    both = _window(np.concatenate((trace.ts, lines.ts)), np.concatenate((trace.ts + trace.dur, lines.ts + lines.dur)))
    tables.give(cells, both, made, found)
    details = tables.details(trace, cells.get("operator_details.csv"))
    host.make(trace, lanes, made, lines, details, arrows, comm.bandwidth_of(made, analysed), found)
    spans = pa.concat_tables([table.select(["span_id", "ts_ns"]) for table in found.tables["span"]])
    links.give(arrows, trace, lanes, {name: spans[name].to_numpy() for name in spans.column_names}, found)
    _samples(trace, found)
    if metrics:
        shown = made.shown & (made.kernel >= 0)
        kernels.give_pmu(lines, made.row[shown], made.kernel[shown], found.tables)
    return Made(trace, lanes, named, made, lines, analysed, arrows, details, found)


def _window(begins: Ints, ends: Ints) -> tuple[int, int] | None:
    return (int(begins.min()), int(ends.max())) if len(begins) else None


def _words(trace: Trace, codes: Sequence[int | None]) -> dict[int, str]:
    texts = {code: trace.text(code) for code in codes if code is not None}
    return {code: text for code, text in texts.items() if text is not None}


def _tracks(lanes: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{key: lane[key] for key in text_lanes.TRACK} for lane in lanes], text_lanes.TRACKS)


def _samples(trace: Trace, found: Found) -> None:
    """Counters. Those of an accelerator are told apart by its number."""
    counters = trace.raws["counter"]
    name, number = trace.texts_of(counters.ints("name")), counters.ints("accelerator")
    plain, numbered = np.flatnonzero(name.there & (number == NONE)), np.flatnonzero(name.there & (number != NONE))
    called = name.take(numbered).list
    accelerators = [
        f"Acc PMU {one}/{(text or '').replace('band_width', 'bandwidth')}"
        for one, text in zip(number[numbered].tolist(), called, strict=True)
    ]
    rows = np.concatenate((plain, numbered))
    texts = pa.concat_arrays([name.take(plain).array, pa.array(accelerators, pa.string())])
    value = counters.table["value"].combine_chunks().take(pa.array(rows))
    found.give("sample", {
        "counter": texts, "series": counters.texts("series").take(rows), "ts_ns": counters.ints("ts")[rows],
        "value": value,
    })  # fmt: skip
    _other_samples(trace, found)


def _other_samples(trace: Trace, found: Found) -> None:
    """Counters whose keys are no column: each number of the rest is a value."""
    rest = trace.raws["counter_rest"]
    names = trace.texts_of(rest.ints("name")).list
    rows = []
    for name, ts, text in zip(names, rest.ints("ts").tolist(), rest.texts("rest").list, strict=True):
        for key, value in _pairs(text or "") if name is not None else ():
            number = approx(value) if isinstance(value, str) else None
            if number is not None:
                rows.append({"counter": name, "series": key, "ts_ns": ts, "value": number})
    found.tables["sample"].append(pa.Table.from_pylist(rows, _SAMPLE))


_SAMPLE = pa.schema([("counter", pa.string()), ("series", pa.string()), ("ts_ns", pa.int64()), ("value", pa.float64())])


def _pairs(text: str) -> list[tuple[str, object]]:
    """Keys and values of a JSON object, numbers as they are written."""
    try:
        found = json.loads(text, object_pairs_hook=_Object, parse_float=str, parse_int=str, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Unusual from error
    return found if isinstance(found, _Object) else []


class _Object(list[tuple[str, object]]):
    """An object of JSON, every pair of it."""


def _no_constant(text: str) -> None:
    raise Unusual(text)
