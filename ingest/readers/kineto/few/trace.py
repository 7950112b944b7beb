"""The events of a small trace in arrays: what each is, and on which track (../shape.py says it in SQL)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.kineto import npu
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.arrays import NONE, Found, Rows, Texts, Unusual, lookup, truths
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.marks import STEP_MARK
from npulens.ingest.tables.steps import Ints

_COPIES, _FILLS = ("gpu_memcpy", "memcpy", *npu.COPIES), ("gpu_memset", "memset", *npu.FILLS)
_OF_DEVICE = {
    "cuda_sync": "wait", "xpu_sync": "wait",
    **dict.fromkeys(("gpu_user_annotation", *npu.NOTES), "device_annotation"),
    **dict.fromkeys(_COPIES, "memcpy"), **dict.fromkeys(_FILLS, "memset"),
    **dict.fromkeys(("collective_comm", *npu.COLLECTIVES), "comm_op"),
}  # fmt: skip
_KERNELS = ("kernel", "concurrent_kernel", "hpu_op", *npu.KERNELS)
_OF_HOST = {"cpu_op": "cpu_op", "operator": "cpu_op", "user_annotation": "annotation", "python_function": "python"}
_MTIA = {"dma_request": "memcpy", "event_wait": "wait", "event_record": "device_other"}


@dataclass(frozen=True)
class Shapes:
    """Kind and name of each shape, as the SQL table ``sort`` has them; shapes ascend."""

    shape: Ints
    device: Bools
    cat: Sequence[str]
    name: pa.Array
    kind: Sequence[str]
    fused: Bools
    collective: Sequence[str | None]

    def where(self, *kinds: str) -> Bools:
        return np.array([kind in kinds for kind in self.kind], bool)


@dataclass(frozen=True)
class Lanes:
    """Lanes of processes and threads; they are numbered from 0 on."""

    device: Bools
    spans: Ints
    first_row: Ints
    pid: Sequence[str]
    tid: Sequence[str]
    profiler: Bools
    waits: Bools
    track: Ints


class Trace:
    """Spans with their shapes and lanes."""

    def __init__(self, raws: Mapping[str, pa.Table]) -> None:
        self.raws = {name: Rows(table) for name, table in raws.items()}
        codes = self.raws["strings_raw"].ints("code")
        if not np.array_equal(codes, np.arange(-1, len(codes) - 1)):
            raise Unusual
        self.words: pa.Array = self.raws["strings_raw"].table["text"].combine_chunks()
        spans = self.raws["span_raw"]
        self.row, self.ts, self.dur, self.shape, self.lane = (
            spans.ints(name) for name in ("row", "ts", "dur", "shape", "lane")
        )
        if (np.diff(self.row) <= 0).any():
            raise Unusual
        self.shapes = self._shapes()
        self.of = np.searchsorted(self.shapes.shape, self.shape)  # the place of each span's shape
        self.lanes = self._lanes()

    def text(self, code: int) -> str | None:
        return self.words[code + 1].as_py() if -1 <= code < len(self.words) - 1 else None

    def texts(self, codes: Ints) -> Texts:
        """The texts of codes; NULL for none."""
        known, rows = np.unique(codes, return_inverse=True)
        here = (known >= -1) & (known < len(self.words) - 1)
        texts = self.words.take(pa.array(np.where(here, known + 1, 0), mask=~here))
        return Texts(rows.reshape(-1).astype(np.int64), pa.concat_arrays([texts, pa.nulls(1, pa.string())]))

    def place(self, rows: Ints) -> Ints:
        """The places of rows among the spans, or -1."""
        return lookup(rows, self.row)

    @cached_property
    def track(self) -> Ints:
        return self.lanes.track[self.lane]

    def kinds(self, *kinds: str) -> Bools:
        """The spans of some kinds."""
        return self.shapes.where(*kinds)[self.of]

    def _shapes(self) -> Shapes:
        known = np.unique(self.shape)
        number = dict(zip(self.raws["category_raw"].ints("number").tolist(),
                          self.raws["category_raw"].ints("code").tolist(), strict=True))  # fmt: skip
        cats = [(self.text(number[int(one)]) or "").lower() for one in (known >> 2) & 255]
        name = self.words.take(pa.array(known >> 16))  # code + 1
        device, said = (known & 1) == 1, (known & 2) == 2
        if "cuda_profiler_range" in cats:
            raise Unusual
        facts = comm_facts.facts()
        holds = {
            what: truths(pc.match_substring_regex(name, pattern)) & device
            for what, pattern in (
                ("known", facts.names), ("fuses", facts.fuses), ("pure", facts.pure), ("speaks", facts.speaks),
                ("computes", facts.arithmetic), ("waits", npu.WAITS), ("marks", npu.MARKS),
            )
        }  # fmt: skip
        holds["fused"] = holds["fuses"] & ~holds["pure"]
        holds["suspected"] = holds["speaks"] & ~holds["known"] & ~holds["computes"]
        marks, names = truths(pc.match_substring_regex(name, STEP_MARK)), name.to_pylist()
        kinds = []
        for place, (cat, text) in enumerate(zip(cats, names, strict=True)):
            if not device[place]:
                kinds.append(_of_host(cat, text, mark=bool(marks[place])))
                continue
            kind = _of_device(cat, text, {what: bool(rows[place]) for what, rows in holds.items()})
            told = said[place] and not holds["fused"][place] and kind in ("kernel", "unknown", "device_other")
            kinds.append("comm_op" if told else kind)
        fused = holds["fused"] & np.array([kind == "kernel" for kind in kinds], bool)
        collective = [_collective(text, facts) if of else None for text, of in zip(names, holds["known"], strict=True)]
        return Shapes(known, device, cats, name, kinds, fused, collective)

    def _lanes(self) -> Lanes:
        raw = self.raws["lane_raw"]
        if not np.array_equal(raw.ints("lane"), np.arange(len(raw))):
            raise Unusual
        device = truths(raw.table["device"].combine_chunks())
        pid, tid = ([text or "" for text in self.texts(raw.ints(name)).list] for name in ("pid", "tid"))
        cats = [{self.text(code) for code in codes or ()} for codes in raw.table["cats"].to_pylist()]
        busy = {pid[lane] for lane in np.flatnonzero(device & (raw.ints("spans") > 0)).tolist()}
        waits = [not device[lane] and cats[lane] == {"mtia_runtime"} and pid[lane] in busy for lane in range(len(raw))]
        profiler = [bool(found) and found <= {"Trace", "overhead"} for found in cats]
        keys = list(zip(device.tolist(), pid, tid, strict=True))
        tracks = {key: number for number, key in enumerate(sorted(set(keys)), 1)}
        return Lanes(
            device, raw.ints("spans"), raw.ints("first_row"), pid, tid, np.array(profiler, bool),
            np.array(waits, bool), np.array([tracks[key] for key in keys], np.int64),
        )  # fmt: skip


def _of_device(cat: str, name: str, holds: Mapping[str, bool]) -> str:
    if cat in ("cpu_op", "operator", "user_annotation"):
        return "comm_op" if name.startswith("gloo:") else "kernel"
    if cat == "mtia_ccp_events":
        return _MTIA.get(name, "kernel")
    if cat not in _KERNELS:
        return _OF_DEVICE.get(cat, "device_other")
    if holds["waits"] or holds["marks"]:
        return "wait" if holds["waits"] else "device_other"
    if holds["fused"]:
        return "kernel"
    return "comm_op" if holds["known"] else "unknown" if holds["suspected"] else "kernel"


def _of_host(cat: str, name: str, *, mark: bool) -> str:
    if name == "Python GC":
        return "gc"
    if mark and cat in ("cpu_op", "operator", "user_annotation"):
        return "step_mark"
    if cat == "runtime" or cat.endswith(("_runtime", "_driver")):
        return "runtime"
    return _OF_HOST.get(cat, "host_other")


def _collective(name: str, facts: comm_facts.Facts) -> str | None:
    """The kind of collective that the facts give for a name."""
    for fact in facts.kernel:
        if fact.collective and pc.match_substring_regex(pa.array([name]), fact.match)[0].as_py():
            return fact.collective
    return None


def give_spans(trace: Trace, shift: int, found: Found) -> None:
    kinds = pa.array([*trace.shapes.kind, "wait"], pa.string())
    waits = trace.lanes.waits[trace.lane] & trace.kinds("runtime")
    found.give("span", {
        "span_id": trace.row, "track": trace.track,
        "kind": kinds.take(pa.array(np.where(waits, len(kinds) - 1, trace.of))),
        "name": trace.shapes.name.take(pa.array(trace.of)), "ts_ns": trace.ts + shift, "dur_ns": trace.dur,
    })  # fmt: skip


@dataclass(frozen=True)
class Meta:
    """What metadata events say of a process or a thread."""

    name: str | None = None
    label: str | None = None
    sort: int | None = None


def metas(trace: Trace) -> tuple[dict[str, Meta], dict[tuple[str, str], Meta]]:
    """Of processes, and of threads; the last that says something stands."""
    raw = trace.raws["meta_raw"]
    order = np.argsort(raw.ints("row"), kind="stable")
    what, pid, tid, text, label = (
        trace.texts(raw.ints(name)[order]).list for name in ("name", "pid", "tid", "text", "label")
    )
    processes: dict[str, Meta] = {}
    threads: dict[tuple[str, str], Meta] = {}
    for kind, process, thread, name, told, sort in zip(
        what, pid, tid, text, label, raw.ints("sort")[order].tolist(), strict=True
    ):
        place = None if sort == NONE else sort
        if kind is None or process is None or thread is None:
            continue
        if kind.startswith("thread"):
            one = threads.get((process, thread), Meta())
            threads[process, thread] = _told(one, name if kind == "thread_name" else None, None, place)
        elif kind.startswith("process"):
            threads_of = processes.get(process, Meta())
            processes[process] = _told(threads_of, name if kind == "process_name" else None, told, place)
    return processes, threads


def _told(before: Meta, name: str | None, label: str | None, sort: int | None) -> Meta:
    return Meta(
        before.name if name is None else name, before.label if label is None else label,
        before.sort if sort is None else sort,
    )  # fmt: skip


def labels(trace: Trace) -> list[tuple[str, str]]:
    """Processes with the labels that metadata events give them."""
    raw = trace.raws["meta_raw"]
    pairs = zip(trace.texts(raw.ints("pid")).list, trace.texts(raw.ints("label")).list, strict=True)
    return [(pid, label) for pid, label in pairs if pid is not None and label is not None]


def give_tracks(trace: Trace, found: Found) -> None:
    lanes, (processes, threads) = trace.lanes, metas(trace)
    streams: dict[int, int] = {}
    device = trace.raws["device_raw"]
    stream, tracks = device.ints("stream"), lanes.track[device.ints("lane")]
    for track, number in zip(tracks.tolist(), stream.tolist(), strict=True):
        if 0 <= number < 2**63 - 1 and number != 4294967295:
            streams[track] = max(streams.get(track, number), number)
    rows = []
    for track in np.unique(lanes.track).tolist():
        of = np.flatnonzero(lanes.track == track)
        if not lanes.spans[of].sum():
            continue
        pid, tid = lanes.pid[of[0]], lanes.tid[of[0]]
        on_device = bool((lanes.device | lanes.waits)[of].any())
        profiler = all(lanes.profiler[lane] or lanes.pid[lane] in ("Spans", "Traces", "") for lane in of.tolist())
        starts = lanes.first_row[of]
        process, thread = processes.get(pid, Meta()), threads.get((pid, tid), Meta())
        number = streams.get(track, _number(tid) if on_device else None)
        rows.append({
            "track": track, "kind": "stream" if on_device else "profiler" if profiler else "host_thread",
            "name": _name(thread.name, pid, tid, number, on_device=on_device),
            "process": _first(process.label, process.name) if on_device else _first(process.name, process.label),
            "pid": pid, "tid": tid, "stream": number,
            "sort": (profiler and not on_device, on_device, _last(process.sort), _last(thread.sort),
                     int(starts[starts != NONE].min())),
        })  # fmt: skip
    rows.sort(key=lambda row: row["sort"])
    made = [row | {"sort": number} for number, row in enumerate(rows, 1)]
    found.tables["track"] = [pa.Table.from_pylist(made, _TRACK)]


_TRACK = pa.schema([
    ("track", pa.int64()), ("kind", pa.string()), ("name", pa.string()), ("process", pa.string()), ("pid", pa.string()),
    ("tid", pa.string()), ("stream", pa.int64()), ("sort", pa.int64()),
])  # fmt: skip


def _first(one: str | None, other: str | None) -> str | None:
    return other if one is None else one


def _last(value: int | None) -> tuple[bool, int]:
    return value is None, value or 0


def _number(tid: str) -> int | None:
    found = re.search(r"[0-9]+\Z", tid)
    number = int(found[0]) if found and len(found[0]) < 4000 else None
    return number if number is not None and number < 2**63 else None


def _name(thread: str | None, pid: str, tid: str, stream: int | None, *, on_device: bool) -> str:
    if thread is not None and thread.strip(" "):
        return thread.strip(" ")
    if on_device:
        return f"stream {tid if stream is None else stream}"
    if re.fullmatch(r"-?[0-9]+", tid):
        return f"thread {tid}"
    return tid or pid or "no thread given"
