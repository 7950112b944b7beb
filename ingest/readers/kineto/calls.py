"""Calls, operators and tasks by their numbers while a trace is read: which launched which, without a join."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.readers.kineto.shape import LAUNCHED
from npulens.ingest.readers.kineto.spans import Spans
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.ready import Ready
from npulens.ingest.tables.runs import Looks
from npulens.ingest.tables.steps import Ints

#: Bytes of calls, operators and tasks that are held at most.
_MOST = 40 << 20
_BATCH = 40_960
_KERNELS = """SELECT row, stream, grid, block, registers, shared_bytes, occupancy FROM task
    WHERE kind IN ('kernel', 'memset')"""


class _Calls(NamedTuple):
    """Calls that have a correlation."""

    row: Ints
    ts: Ints
    lane: Looks
    look: Looks
    correlation: Ints


class _Operators(NamedTuple):
    """Spans of the host that have an External id."""

    row: Ints
    look: Looks
    external: Ints


class _Tasks(NamedTuple):
    """Spans of the device, with their correlation and their External id; 0 is none."""

    row: Ints
    ts: Ints
    look: Looks
    correlation: Ints
    external: Ints


Some = TypeVar("Some", _Calls, _Operators, _Tasks)


class Calls:
    """What the two sides of one trace call each other."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._calls: list[_Calls] = []
        self._operators: list[_Operators] = []
        self._tasks: list[_Tasks] = []
        self._held = 0
        self._of: tuple[Ints, Ints] | None = None  # rows of tasks, ascending, and those of their operators
        self._linked: pa.Table | None = None

    def add(
        self, row: Ints, ts: Ints, lane: Looks, shape: Ints, correlation: pa.Array, external: pa.Array, *, device: bool
    ) -> None:
        """Spans of one side."""
        if self._held > _MOST:
            return
        look = self._spans.number(shape)
        ties, ids = (pc.fill_null(column, 0).to_numpy(zero_copy_only=False) for column in (correlation, external))
        if device:
            self._tasks.append(_Tasks(row, ts, look, ties, ids))
            self._held += 36 * len(row)
        else:
            self._calls.append(_some(_Calls(row, ts, lane, look, ties), ties != 0))
            self._operators.append(_some(_Operators(row, look, ids), ids != 0))
            self._held += 32 * len(self._calls[-1].row) + 20 * len(self._operators[-1].row)
        if self._held > _MOST:
            self._calls, self._operators, self._tasks = [], [], []

    def link(self, draft: Draft) -> bool:
        """Make ``linked_1`` and ``of_operator``; False where it takes a join: too many, or calls that begin at once."""
        told = self._spans.told(draft)
        if told is None or not self._calls or not self._tasks:
            return False
        kind = told["kind"]
        launched = _of(pc.and_(pc.is_in(kind, pa.array(LAUNCHED)), pc.not_equal(told["cat"], "cuda_profiler_range")))
        operators, graphs = _of(pc.equal(kind, "cpu_op")), _of(pc.match_substring(told["text"], "GraphLaunch"))
        task = _joined(self._tasks)
        task = _some(task, launched[task.look])
        # One call may launch many tasks; of several calls of a correlation the earliest launched them.
        call = _joined(self._calls)
        call = _some(call, np.lexsort((call.ts, call.correlation)))
        first = np.searchsorted(call.correlation, task.correlation)
        many = np.where(task.correlation != 0, np.searchsorted(call.correlation, task.correlation, "right") - first, 0)
        several = first[many > 1]
        if (call.ts[several] == call.ts[several + 1]).any():
            return False
        linked = many > 0
        src = _some(call, first[linked])
        self._linked = pa.table({
            "src": src.row, "dst": task.row[linked], "call": self._spans.shape(src.look),
            "route": pa.repeat("correlation", len(src.row)), "late": task.ts[linked] - src.ts,
            "begun": src.ts, "lane": src.lane,
        })  # fmt: skip
        draft.table("linked_1", self._linked)
        node = np.zeros(len(task.row), bool)
        node[linked] = graphs[src.look]
        operator = _joined(self._operators)
        # As links._EARLIER has it.
        earlier = (task.correlation != 0) & ~linked & (2 * int(linked.sum()) >= len(task.row))
        self._ask(draft, _some(operator, operators[operator.look]), task, node, earlier)
        self._calls, self._operators, self._tasks = [], [], []
        return True

    def _ask(self, draft: Draft, operator: _Operators, task: _Tasks, node: Bools, earlier: Bools) -> None:
        """The operator of each task by its External id, as links._OPERATOR has it: the last with that id."""
        order = np.argsort(operator.external, kind="stable")
        ids, rows = operator.external[order], operator.row[order]
        asked = (task.external != 0) & ~earlier
        last = np.searchsorted(ids, task.external, side="right") - 1
        found = asked & (last >= 0)
        found[found] = ids[last[found]] == task.external[found]
        kept = found & ~node if 2 * int(found.sum()) >= int(asked.sum()) else np.zeros(len(found), bool)
        self._of = task.row[kept], rows[last[kept]]
        draft.table("of_operator", pa.table({"row": self._of[0], "op": self._of[1]}))

    def links(self, draft: Draft) -> None:
        """Write the table of links as it is stored."""
        if self._linked is not None:
            draft.ready["link"] = ready = Ready("link", draft.dir / "link.ready.spool.parquet", draft.rank)
            ready.few = True
            names = {"src_span_id": "src", "dst_span_id": "dst", "route": "route", "latency_ns": "late"}
            for part in self._linked.to_batches(_BATCH):
                ready.write({name: part.column(ours) for name, ours in names.items()})

    def kernels(self, draft: Draft) -> bool:
        """Write the table of kernels as it is stored; False where operators are not known by their numbers."""
        if self._of is None:
            return False
        draft.ready["kernel"] = ready = Ready("kernel", draft.dir / "kernel.ready.spool.parquet", draft.rank)
        rows, operators = self._of
        for batch in draft.con.sql(_KERNELS).to_arrow_reader(_BATCH):
            row = batch.column("row").to_numpy()
            at = np.minimum(np.searchsorted(rows, row), max(0, len(rows) - 1))
            found = rows[at] == row if len(rows) else np.zeros(len(row), bool)
            op = operators[at] if len(rows) else np.zeros(len(row), np.int64)
            names = ("stream", "grid", "block", "registers", "shared_bytes")
            ready.write({
                "span_id": batch.column("row"), "op_span_id": pa.array(op, mask=~found),
                **{name: batch.column(name) for name in names}, "occupancy_percent": batch.column("occupancy"),
            })  # fmt: skip
        return True


def _of(truths: pa.ChunkedArray) -> Bools:
    return np.asarray(truths.to_numpy())


def _some(of: Some, which: NDArray[Any]) -> Some:
    return type(of)(*(column[which] for column in of))


def _joined(parts: list[Some]) -> Some:
    return type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))
