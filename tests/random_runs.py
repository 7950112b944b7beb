"""Runs of random rows, as hostile as the contract allows, in a connection that is used again and again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from npulens.ingest.tables import schema
from tests.tablecase import NOT_NULL, sum_up

HOST_NAMES = {
    "runtime": (
        "AscendCL@aclrtSynchronizeStreamWithTimeout", "cudaMemcpy", "AscendCL@aclopCompileAndExecute", "cudaMalloc",
        "AscendCL@aclrtFree", "Node@launch", "cudaLaunchKernel", "AscendCL@aclnnMul",
    ),
    "cpu_op": (
        "aten::mm", "aten::_local_scalar_dense", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        "aten::copy_",
    ),
    "python": ("model.py(88): forward", "torch/profiler/profiler.py(7): step", "torch/nn/modules/module.py(1): _call"),
    "gc": ("GC",),
    "host_other": ("Activity Buffer Request", "PyTorch Profiler (0)"),
}  # fmt: skip
DEVICE_KINDS = ("kernel", "kernel", "kernel", "memset", "memcpy", "comm_op", "wait", "device_other", "comm_task",
                "unknown")  # fmt: skip


def empty_connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(":memory:", config={"threads": 1})
    con.execute(schema.SCHEMA_FILE.read_text("utf-8"))
    return con


def fill(con: duckdb.DuckDBPyConnection, seed: int, scale: int = 1_000) -> None:
    """Replaces whatever the connection holds by the run of this seed; `scale` is the grain of its times in ns."""
    draw = random.Random(seed)
    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("span", "link", "step", "track", "transfer", "comm")
    }
    ranks = draw.choice(((0,), (0, 1), (3,), (0, 2, 5)))
    for rank in ranks:
        _rank(draw, rank, tables, scale)
    tables["run"] = [NOT_NULL["run"]]
    tables["rank"] = [
        {"rank": rank, **NOT_NULL["rank"], "settings": draw.choice((None, "{}", '{"_l2_cache": true}'))}
        for rank in ranks
    ]  # fmt: skip
    lost = draw.choice(((), (), (), ("comm",), ("kernel", "comm", "transfer")))
    tables["coverage"] = [
        {"rank": rank, "table_name": name, "status": "absent" if name in lost else "recorded", "rows": 0, "dropped": 0}
        for rank in ranks for name in schema.tables()
    ]  # fmt: skip
    for table in schema.tables():
        con.execute(f"DELETE FROM {table}")
    for table, rows in tables.items():
        insert(con, table, rows)
    sum_up(con)


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """All rows in one statement."""
    if rows:
        columns = ", ".join(rows[0])
        values = ", ".join(["unnest(?)"] * len(rows[0]))
        con.execute(f"INSERT INTO {table} ({columns}) SELECT {values}", [[r[c] for r in rows] for c in rows[0]])


def _rank(draw: random.Random, rank: int, tables: dict[str, list[dict[str, Any]]], scale: int) -> None:
    first = len(tables["span"])
    end = draw.choice((5, 40, 200, 200))
    at = draw.randrange(10)
    for number in range(draw.randrange(4)):
        length = draw.randrange(1, end)
        tables["step"].append({
            "rank": rank, "step": number, "ts_ns": at * scale, "dur_ns": length * scale,
            "host_dur_ns": draw.choice((None, length * scale)), "source": "ProfilerStep",
        })  # fmt: skip
        at += length
    tracks = [_track(draw, rank, "host_thread", tables) for _ in range(draw.randrange(4))]
    for _ in range(draw.randrange(40) if tracks else 0):
        kind = draw.choice((*HOST_NAMES, "cpu_op", "runtime", "enqueue", "dequeue"))
        name = draw.choice(HOST_NAMES.get(kind, (kind,)))
        _span(draw, rank, draw.choice(tracks), kind, name, draw.randrange(end), draw.choice((0, 1, 3, 20, end)), tables,
              scale)  # fmt: skip
    streams = [_track(draw, rank, "stream", tables) for _ in range(draw.choice((1, 1, 3)))]
    for _ in range(draw.choice((0, 1, 10, 40))):
        kind = draw.choice(DEVICE_KINDS)
        _span(draw, rank, draw.choice(streams), kind, kind, draw.randrange(end), draw.choice((0, 1, 1, 2, 9)), tables,
              scale)  # fmt: skip
    _links(draw, rank, tables, first)


def _track(draw: random.Random, rank: int, kind: str, tables: dict[str, list[dict[str, Any]]]) -> int:
    number = len(tables["track"])
    tid = draw.choice((None, f"{rank}1", f"{rank}2")) if kind == "host_thread" else None
    tables["track"].append({"track": number, "rank": rank, "kind": kind, "name": f"t{number}", "tid": tid})
    return number


def _span(
    draw: random.Random, rank: int, track: int, kind: str, name: str, at: int, length: int,
    tables: dict[str, list[dict[str, Any]]], scale: int,
) -> None:  # fmt: skip
    spans = tables["span"]
    ts, dur = at * scale + draw.choice((0, 0, 1)), length * scale
    around = [
        s["span_id"] for s in spans
        if s["track"] == track and s["ts_ns"] <= ts and ts + dur <= s["ts_ns"] + s["dur_ns"]
    ]  # fmt: skip
    spans.append({
        "span_id": len(spans), "rank": rank, "track": track, "kind": kind, "name": name, "ts_ns": ts, "dur_ns": dur,
        "step": None, "parent_id": around[-1] if around and draw.random() < 0.8 else None, "depth": len(around),
    })  # fmt: skip
    if kind == "kernel" and draw.random() < 0.1:  # it communicates while it computes
        tables["comm"].append({"span_id": len(spans) - 1, "rank": rank, "op_span_id": len(spans) - 1})
    if kind == "memcpy":
        tables["transfer"].append({
            "span_id": len(spans) - 1, "rank": rank, "direction": draw.choice((None, "h2d")), "bytes": None,
        })  # fmt: skip


def _links(draw: random.Random, rank: int, tables: dict[str, list[dict[str, Any]]], first: int) -> None:
    mine = tables["span"][first:]
    hosts = [s for s in mine if s["kind"] in ("runtime", "cpu_op", "enqueue", "dequeue")]
    if not hosts:
        return
    for span in mine:
        if span["kind"] in DEVICE_KINDS and draw.random() < 0.8:
            for _ in range(draw.choice((1, 1, 2))):
                before = [h for h in hosts if h["ts_ns"] <= span["ts_ns"]]
                _link(rank, draw.choice(before if before and draw.random() < 0.9 else hosts), span,
                      draw.choice(("host_to_device", "correlation", "torch_to_npu")), tables)  # fmt: skip
        elif span["kind"] == "dequeue" and draw.random() < 0.8:
            _link(rank, draw.choice(hosts), span, "task_queue", tables)


def _link(
    rank: int, source: dict[str, Any], target: dict[str, Any], route: str, tables: dict[str, list[dict[str, Any]]]
) -> None:
    tables["link"].append({
        "rank": rank, "src_span_id": source["span_id"], "dst_span_id": target["span_id"], "route": route,
        "latency_ns": target["ts_ns"] - source["ts_ns"],
    })  # fmt: skip
