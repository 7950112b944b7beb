"""The framework's part of trace_view.json: operators, the task queue, Python functions."""

from __future__ import annotations

from collections.abc import Iterator

from npulens.collectors.simulator.job import HostOp, PyFrame, Queued, RankRecord, Span
from npulens.collectors.writers.json_text import joined, quoted, us


class HostView:
    """The framework's events of one rank as JSON texts, in the order of the file."""

    def __init__(self, record: RankRecord) -> None:
        self.record = record
        self._at = {
            key: f'"pid": {record.pid}, "tid": {track.tid}'
            for key, track in record.tracks.items()
            if track.kind == "host_thread"
        }

    def events(self) -> Iterator[str]:
        by_end = sorted(self.record.of("cpu_op", "annotation", "step_mark"), key=lambda span: span.end_ns)
        yield from map(self._cpu_op, by_end)
        for kind, mark in (("enqueue", "s"), ("dequeue", "f")):
            for span in self.record.of(kind):
                yield from self._queue(span, kind, mark)
        for link in self.record.links:
            if link.route == "fwdbwd":
                yield from self._fwdbwd(self.record.by_id[link.src], self.record.by_id[link.dst])
        yield from self.metadata()
        yield from map(self._frame, sorted(self.record.of("python"), key=lambda span: span.end_ns))
        yield from self._garbage()

    def metadata(self) -> Iterator[str]:
        record = self.record

        def meta(name: str, tid: int, args: str) -> str:
            return f'{{"ph": "M", "name": "{name}", "pid": {record.pid}, "tid": {tid}, "args": {{{args}}}}}'

        yield meta("process_name", 0, '"name": "Python"')
        yield meta("process_labels", 0, '"labels": "CPU"')
        yield meta("process_sort_index", 0, '"sort_index": 0')
        for tid in (record.main_tid, record.backward_tid, record.queue_tid):
            yield meta("thread_name", tid, f'"name": "Thread {tid}"')
            yield meta("thread_sort_index", tid, f'"sort_index": {tid}')

    def _garbage(self) -> Iterator[str]:
        """Collections have a process of their own, which is only there if one was recorded."""
        spans, pid = self.record.of("gc"), self.record.pid << 10 | 1 << 5
        if not spans:
            return
        name = '{"ph": "M", "name": "process_name", "pid": %d, "tid": 0, "args": {"name": "Python GC"}}'
        sort = '{"ph": "M", "name": "process_sort_index", "pid": %d, "tid": 0, "args": {"sort_index": 1}}'
        yield from (name % pid, sort % pid)
        for span in spans:
            place = f'"pid": {pid}, "tid": {self.record.tracks[span.track].tid}'
            yield (
                f'{{"ph": "X", "name": "GC", {place}, "ts": "{us(span.ts_ns)}", "dur": {span.dur_ns / 1000}, '
                f'"cat": "GC", "args": {{}}}}'
            )

    def _head(self, span: Span) -> str:
        return (
            f'{{"ph": "X", "name": {quoted(span.name)}, {self._at[span.track]}, "ts": "{us(span.ts_ns)}", '
            f'"dur": {span.dur_ns / 1000}, "cat": '
        )

    def _cpu_op(self, span: Span) -> str:
        op = span.detail
        assert isinstance(op, HostOp)
        args = f'"Sequence number": {op.sequence}, "Fwd thread id": {op.fwd_thread}'
        if op.shapes is not None:
            args += f', "Input Dims": {joined(op.shapes)}, "Input type": {joined(op.dtypes or ())}'
        if op.stack:
            args += f', "Call stack": {joined(op.stack)}'
        return f'{self._head(span)}"cpu_op", "args": {{{args}}}}}'

    def _frame(self, span: Span) -> str:
        frame = span.detail
        assert isinstance(frame, PyFrame)
        module = "" if frame.module is None else f', "Python module id": {frame.module}'
        args = f'"Python id": {frame.py_id}, "Python parent id": {frame.parent}{module}'
        return f'{self._head(span)}"python_function", "args": {{{args}}}}}'

    def _queue(self, span: Span, kind: str, mark: str) -> Iterator[str]:
        assert isinstance(span.detail, Queued)
        number = span.detail.correlation
        yield f'{self._head(span)}"{kind}", "args": {{"correlation_id": {number}}}}}'
        yield (
            f'{{"ph": "{mark}", "bp": "e", "name": "enqueue_to_dequeue", "id": {number}, {self._at[span.track]}, '
            f'"ts": "{us(span.ts_ns)}", "cat": "async_task_queue"}}'
        )

    def _fwdbwd(self, forward: Span, backward: Span) -> Iterator[str]:
        assert isinstance(forward.detail, HostOp)
        for mark, span in (("s", forward), ("f", backward)):
            yield (
                f'{{"ph": "{mark}", "bp": "e", "name": "fwdbwd", "id": {forward.detail.sequence}, '
                f'{self._at[span.track]}, "ts": "{us(span.ts_ns)}", "cat": "fwdbwd"}}'
            )
