"""The framework's tables: PYTORCH_API with operators, queue and Python functions, their connections and call chains."""

from __future__ import annotations

from collections.abc import Iterator

from npulens.collectors.simulator.job import HostOp, Kernel, PyFrame, Queued, RankRecord, Span
from npulens.collectors.writers.ascend import AscendOptions
from npulens.collectors.writers.db_schema import Database, Value
from npulens.collectors.writers.db_strings import Strings

_STRINGS = 1 << 28
_OP, _QUEUE, _TRACE = 50001, 50002, 50003
_FORWARD = 50_000_000  # connection of a forward operator with its backward, beside those of the queue


class _Connections:
    """CONNECTION_IDS: one id may stand for several connections."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self._next = 0

    def add(self, connections: list[int]) -> int | None:
        if not connections:
            return None
        number = self._next
        self._next += 1
        self.rows += [(number, connection) for connection in connections]
        return number


def write_host(record: RankRecord, db: Database, strings: Strings, options: AscendOptions) -> None:
    strings.start(_STRINGS)
    base = 1 << 24 if options.old else 5 << 28
    connections = _Connections()
    tids = {key: record.pid << 32 | track.tid for key, track in record.tracks.items()}
    db.insert("PYTORCH_API", _simple(record.of("python"), tids, strings, None, base))
    for kind in ("enqueue", "dequeue"):
        db.insert("PYTORCH_API", _simple(record.of(kind), tids, strings, connections, base))
    chains: list[tuple[int, ...]] = []
    launched = _launched(record)
    for span in record.of("cpu_op", "annotation", "step_mark"):
        assert isinstance(span.detail, HostOp)
        mine = [base + _FORWARD + span.detail.sequence] if span.detail.sequence >= 0 else []
        mine += launched.get(span.id, [])
        db.insert("PYTORCH_API", [_operator(span, span.detail, tids, strings, connections.add(mine), chains)])
    if "GC_RECORD" in db:
        db.insert("GC_RECORD", [(span.ts_ns, span.end_ns, tids[span.track]) for span in record.of("gc")])
    db.insert("CONNECTION_IDS", connections.rows)
    db.insert("PYTORCH_CALLCHAINS", chains)


def _launched(record: RankRecord) -> dict[int, list[int]]:
    """Operator -> connections of its node-level launches; copies are not launched through a node."""
    found: dict[int, list[int]] = {}
    for link in record.links:
        if link.route == "torch_to_npu":
            target = record.by_id[link.dst]
            if target.kind == "comm_op" or isinstance(target.detail, Kernel):
                found.setdefault(link.src, []).append(target.detail.connection)  # type: ignore[union-attr]
    return found


def _simple(
    spans: list[Span], tids: dict[str, int], strings: Strings, connections: _Connections | None, base: int
) -> Iterator[tuple[Value, ...]]:
    for span in spans:
        assert isinstance(span.detail, PyFrame | Queued)
        number, kind = None, _TRACE
        if connections is not None and isinstance(span.detail, Queued):
            number, kind = connections.add([base + span.detail.correlation]), _QUEUE
        head = (str(span.ts_ns), str(span.end_ns), tids[span.track], number, strings[span.name])
        yield (*head, None, None, None, None, None, kind)


def _operator(
    span: Span, op: HostOp, tids: dict[str, int], strings: Strings, number: int | None, chains: list[tuple[int, ...]]
) -> tuple[Value, ...]:
    chain = None
    if op.stack:
        chain = chains[-1][0] + 1 if chains else 0
        chains += [(chain, strings[frame], depth) for depth, frame in enumerate(op.stack)]
    dtypes = None if op.dtypes is None else strings[";\r\n".join(op.dtypes)]
    shapes = None if op.shapes is None else strings[";\r\n".join(op.shapes)]
    head = (str(span.ts_ns), str(span.end_ns), tids[span.track], number, strings[span.name])
    return (*head, op.sequence, op.fwd_thread, dtypes, shapes, chain, _OP)
