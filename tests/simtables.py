"""Communication of a simulated job as tables, without files: quick enough for hundreds of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb
import pandas as pd

from npulens.analysis.run import Run
from npulens.collectors.simulator.job import CommOp, CommTask
from npulens.collectors.simulator.simulated import Job
from tests.tablecase import connection, sum_up

SPAN = ["span_id", "rank", "track", "kind", "name", "ts_ns", "dur_ns", "step", "depth"]
COMM = ["span_id", "rank", "op_span_id", "collective", "group_name", "task_type", "src_rank", "dst_rank", "src_local",
        "dst_local", "bytes"]  # fmt: skip


def communication(job: Job, ranks: Sequence[int], detail: str) -> Run:
    """`detail`: 'peers' as Level1 has them, 'tasks' as Level0, 'none' as Kineto."""
    con = connection({"rank": {rank: {} for rank in ranks}, "run": {"world_size": job.config.ranks}})
    origin = min(job.ranks[rank].begin_ns for rank in ranks)
    span, comm = [], []
    for rank in ranks:
        for one in job.ranks[rank].of("comm_op", "comm_task"):
            what = one.detail
            number = rank * 10_000_000 + one.id
            if isinstance(what, CommOp):
                comm.append((number, rank, number, what.collective, what.group, *[None] * 5, what.bytes))
            elif isinstance(what, CommTask) and detail != "none":
                named = detail == "peers"
                members = job.group(what.group).ranks
                local = (what.src, what.dst if what.dst < len(members) else None) if named else (None, None)
                known = [None if side is None else members[side] for side in local]
                size = what.bytes if named else None
                whole = rank * 10_000_000 + what.op
                comm.append((number, rank, whole, None, what.group, one.name, *known, *local, size))
            else:
                continue
            span.append((number, rank, rank, one.kind, one.name, one.ts_ns - origin, one.dur_ns, one.step, 0))
    insert(con, "span", SPAN, span)
    insert(con, "comm", COMM, comm)
    insert(con, "step", ["rank", "step", "ts_ns", "dur_ns", "source"], [
        (rank, mark.step, mark.ts_ns - origin, mark.dur_ns, "ProfilerStep")
        for rank in ranks for mark in job.ranks[rank].steps
    ])  # fmt: skip
    sum_up(con)
    return Run(con)


def meeting(*ranks: list[tuple[int, int]], size: int = 100) -> Run:
    """All-reduces of one group without their parts: per rank (start, length) in us."""
    con = connection({"rank": {}})
    insert(con, "rank", ["rank", "rank_source", "path", "formats", "status", "events", "dropped"], [
        (rank, "assumed", "", [], "complete", 0, 0) for rank in range(1, len(ranks))
    ])  # fmt: skip
    rows = [
        (rank * 100 + n + 1, rank, at * 1_000, ns * 1_000)
        for rank, operators in enumerate(ranks) for n, (at, ns) in enumerate(operators)
    ]  # fmt: skip
    insert(con, "span", SPAN, [
        (number, rank, rank, "comm_op", f"allReduce_{number % 100}", at, ns, None, 0) for number, rank, at, ns in rows
    ])  # fmt: skip
    insert(con, "comm", COMM, [
        (number, rank, number, "allreduce", "g", *[None] * 5, size) for number, rank, _, _ in rows
    ])  # fmt: skip
    sum_up(con)
    return Run(con)


def insert(
    con: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Many rows at once."""
    rows = list(rows)
    if not rows:
        return
    frame = pd.DataFrame(rows, columns=list(columns)).astype(object).where(lambda f: f.notna(), None)
    con.register("made", frame)
    kinds = dict(con.execute(f"SELECT column_name, column_type FROM (DESCRIBE {table})").fetchall())
    cast = ", ".join(f"{name}::{kinds[name]}" for name in columns)
    con.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {cast} FROM made")
    con.unregister("made")
