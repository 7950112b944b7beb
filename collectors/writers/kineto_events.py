"""The events of a Kineto trace: host, device, arrows and names."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache

from npulens.collectors.simulator.job import (
    UNKNOWN,
    CommOp,
    Copy,
    HostOp,
    Job,
    Kernel,
    PyFrame,
    RankRecord,
    Runtime,
    Span,
)
from npulens.collectors.writers.json_text import quoted
from npulens.collectors.writers.kineto_names import Spelling

_UNMATCHED = 10_000_000  # from here on correlations that no call has
_COLLECTIVES = {"receive": "recv", "batchsendrecv": "coalesced"}


def number(ns: int) -> str:
    """us as a JSON number with all its ns; as Kineto writes stamps since its base time."""
    return f"{ns // 1000}.{ns % 1000:03d}"


@lru_cache(maxsize=4_096)
def _dims(shapes: tuple[str, ...]) -> str:
    return json.dumps([[int(side) for side in shape.split(",")] if shape else [] for shape in shapes])


@lru_cache(maxsize=4_096)
def _strings(texts: tuple[str, ...]) -> str:
    return json.dumps(list(texts))


class KinetoView:
    def __init__(self, job: Job, record: RankRecord, spelling: Spelling, zero: int) -> None:
        self.job, self.record, self.spelling, self.zero = job, record, spelling, zero
        self._at = {
            key: f'"pid": {record.pid}, "tid": {track.tid}'
            for key, track in record.tracks.items()
            if track.kind == "host_thread"
        }
        self._external = self._external_ids()
        self._caller, self._targets = self._launches()
        self._index = 0

    def _external_ids(self) -> dict[int, int]:
        """Every operator has one; a command that is not shown answers with its caller's."""
        ids: dict[int, int] = {}
        above: dict[str, list[Span]] = {}
        for span in self.record.of("cpu_op", "annotation", "step_mark"):
            stack = above.setdefault(span.track, [])
            while stack and stack[-1].end_ns <= span.ts_ns:
                stack.pop()
            shown = self.spelling.shows(span) or not stack
            ids[span.id] = len(ids) + 1 if shown else ids[stack[-1].id]
            stack.append(span)
        return ids

    def _launches(self) -> tuple[dict[int, int], dict[int, list[Span]]]:
        """Device span -> operator, and runtime call -> device spans."""
        caller: dict[int, int] = {}
        targets: dict[int, list[Span]] = {}
        for link in self.record.links:
            if link.route == "torch_to_npu":
                caller[link.dst] = link.src
            elif link.route == "host_to_device":
                targets.setdefault(link.src, []).append(self.record.by_id[link.dst])
        return caller, targets

    def all(self) -> Iterator[str]:
        yield from self.events()
        yield from self.metadata()

    def events(self) -> Iterator[str]:
        for span in self.record.spans:
            if span.kind in ("cpu_op", "annotation", "step_mark"):
                if self.spelling.shows(span):
                    yield self._operator(span)
            elif span.kind == "python":
                yield self._frame(span)
            elif span.kind == "gc":
                yield self._host(span._replace(name="Python GC"), "python_function", '"Python module id": null')
            elif span.kind == "runtime":
                yield from self._call(span)
            elif span.kind in ("kernel", "memset", "memcpy", "comm_op"):
                yield from self._task(span)
        for link in self.record.links:
            if link.route == "fwdbwd":
                yield from self._fwdbwd(self.record.by_id[link.src], self.record.by_id[link.dst])
        for start, end, name, external in device_annotations(self.record):
            stream = self.spelling.stream(2)
            head = self._event("gpu_user_annotation", name, f'"pid": {self.record.device}, "tid": {stream}', start)
            yield f'{head}, "dur": {number(end - start)}, "args": {{"External id": {self._external[external]}}}}}'
        yield from self._memory()

    def _event(self, category: str, name: str, place: str, ts: int) -> str:
        return f'  {{"ph": "X", "cat": "{category}", "name": {quoted(name)}, {place}, "ts": {number(ts - self.zero)}'

    def _host(self, span: Span, category: str, args: str) -> str:
        self._index += 1
        head = self._event(category, span.name, self._at[span.track], span.ts_ns)
        return f'{head}, "dur": {number(span.dur_ns)}, "args": {{{args}, "Ev Idx": {self._index - 1}}}}}'

    def _operator(self, span: Span) -> str:
        op = span.detail
        assert isinstance(op, HostOp)
        args = f'"External id": {self._external[span.id]}, "Record function id": 0'
        if op.shapes is not None:
            args += f', "Input type": {_strings(op.dtypes or ())}, "Input Dims": {_dims(op.shapes)}'
        if op.sequence >= 0:
            args += f', "Sequence number": {op.sequence}, "Fwd thread id": {op.fwd_thread}'
        if op.call is not None:
            args += ", " + self._collective(op.call.group, op.call.collective, op.call.elements, op.call.dtype)
        return self._host(span, "cpu_op" if span.kind == "cpu_op" else "user_annotation", args)

    def _collective(self, group: str, collective: str, elements: int, dtype: str) -> str:
        names = [item.name for item in self.job.groups_of(self.record.rank)]
        shown = _COLLECTIVES.get(collective, collective)
        ranks, kind = self.job.group(group).ranks, self.job.group(group).kind
        return (
            f'"Collective name": "{shown}", "In msg nelems": {elements}, "Out msg nelems": {elements}, '
            f'"Group size": {len(ranks)}, "dtype": "{dtype}", "In split size": "[]", "Out split size": "[]", '
            f'"Process Group Name": "{names.index(group)}", "Process Group Description": "{kind}", '
            f'"Process Group Ranks": "{list(ranks)}"'
        )

    def _frame(self, span: Span) -> str:
        frame = span.detail
        assert isinstance(frame, PyFrame)
        parent = "null" if frame.parent == frame.py_id else str(frame.parent)
        args = f'"Python parent id": {parent}, "Python id": {frame.py_id}'
        return self._host(
            span, "python_function", args if frame.module is None else f'{args}, "Python module id": {frame.module}'
        )

    def _call(self, span: Span) -> Iterator[str]:
        call = span.detail
        assert isinstance(call, Runtime)
        found = self.spelling.call(call)
        if found is None:
            return
        targets = [target for target in self._targets.get(span.id, []) if self.spelling.task(target) is not None]
        caller = next((self._caller[target.id] for target in targets if target.id in self._caller), None)
        external = "" if caller is None else f'"External id": {self._external[caller]}, '
        head = self._event(self.spelling.runtime_category, found[0], self._at[span.track], span.ts_ns)
        yield (
            f'{head}, "dur": {number(span.dur_ns)}, '
            f'"args": {{{external}"cbid": {found[1]}, "correlation": {call.connection}}}}}'
        )
        if targets:
            yield self._arrow("ac2g", "s", call.connection, self._at[span.track], span.ts_ns)

    def _arrow(self, name: str, mark: str, number_: int, place: str, ts: int) -> str:
        bind = ', "bp": "e"' if mark == "f" else ""
        return (
            f'  {{"ph": "{mark}", "id": {number_}, {place}, "ts": {number(ts - self.zero)}, '
            f'"cat": "{name}", "name": "{name}"{bind}}}'
        )

    def _fwdbwd(self, forward: Span, backward: Span) -> Iterator[str]:
        assert isinstance(forward.detail, HostOp)
        for mark, span in (("s", forward), ("f", backward)):
            yield self._arrow("fwdbwd", mark, forward.detail.sequence, self._at[span.track], span.ts_ns)

    def _task(self, span: Span) -> Iterator[str]:
        detail = span.detail
        assert isinstance(detail, Kernel | Copy | CommOp)
        found = self.spelling.task(span)
        assert found is not None
        stream, device = self.spelling.stream(detail.stream), self.record.device
        place = f'"pid": {device}, "tid": {stream}'
        known = detail.connection != UNKNOWN
        number_ = detail.connection if known else _UNMATCHED + span.id
        external = self._external.get(self._caller.get(span.id, 0), 0)
        node = isinstance(detail, Kernel) and detail.graph
        args = "" if node else f'"External id": {external}, '
        args += f'"device": {device}, "context": 1, "stream": {stream}, '
        args += f'"correlation": {number_}'
        if found[0] == "kernel":
            args += ", " + self._kernel(detail)
        else:
            size = detail.bytes if isinstance(detail, Copy) else span.dur_ns * 900
            args += f', "bytes": {size}, "memory bandwidth (GB/s)": {size / span.dur_ns}'
        head = self._event(found[0], found[1], place, span.ts_ns)
        yield f'{head}, "dur": {number(span.dur_ns)}, "args": {{{args}}}}}'
        if known:
            yield self._arrow("ac2g", "f", detail.connection, place, span.ts_ns)

    def _kernel(self, detail: Kernel | Copy | CommOp) -> str:
        if isinstance(detail, CommOp):
            args = '"registers per thread": 96, "shared memory": 82240, "grid": [24, 1, 1], "block": [544, 1, 1]'
            return f"{args}, {self._collective(detail.group, detail.collective, detail.elements, 'BFloat16')}"
        assert isinstance(detail, Kernel)
        sides = [int(side) for side in detail.outputs.shapes.split(";")[0].split(",") if side]
        rows, columns = max(1, (sides[0] if sides else 1) // 128), max(1, len(sides))
        blocks = rows  # as the bundled sample has it, where nothing is planted
        if self.job.config.keyed:
            rows, columns = (max(1, -(-side // 128)) for side in (*sides, 1, 1)[:2])  # tiles of 128 x 128
            blocks = rows * columns
        return (
            f'"queued": 0, "registers per thread": 64, "shared memory": 0, "blocks per SM": {blocks / 108:.6f}, '
            f'"grid": [{rows}, {columns}, 1], "block": [128, 1, 1], "est. achieved occupancy %": 50'
        )

    def _memory(self) -> Iterator[str]:
        """Each allocation and release as an instant on the thread of the script."""
        rows = []
        for index, block in enumerate(self.record.memory):
            rows.append((block.ts_ns, block.bytes, block.totals, index))
            if block.release_ns is not None and block.release_totals is not None:
                rows.append((block.release_ns, -block.bytes, block.release_totals, index))
        place = self._at[f"thread {self.record.main_tid}"]
        for ts, size, totals, index in sorted(rows):
            self._index += 1
            yield (
                f'  {{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", {place}, '
                f'"ts": {number(ts - self.zero)}, "args": {{"Total Reserved": {totals[1]}, '
                f'"Total Allocated": {totals[0]}, "Bytes": {size}, "Addr": {139_637_976_727_552 + (index << 24)}, '
                f'"Device Id": {self.record.device}, "Device Type": 1, "Ev Idx": {self._index - 1}}}}}'
            )

    def metadata(self) -> Iterator[str]:
        record, begin = self.record, number(self.record.begin_ns - self.zero)

        def meta(name: str, pid: str, tid: str, args: str) -> str:
            return f'  {{"name": "{name}", "ph": "M", "ts": {begin}, "pid": {pid}, "tid": {tid}, "args": {{{args}}}}}'

        device = str(record.device)
        for pid, label, sort in ((str(record.pid), "CPU", record.pid), (device, f"GPU {device}", 5_000_000)):
            yield meta("process_name", pid, "0", '"name": "python3"')
            yield meta("process_labels", pid, "0", f'"labels": "{label}"')
            yield meta("process_sort_index", pid, "0", f'"sort_index": {sort}')
        for track in record.tracks.values():
            if track.kind == "host_thread":
                place, name = (str(record.pid), str(track.tid)), f"thread {track.tid} (python3)"
            elif track.kind == "stream" and track.tid:
                stream = self.spelling.stream(track.tid)
                place, name = (device, str(stream)), f"stream {stream} "
            else:
                continue
            yield meta("thread_name", *place, f'"name": "{name}"')
            yield meta("thread_sort_index", *place, f'"sort_index": {place[1]}')
        length = number(record.end_ns - record.begin_ns)
        yield (
            f'  {{"ph": "X", "cat": "Trace", "ts": {begin}, "dur": {length}, "pid": "Spans", '
            f'"tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {{"Op count": 0}}}}'
        )
        yield meta("process_sort_index", '"Spans"', "0", '"sort_index": 536870912')
        mark = '"ph": "i", "s": "g"'
        yield (
            f'  {{"name": "Iteration Start: PyTorch Profiler", {mark}, "pid": "Traces", '
            f'"tid": "Trace PyTorch Profiler", "ts": {begin}}}'
        )
        end = number(record.end_ns - self.zero)
        yield f'  {{"name": "Record Window End", {mark}, "pid": "", "tid": "", "ts": {end}}}'


def device_annotations(record: RankRecord) -> Iterator[tuple[int, int, str, int]]:
    """(start, end, name, host span) of each annotation on the compute stream: all that was launched within it."""
    launched = []
    for link in record.links:
        target = record.by_id[link.dst]
        if link.route == "torch_to_npu" and target.track == "stream 2":
            launched.append((record.by_id[link.src].ts_ns, target))
    launched.sort(key=lambda row: row[0])
    starts = [row[0] for row in launched]
    for span in record.of("annotation", "step_mark"):
        mine = [task for _, task in launched[bisect_left(starts, span.ts_ns) : bisect_left(starts, span.end_ns)]]
        if mine:
            yield min(t.ts_ns for t in mine), max(t.end_ns for t in mine), span.name, span.id
