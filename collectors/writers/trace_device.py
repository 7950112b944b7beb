"""The part of CANN and the device in trace_view.json: calls, tasks, communication, counters, and the lanes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from npulens.collectors.simulator.job import (
    NONE_ID,
    CommOp,
    CommTask,
    Copy,
    Kernel,
    RankRecord,
    Runtime,
    Sample,
    Span,
    Task,
    Track,
)
from npulens.collectors.writers.ascend import DIRECTIONS, UNTYPED, AscendOptions, flow_sources, hardware_task_type
from npulens.collectors.writers.json_text import quoted, us
from npulens.collectors.writers.profiler_rules import lanes

_LAYERS = {  # process -> sort index in Jan-2025, and now
    "CANN": (7, 7),
    "Ascend Hardware": (13, 14),
    "AI Core Freq": (14, 15),
    "HCCL": (15, 16),
    "HBM": (17, 24),
    "LLC": (18, 27),
    "NPU MEM": (19, 17),
    "Overlap Analysis": (23, 31),
}
_LANES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
_LEVELS = {"acl": "AscendCL", "node": "Node", "runtime": "Runtime"}


class _Bar(NamedTuple):
    lane: int
    ts_ns: int
    dur_ns: int


class DeviceView:
    """The events of CANN and the device of one rank as JSON texts, in the order of the file."""

    def __init__(self, record: RankRecord, options: AscendOptions) -> None:
        self.record, self.options = record, options
        self._sources = flow_sources(record, options)
        self._arrows = {target.id for targets in self._sources.values() for target in targets}
        self._groups = [track for track in record.tracks.values() if track.kind == "comm_group"]
        self._at: dict[str, str] = {}
        self._comm_threads: list[tuple[int, str]] = []
        self._place_tracks()

    def _place_tracks(self) -> None:
        """Where each track is drawn; a communication group takes a thread for itself and one per plane."""
        hardware, cann, comm = map(self.layer, ("Ascend Hardware", "CANN", "HCCL"))
        for track in self.record.tracks.values():
            if track.kind in ("stream", "host_thread"):
                pid = hardware if track.kind == "stream" else cann
                self._at[track.key] = f'"pid": {pid}, "tid": {track.tid}'
        free = 0
        for index, group in enumerate(self._groups):
            shown = str(index) if self.options.old else group.group
            threads = [(group, f"Group {shown} Communication")]
            threads += [(track, f"Plane {track.plane}") for track in self._planes(group) if self.options.api]
            for track, name in threads:
                self._at[track.key] = f'"pid": {comm}, "tid": {free}'
                self._comm_threads.append((free, name))
                free += 1

    def _planes(self, group: Track) -> list[Track]:
        planes = [t for t in self.record.tracks.values() if t.kind == "comm_plane" and t.group == group.group]
        return sorted(planes, key=lambda track: track.plane or 0)

    def layer(self, process: str) -> int:
        sort = _LAYERS[process][0 if self.options.old else 1]
        return self.record.pid << 10 | sort << 5 | (31 if process == "CANN" else self.record.device)

    # -- names -------------------------------------------------------------------------------------------------------

    def metadata(self) -> Iterator[str]:
        for process, (old, new) in _LAYERS.items():
            if (process == "CANN" and not self.options.api) or (process == "AI Core Freq" and self.options.first):
                continue
            pid = self.layer(process)

            def meta(name: str, tid: int, args: str, pid: int = pid) -> str:
                return f'{{"name": "{name}", "pid": {pid}, "tid": {tid}, "args": {{{args}}}, "ph": "M"}}'

            shown = "Communication" if process == "HCCL" and not self.options.old else process
            yield meta("process_name", 0, f'"name": "{shown}"')
            for tid, name in self._threads(process):
                yield meta("thread_name", tid, f'"name": {quoted(name)}')
                yield meta("thread_sort_index", tid, f'"sort_index": {tid}')
            label = "CPU" if process == "CANN" else "NPU" if self.options.old else f"NPU {self.record.device}"
            yield meta("process_labels", 0, f'"labels": "{label}"')
            yield meta("process_sort_index", 0, f'"sort_index": {old if self.options.old else new}')

    def _threads(self, process: str) -> Iterator[tuple[int, str]]:
        tracks = self.record.tracks.values()
        if process == "CANN":
            yield from ((track.tid, f"Thread {track.tid}") for track in tracks if track.kind == "host_thread")
        elif process == "Ascend Hardware":
            yield from ((track.tid, f"Stream {track.tid}") for track in tracks if track.kind == "stream")
        elif process == "HCCL":
            yield from self._comm_threads
        elif process == "Overlap Analysis":
            yield from enumerate(_LANES)

    # -- events ------------------------------------------------------------------------------------------------------

    def events(self) -> Iterator[str]:
        """Everything by time."""
        drawn = ("runtime", "kernel", "memset", "memcpy", "wait", "device_other", "comm_op", "comm_task")
        rows: list[Span | Sample | _Bar] = [span for span in self.record.spans if span.kind in drawn]
        rows += self.record.samples
        for number, lane in enumerate(lanes(self.record)):
            rows += [_Bar(number, start, end - start) for start, end in lane]
        rows.sort(key=lambda row: row.ts_ns)
        for row in rows:
            if isinstance(row, Span):
                yield from self._span(row)
            elif isinstance(row, Sample):
                yield self._sample(row)
            else:
                yield self._bar(row)

    def _span(self, span: Span) -> Iterator[str]:
        detail = span.detail
        if isinstance(detail, Runtime):
            if self.options.shows(detail):
                yield self._call(span, detail)
            if span.id in self._sources:
                number = self._flow_id(detail.connection)
                yield (
                    f'{{"name": "HostToDevice{number}", "ph": "s", "cat": "HostToDevice", "id": "{number}", '
                    f'{self._at[span.track]}, "ts": "{us(span.ts_ns)}"}}'
                )
            return
        if isinstance(detail, CommOp):
            yield self._operator(span, detail)
        elif isinstance(detail, CommTask):
            yield self._hardware(span, detail, detail.context)
            if self.options.api:
                yield self._comm_task(span, detail)
        elif isinstance(detail, Kernel | Copy | Task):
            context = detail.context if isinstance(detail, Kernel) else NONE_ID
            yield self._hardware(span, detail, context)
        if span.id in self._arrows:
            assert isinstance(detail, Kernel | Copy | Task | CommOp)
            number = self._flow_id(detail.connection)
            yield (
                f'{{"name": "HostToDevice{number}", "ph": "f", "id": "{number}", "ts": "{us(span.ts_ns)}", '
                f'"cat": "HostToDevice", {self._at[span.track]}, "bp": "e"}}'
            )

    def arrows(self) -> Iterator[str]:
        """torch_to_npu: from the operator to what it had the device do, named by when that started."""
        host = self.record.pid
        for link in self.record.links:
            if link.route != "torch_to_npu":
                continue
            source, target = self.record.by_id[link.src], self.record.by_id[link.dst]
            tid = self.record.tracks[source.track].tid
            head = f'"bp": "e", "name": "torch_to_npu", "id": {target.ts_ns}'
            yield f'{{"ph": "s", {head}, "pid": {host}, "tid": {tid}, "ts": "{us(source.ts_ns)}", "cat": "async_npu"}}'
            place = self._at[target.track]
            yield f'{{"ph": "f", {head}, {place}, "ts": "{us(target.ts_ns)}", "cat": "async_npu"}}'

    def _flow_id(self, connection: int) -> int:
        return connection if self.options.old else connection << 32

    def _call(self, span: Span, call: Runtime) -> str:
        tid = self.record.tracks[span.track].tid
        name, number, item = f"{_LEVELS.get(call.level, 'Communication')}@{call.item}", call.item, "0"
        if call.level == "node":
            name, number, item = "Node@launch", "0", call.item
        elif call.level == "runtime":
            number = "0"
        elif call.mode == "HOST_HCCL":
            item = call.item
        level = call.level
        if call.level == "hccl":
            launch = "Launch_Ffts" if self.options.old else "Launch"
            name, number, item = f"{'Hccl' if self.options.old else 'Communication'}@{launch}", "0", launch
            level = "hccl" if self.options.old else "communication"
        return (
            f'{{"name": {quoted(name)}, {self._at[span.track]}, "ts": "{us(span.ts_ns)}", "dur": {span.dur_ns / 1000}, '
            f'"args": {{"Thread Id": {tid}, "Mode": "{call.mode}", "level": "{level}", "id": {quoted(number)}, '
            f'"item_id": {quoted(item)}, "connection_id": {call.connection}}}, "ph": "X"}}'
        )

    def _hardware(self, span: Span, task: Kernel | Copy | Task | CommTask, context: int) -> str:
        kind = "Other" if self.options.first else hardware_task_type(span)
        name = span.name
        if isinstance(task, CommTask):
            name = UNTYPED[name] if self.options.first else kind
        model = task.graph if isinstance(task, Kernel) and task.graph else NONE_ID
        track = f"stream {task.stream}"
        extra = ""
        if isinstance(task, Copy) and self.options.transfers:
            where = DIRECTIONS[task.direction]
            extra = f', "data size(Byte)": {task.bytes}, "memcpy direction": "{where}"'
            if not self.options.old:
                rate = task.bytes / span.dur_ns
                extra = f', "size(B)": {task.bytes}, "bandwidth(GB/s)": {rate}, "operation": "{where}"'
        return (
            f'{{"name": {quoted(name)}, {self._at[track]}, "ts": "{us(span.ts_ns)}", "dur": {span.dur_ns / 1000}, '
            f'"args": {{"Model Id": {model}, "Task Type": "{kind}", "Physic Stream Id": {task.stream}, '
            f'"Task Id": {task.task}, "Batch Id": 0, "Subtask Id": {context}, '
            f'"connection_id": {task.connection}{extra}}}, "ph": "X"}}'
        )

    def _operator(self, span: Span, op: CommOp) -> str:
        head = "" if self.options.old else f'"rank_size": {op.ranks}, '
        tail = "" if self.options.old else ', "relay": "no", "retry": "no"'
        return (
            f'{{"name": "{span.name}", {self._at[span.track]}, "ts": "{us(span.ts_ns)}", "dur": {span.dur_ns / 1000}, '
            f'"args": {{{head}"connection_id": {op.connection}, "model id": {NONE_ID}, "data_type": "{op.dtype}", '
            f'"alg_type": "{op.algorithm}", "count": {op.elements}{tail}}}, "ph": "X"}}'
        )

    def _comm_task(self, span: Span, task: CommTask) -> str:
        rate = task.bytes / span.dur_ns if span.dur_ns else 0.0
        expected = task.bytes / 19.3 / 1000 + 0.6 if task.bytes else 0.02 if task.task_type == "Notify_Wait" else 1
        return (
            f'{{"name": "{span.name}", {self._at[span.track]}, "ts": "{us(span.ts_ns)}", "dur": {span.dur_ns / 1000}, '
            f'"args": {{"notify_id": "{task.notify}", "duration estimated(us)": {expected}, '
            f'"stream id": {task.stream}, "task id": {task.task}, "context id": {task.context}, '
            f'"task type": "{task.task_type}", "src rank": {task.src}, "dst rank": {task.dst}, '
            f'"transport type": "{task.transport}", "size(Byte)": {task.bytes}, "data type": "{task.dtype}", '
            f'"link type": "{task.link}", "bandwidth(GB/s)": {rate}, "model id": {NONE_ID}}}, "ph": "X"}}'
        )

    def _sample(self, sample: Sample) -> str:
        process = "NPU MEM" if sample.series == "KB" else sample.counter.split()[0]
        pid = self.layer("AI Core Freq" if process == "AI" else process)
        value = sample.value if sample.series == "MHz" else float(sample.value)
        return (
            f'{{"name": "{sample.counter}", "ts": "{us(sample.ts_ns)}", "pid": {pid}, "tid": 0, '
            f'"args": {{"{sample.series}": {value}}}, "ph": "C"}}'
        )

    def _bar(self, bar: _Bar) -> str:
        pid = self.layer("Overlap Analysis")
        return (
            f'{{"name": "{_LANES[bar.lane]}", "pid": {pid}, "tid": {bar.lane}, "ts": "{us(bar.ts_ns)}", '
            f'"dur": {bar.dur_ns / 1000}, "ph": "X"}}'
        )
