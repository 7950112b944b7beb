"""A run's rows in plain Python, and time measured the slow way.

Nothing here merges intervals or keeps running totals. Time is cut at every begin and end, and for each piece it is
looked up which spans run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

WORK = {
    "kernel": "computing", "memset": "computing", "comm_op": "communication", "memcpy": "copy", "unknown": "unknown",
}  # fmt: skip
DEVICE = {*WORK, "comm_task", "wait", "device_other"}
HOST = ["runtime", "dequeue", "enqueue", "cpu_op", "python", "annotation", "gc", "host_other", "step_mark"]
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Span:
    span_id: int
    rank: int
    track: int
    kind: str
    name: str
    ts: int
    dur: int
    step: int | None

    @property
    def end(self) -> int:
        return self.ts + self.dur


@dataclass(frozen=True)
class Task:
    """A task inside a communication operator."""

    span: Span
    op: int | None
    plane: int | None
    part: str
    peer: int | None
    local: int | None
    bytes: int | None


PARTS = {"Notify_Wait": "wait", "Notify Wait": "wait", "Notify_Record": "signal", "Write Value": "signal",
         "Memcpy": "transfer", "Reduce_Inline": "transfer", "SDMA": "transfer"}  # fmt: skip


class Job:
    """The rows of a run, and what takes time in it."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.spans = [
            Span(*row) for row in con.execute(
                "SELECT span_id, rank, track, kind, name, ts_ns, dur_ns, step FROM span ORDER BY span_id"
            ).fetchall()
        ]  # fmt: skip
        self.by_id = {span.span_id: span for span in self.spans}
        self.ranks = [rank for (rank,) in con.execute("SELECT rank FROM rank ORDER BY rank").fetchall()]
        self.kernel = self.side("kernel", "op_type, core, input_shapes, input_dtypes, output_shapes, output_dtypes")
        self.transfer = self.side("transfer", "direction, bytes")
        self.comm = self.side("comm", "group_name, bytes, task_type, op_span_id, plane, dst_rank, dst_local")
        self.tasks = [
            Task(self.by_id[i], c[3], c[4], PARTS[c[2]], c[5], c[6], c[1])
            for i, c in self.comm.items() if c[2] is not None and self.by_id[i].kind != "comm_op"
        ]  # fmt: skip
        self.fused = {i for i, c in self.comm.items() if c[3] == i and self.by_id[i].kind == "kernel"}
        self.work = [span for span in self.spans if span.kind in WORK and span.dur > 0]
        self.absent = set(con.execute("SELECT rank, table_name FROM coverage WHERE status = 'absent'").fetchall())
        self.launches = self.nearest()

    def side(self, table: str, columns: str) -> dict[int, tuple[Any, ...]]:
        return {row[0]: row[1:] for row in self.con.execute(f"SELECT span_id, {columns} FROM {table}").fetchall()}

    def of(self, rank: int, *parts: str) -> list[Span]:
        return [
            span for span in self.work
            if span.rank == rank
            and (WORK[span.kind] in parts or "communication" in parts and span.span_id in self.fused)
        ]  # fmt: skip

    def recorded(self, rank: int) -> dict[str, bool]:
        kinds = {span.kind for span in self.spans if span.rank == rank}
        talks = "comm_op" in kinds or any(self.by_id[i].rank == rank for i in self.fused)
        device = bool({"kernel", "memset"} & kinds) or (rank, "kernel") not in self.absent
        return {
            "computing": device,
            "communication": talks or (device and (rank, "comm") not in self.absent),
            "copy": "memcpy" in kinds or (device and (rank, "transfer") not in self.absent),
        }

    def windows(self) -> Iterable[tuple[int, int | None, int, int]]:
        """rank, step, begin, end; none of a rank that recorded neither steps nor work."""
        steps = self.con.execute(
            "SELECT rank, step, ts_ns, ts_ns + dur_ns, ts_ns + coalesce(host_dur_ns, dur_ns) FROM step"
        ).fetchall()
        for rank in self.ranks:
            mine = [row for row in steps if row[0] == rank]
            work = [span for span in self.work if span.rank == rank]
            if mine or work:
                begin = min([row[2] for row in mine] + [span.ts for span in work])
                yield rank, None, begin, max([row[4] for row in mine] + [span.end for span in work])
            yield from ((rank, step, begin, end) for _, step, begin, end, _ in mine)

    def step_at(self, rank: int, at: int) -> int | None:
        found = [(b, s) for r, s, b, e in self.windows() if r == rank and s is not None and b <= at < e]
        return max(found)[1] if found else None

    def nearest(self) -> dict[int, Span]:
        calls = defaultdict(list)
        links = self.con.execute("SELECT src_span_id, dst_span_id FROM link").fetchall()
        for source, target in links:
            host, device = self.by_id.get(source), self.by_id.get(target)
            if host and device and host.kind in HOST and device.kind in DEVICE:
                calls[target].append((HOST.index(host.kind), -host.ts, source))
        return {target: self.by_id[min(each)[2]] for target, each in calls.items()}


def pieces(begin: int, end: int, *groups: Sequence[Span]) -> Iterable[tuple[int, int, list[bool]]]:
    """The window cut wherever anything begins or ends, and of each piece which groups run in it."""
    cuts = {begin, end} | {at for group in groups for span in group for at in (span.ts, span.end) if begin < at < end}
    order = sorted(cuts)
    for a, b in zip(order, order[1:], strict=False):
        yield a, b, [any(span.ts <= a and b <= span.end for span in group) for group in groups]


def during(begin: int, end: int, test: Callable[..., bool], *groups: Sequence[Span]) -> int:
    """How long the test holds in the window."""
    return sum(b - a for a, b, running in pieces(begin, end, *groups) if test(*running))


def union(spans: Sequence[Span]) -> int:
    return during(min(s.ts for s in spans), max(s.end for s in spans), bool, spans) if spans else 0


def quantile(values: list[int], share: tuple[int, int]) -> int:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, -(-len(values) * share[0] // share[1]) - 1)]
