"""A small job as tables, without files: steps of kernels, a copy, a collective, a host that launches; and one change.

The device works through its kernels one after the other; the host is ahead of it, reads the loss at the end of each
step, and begins the next. The copy lies before the first kernel and the end of the collective behind the last one, so
both are exposed. Every kernel varies by itself (1 %), every step as a whole with some memory (0.3 %, correlation 0.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pandas as pd

from npulens.ingest.tables import schema
from tests.tablecase import NOT_NULL, sum_up

OPS = ("MatMulV2", "BatchMatMul", "Add", "Mul", "Cast", "SoftmaxV2", "LayerNormV3", "Gelu", "Transpose", "ReduceSum")
#: What the host does in the gap before a kernel: cause -> kind and name of its span.
HOST = {
    "host_late": ("cpu_op", "prepare_the_next_layer"), "gc": ("gc", "Python GC"),
    "sync_stall": ("runtime", "AscendCL@aclrtSynchronizeStreamWithTimeout"),
    "dataloader": ("cpu_op", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
}  # fmt: skip
LAUNCH_NS, LATENCY_NS, PAUSE_NS = 5_000, 12_000, 1_500
VARIES, STEP_VARIES, REMEMBERS = 0.01, 0.003, 0.3
COLUMNS = ("span_id", "rank", "track", "kind", "name", "ts_ns", "dur_ns", "step", "depth")


@dataclass(frozen=True)
class Task:
    """One kernel of every step."""

    op: str
    shapes: str
    ns: int


@dataclass(frozen=True)
class Job:
    """What every step does."""

    tasks: tuple[Task, ...]
    copy_ns: int
    comm_ns: int  # of the collective behind the last kernel
    gap_before: int = -1  # the kernel that the host issues late
    gap_ns: int = 0
    cause: str = "host_late"
    ranks: int = 1
    steps: int = 12
    late_rank: int = -1  # takes longer in one kernel; the others wait for it in the collective
    late_at: int = 0  # its kernel
    late_ns: int = 0

    @property
    def step_ns(self) -> int:
        return sum(task.ns for task in self.tasks) + self.copy_ns + self.comm_ns + self.gap_ns


@dataclass(frozen=True)
class Planted:
    """What was changed, and by how much the step."""

    what: str
    kind: str  # of the contribution that must come first
    names: tuple[str, ...]  # how it may be called
    delta_ns: int
    names_before: tuple[str, ...] = ()  # of a fusion or a split: the kernels of the side before
    late_rank: int | None = None


def drawn(rng: np.random.Generator) -> Job:
    """A healthy job with a step of 5 to 60 ms."""
    number = int(rng.integers(12, 30))
    tasks = tuple(
        Task(str(rng.choice(OPS)), f"{2 ** rng.integers(4, 12)},{128 * (place + 1)}",
             int(np.exp(rng.uniform(np.log(60_000), np.log(3_000_000))))) for place in range(number)
    )  # fmt: skip
    return Job(tasks, int(rng.integers(50_000, 800_000)), int(rng.integers(100_000, 2_000_000)),
               ranks=int(rng.choice([1, 1, 2])), steps=int(rng.integers(8, 25)))  # fmt: skip


WHAT = ("slower", "new", "gone", "renamed", "copy", "comm", *HOST)


def planted(job: Job, what: str, share: float, rng: np.random.Generator) -> tuple[Job, Job, Planted]:
    """The job before and after a change of ``share`` of its step."""
    ns, place = round(share * job.step_ns), int(rng.integers(1, len(job.tasks) - 1))
    task = job.tasks[place]
    before, after = job.tasks[:place], job.tasks[place + 1 :]
    if what in HOST:
        return job, replace(job, gap_before=place, gap_ns=ns, cause=what), Planted(what, "gap", (what,), ns)
    if what == "copy":
        return job, replace(job, copy_ns=job.copy_ns + ns), Planted(what, "copy", ("h2d",), ns)
    if what == "comm":
        return job, replace(job, comm_ns=job.comm_ns + ns), Planted(what, "communication", ("allreduce",), ns)
    if what in ("new", "gone"):
        more = replace(job, tasks=(*before, Task("LayoutConvert", "7,7", ns), *job.tasks[place:]))
        sides = (job, more) if what == "new" else (more, job)
        return *sides, Planted(what, "kernel", ("LayoutConvert",), ns if what == "new" else -ns)
    name = "FusedAttention" if what == "renamed" else task.op
    slow = replace(job, tasks=(*before, Task(name, task.shapes, task.ns + ns), *after))
    return job, slow, Planted(what, "kernel", (name, task.op), ns)


#: What changes that are not of one thing: told as one all the same.
TOGETHER = ("fused", "split", "clock", "late")
#: A fused kernel takes this share of the two that it replaces.
FUSED_TAKES = 0.7


def planted_together(job: Job, what: str, share: float, rng: np.random.Generator) -> tuple[Job, Job, Planted]:
    """The job before and after two neighbours became one, one became two, the clock fell, or a rank came late.

    A fusion takes 70 % of its kernels and a split the reverse, whatever the share."""
    if what == "clock":
        slow = tuple(replace(task, ns=round(task.ns * (1 + share))) for task in job.tasks)
        delta = sum(task.ns for task in slow) - sum(task.ns for task in job.tasks)
        return job, replace(job, tasks=slow), Planted(what, "kernel", ("kernels_alike",), delta)
    if what == "late":
        several, place = replace(job, ranks=2), int(rng.integers(1, len(job.tasks) - 1))
        rank, ns = int(rng.integers(2)), round(share * job.step_ns)
        after = replace(several, late_rank=rank, late_at=place, late_ns=ns)
        return several, after, Planted(what, "kernel", (job.tasks[place].op,), ns, (), rank)
    # Only work that is worth a fusion: the pair that takes longest but for the ends, which have no neighbours.
    place = max(range(1, len(job.tasks) - 2), key=lambda at: job.tasks[at].ns + job.tasks[at + 1].ns)
    first, second = job.tasks[place : place + 2]
    fused = Task("FusedPair", first.shapes, round(FUSED_TAKES * (first.ns + second.ns)))
    one = replace(job, tasks=(*job.tasks[:place], fused, *job.tasks[place + 2 :]))
    delta = fused.ns - first.ns - second.ns
    if what == "fused":
        return job, one, Planted(what, "kernel", ("FusedPair",), delta, (first.op, second.op))
    return one, job, Planted(what, "kernel", (first.op, second.op), -delta, ("FusedPair",))


def fill(con: duckdb.DuckDBPyConnection, job: Job, run_id: str, rng: np.random.Generator) -> None:
    """Replaces whatever the connection holds by one capture of the job."""
    for table in schema.tables():
        con.execute(f"DELETE FROM {table}")
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in ("span", "link", "step", *_SIDES)}
    for rank in range(job.ranks):
        _rank(job, rank, rng, rows)
    frames = {"span": COLUMNS, "link": ("rank", "src_span_id", "dst_span_id", "route", "latency_ns"),
              "step": ("rank", "step", "ts_ns", "dur_ns", "host_dur_ns", "source"), **_SIDES}  # fmt: skip
    frames |= {"track": ("track", "rank", "kind", "name")}
    rows["track"] = [(rank * 10 + at, rank, kind, name) for rank in range(job.ranks) for at, (kind, name) in enumerate((
        ("host_thread", "main"), ("stream", "0"), ("stream", "1"), ("comm_group", "hccl")))]  # fmt: skip
    for name, columns in frames.items():
        _into(con, name, pd.DataFrame(rows[name], columns=list(columns)))
    _head(con, job, run_id)
    sum_up(con)


_SIDES = {
    "kernel": ("span_id", "rank", "op_type", "core", "input_shapes", "input_dtypes"),
    "transfer": ("span_id", "rank", "direction", "bytes"), "comm": ("span_id", "rank", "op_span_id", "collective"),
}  # fmt: skip


def _head(con: duckdb.DuckDBPyConnection, job: Job, run_id: str) -> None:
    ranks = range(job.ranks)
    _into(con, "run", pd.DataFrame([{**NOT_NULL["run"], "run_id": run_id, "world_size": job.ranks}]))
    _into(con, "rank", pd.DataFrame([{"rank": rank, **NOT_NULL["rank"]} for rank in ranks]))
    _into(con, "coverage", pd.DataFrame([
        {"rank": rank, "table_name": table, "status": "recorded", "rows": 0, "dropped": 0}
        for rank in ranks for table in schema.tables()
    ]))  # fmt: skip


def _into(con: duckdb.DuckDBPyConnection, table: str, frame: pd.DataFrame) -> None:
    con.register("made", frame)
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM made")
    con.unregister("made")


def _rank(job: Job, rank: int, rng: np.random.Generator, rows: dict[str, list[tuple[object, ...]]]) -> None:
    at, step_noise = 1_000_000, 0.0
    for step in range(job.steps):
        step_noise = REMEMBERS * step_noise + rng.normal(0, STEP_VARIES)
        noise = (1 + step_noise) * rng.normal(1, VARIES, len(job.tasks) + 3)
        end = _step(job, rank, step, at, np.maximum(noise, 0.1), rows)
        rows["step"].append((rank, step, at, end - at, end - at, "ProfilerStep"))
        at = end


def _step(job: Job, rank: int, step: int, begin: int, noise: Sequence[float], rows: dict[str, list[tuple[object, ...]]]
          ) -> int:  # fmt: skip
    """One step of one rank; when it ended."""

    def span(track: int, kind: str, name: str, ts: int, ns: int) -> int:
        number = rank * 10_000_000 + len(rows["span"])
        rows["span"].append((number, rank, rank * 10 + track, kind, name, int(ts), int(ns), step, 0))
        return number

    def launched(track: int, kind: str, name: str, call: int, start: int, ns: int) -> int:
        source = span(0, "runtime", "Node@launch", call, LAUNCH_NS // 2)
        number = span(track, kind, name, start, ns)
        rows["link"].append((rank, source, number, "host_to_device", start - call))
        return number

    host = begin + 2 * LAUNCH_NS
    cursor = host + LATENCY_NS
    ns = round(job.copy_ns * noise[-1])
    rows["transfer"].append((launched(2, "memcpy", "MEMCPY_ASYNC", host, cursor, ns), rank, "h2d", ns // 10))
    cursor += ns
    for place, task in enumerate(job.tasks):
        host += LAUNCH_NS
        if place == job.gap_before:
            late = round(job.gap_ns * noise[-2])
            kind, name = HOST[job.cause]
            span(0, kind, name, host, cursor + late - LATENCY_NS - host)
            host = cursor + late - LATENCY_NS
        cursor = max(cursor + PAUSE_NS, host + LATENCY_NS)
        late = job.late_ns if rank == job.late_rank and place == job.late_at else 0
        ns = round((task.ns + late) * noise[place])
        number = launched(1, "kernel", f"{task.op}_{place}", host, cursor, ns)
        rows["kernel"].append((number, rank, task.op, "AI_CORE", task.shapes, "FLOAT16"))
        cursor += ns
    waits = job.late_ns if job.late_rank not in (-1, rank) else 0
    ns = round((job.comm_ns + waits) * noise[-3])
    hidden = min(round(job.tasks[-1].ns * noise[len(job.tasks) - 1]), ns) // 2
    number = launched(3, "comm_op", "hcom_allReduce__1", host + LAUNCH_NS, cursor - hidden, ns + hidden)
    rows["comm"].append((number, rank, number, "allreduce"))
    cursor += ns
    span(0, "runtime", "AscendCL@aclrtSynchronizeStreamWithTimeout", host + 2 * LAUNCH_NS,
         cursor + LATENCY_NS - host - 2 * LAUNCH_NS)  # fmt: skip
    return cursor + 2 * LATENCY_NS
