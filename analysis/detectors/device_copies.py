"""Data is copied from device memory to device memory.

## What it measures

Copies within the device: memory copies from device to device, and kernels that write what they read in the same type.
Such kernels are TensorMove, ViewCopy, aclnnInplaceCopy and `copy_`. Counted is what runs while the rank runs no other
kernel, no collective and no copy from or to the host. Which operator and line launch most of them. What changes the
type or format on the way is layout_conversion's.

## Why it costs

A copy reads and writes every byte and computes nothing. Many small ones cost a launch each as well.

## What to do

Write results where they are needed (`out=`, slices of one buffer) instead of copying them there, and use views. Leave
out `.clone()` and `.contiguous()` that nothing needs. Use `DistributedDataParallel(gradient_as_bucket_view=True)`, and
`torch.cat` or `torch._foreach_copy_` once instead of many copies.

## Limits of the method

The saving is what the replay gives back without the exposed part. Some copies are needed (a transposed tensor for a
kernel that wants it so). Without the types of a kernel's operator a copy cannot be told from a cast. It is left out
then, unless torch's name of the kernel tells that it casts nothing (gpu_kernel_impl_nocast).

## References

PyTorch: DistributedDataParallel, gradient_as_bucket_view; tensor views. CANN: aclnnInplaceCopy, TensorMove.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.capability import capabilities, setting
from npulens.analysis.device.conversion import conversion
from npulens.analysis.device.kernels import kernels
from npulens.analysis.device.kinds import TYPED, Kind
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Words
from npulens.analysis.idle.behind import counted
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.host_names import NAMES, names
from npulens.analysis.idle.origin import origins
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run, steady_ns

NEEDS = ("kernels",)

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {count} copies within the device take {copied_ns} of each step, {exposed_ns} "
            "({exposed_share}) with nothing beside them. {origin_share} of that from {origin}",
            "Write results where they are needed (out=, slices of one buffer), use views, leave out .clone() and "
            ".contiguous() that nothing needs. One torch.cat or torch._foreach_copy_ instead of many copies."
            "[[ With DistributedDataParallel: {switch}.]]",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步在设备内拷贝 {count} 次，共 {copied_ns}，其中 {exposed_ns}（{exposed_share}）"
            "没有被掩盖；"
            "有 {origin_share} 来自 {origin_zh}",
            "请把结果直接写到需要的位置（out=、同一缓冲区的切片），多用视图，去掉不必要的 .clone() 与 .contiguous()；"
            "用一次 torch.cat 或 torch._foreach_copy_ 代替多次拷贝。"
            "[[使用 DistributedDataParallel 时设置 {switch}。]]",
        )
    },
}

#: Operator types and kernel names of Ascend that only move data.
_MOVES = re.compile(r"(?:^|_)(?:TensorMove|ViewCopy|(?:aclnn)?InplaceCopy)(?:AiCore)?(?:_|$)", re.I)
#: Operators of the framework that only move data, where their kernel copies and both types are one.
_COPIES = re.compile(r"^aten::(?:copy_|clone|contiguous|_foreach_copy_)$")
#: Kernels of torch that copy and are not made for two types.
_SAME_TYPE = re.compile(
    r"(?:gpu_kernel_impl_nocast|vectorized_elementwise_kernel)[<I].*(?<![A-Za-z_])direct_copy_kernel_cuda(?![a-z_])"
)
#: Whether the job has several ranks, whether any operator was recorded, and one of a backward pass.
_TRAINS = f"""
    SELECT (SELECT count(*) FROM comm) > 0 OR (SELECT count(*) FROM rank) > 1 OR (SELECT max(world_size) > 1 FROM run),
        count(*) > 0, coalesce(bool_or(regexp_matches(name, '(?i)backward|^autograd::engine')), false)
    FROM {NAMES} WHERE kind = 'cpu_op'
"""
#: Launching operator by copy: names for grouping, one row a copy.
_BY = """
    SELECT c.span_id, coalesce(any_value(h.name ORDER BY h.ts_ns DESC), '?') AS name
    FROM (SELECT unnest(?) AS span_id) c
    LEFT JOIN link l ON l.dst_span_id = c.span_id AND l.route <> 'fwdbwd'
    LEFT JOIN span s ON s.span_id = l.src_span_id
    LEFT JOIN span h ON h.span_id = CASE WHEN s.kind = 'runtime' THEN s.parent_id ELSE s.span_id END
    GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True)
class Limits(limits.Limits):
    """Only the share of the step that every detector has."""


def copies(kind: Kind, converted: str | None) -> bool:
    """Whether a kernel writes what it reads, in the same type."""
    if kind.memset or converted is not None:
        return False
    if kind.op is None or _moves(kind.name):
        return _moves(kind.op_type or kind.name) or kind.op is None and (_moves(kind.name) or _one_type(kind.name))
    if kind.input_dtypes is None:
        return bool(_COPIES.match(kind.op)) and _one_type(kind.name)
    types = re.findall(r'"([^"]+)"', kind.input_dtypes or "")[:2]
    return bool(_COPIES.match(kind.op)) and "copy" in kind.name.lower() and len(types) == 2 and types[0] == types[1]


@lru_cache(maxsize=65536)
def _moves(name: str) -> bool:
    return _MOVES.search(name) is not None


@lru_cache(maxsize=65536)
def _one_type(name: str) -> bool:
    return _SAME_TYPE.search(name) is not None


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    found = _found(run)
    shown = _exposed(run, found)
    if not shown.any() and _untold(run) >= limits.min_share * run.get(steady_ns):
        raise NotMeasured(
            "which way copies go: it was not recorded", "拷贝方向：未采集",
            run.get(capabilities)["copy_bytes"].collect_with or setting(run, "copy_bytes"),
        )  # fmt: skip
    for ranks, rows in by_rank(found["rank"], shown):
        yield _candidate(run, found, shown, ranks, rows)


def _found(run: Run) -> dict[str, Any]:
    """Every copy within a device."""
    moved = run.columns(
        "SELECT s.span_id, s.rank, s.ts_ns, s.dur_ns FROM span s LEFT JOIN transfer t ON t.span_id = s.span_id "
        "WHERE s.kind = 'memcpy' AND (t.direction = 'd2d' OR (t.direction IS NULL AND s.name ILIKE '%DtoD%'))"
    )
    stays = counted(run, moved["rank"], moved["ts_ns"])
    moved = {name: values[stays] for name, values in moved.items()}
    every = run.get(kernels)
    copied = every.kinds.each(lambda kind: copies(kind, conversion(kind)), "memset", "core", *TYPED, "input_dtypes")
    mine = every.of(copied.flags())
    both = zip(("span_id", "rank", "ts_ns", "dur_ns"), (every.span_id, every.rank, every.ts, every.dur), strict=True)
    columns = {name: np.concatenate((moved[name].astype(np.int64), values[mine])) for name, values in both}
    order = np.argsort(columns["span_id"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def _reduces_gradients(run: Run) -> bool:
    """Whether the job may average gradients: it has several ranks, and nothing says that none has a backward pass."""
    run.get(names)
    ((several, told, trains),) = run.con.execute(_TRAINS).fetchall()
    return bool(several) and (trains or not told)


def _untold(run: Run) -> int:
    """Of the rank that copies most: time of copies whose direction nothing tells."""
    rows = run.con.execute(
        "SELECT coalesce(sum(s.dur_ns), 0)::BIGINT FROM span s LEFT JOIN transfer t USING (span_id) "
        "WHERE s.kind = 'memcpy' AND t.direction IS NULL "
        "AND NOT regexp_matches(s.name, '(?i)[hd](ost|evice)?_?to_?[hd]') GROUP BY s.rank"
    ).fetchall()
    return max((int(ns) for (ns,) in rows), default=0)


def _exposed(run: Run, found: dict[str, Any]) -> Ints:
    """What of each copy runs while the rank does nothing else."""
    shown = np.zeros(len(found["span_id"]), np.int64)
    every = run.get(kernels)
    others = run.columns(
        "SELECT span_id, rank, ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE kind = 'memcpy' ORDER BY rank, ts_ns"
    )
    apart = ~np.isin(others["span_id"], found["span_id"])
    for rank in run.ranks:
        mine = found["rank"] == rank
        if not mine.any():
            continue
        own = every.on(rank)
        kernel = ~np.isin(every.span_id[own], found["span_id"][mine])
        of = slice(*np.searchsorted(others["rank"], [rank, rank + 1]).tolist())
        begin, end = (others[name][of][apart[of]].astype(np.int64) for name in ("ts_ns", "end_ns"))
        busy = (
            Intervals.union_of(every.ts[own][kernel], (every.ts[own] + every.dur[own])[kernel])
            | (run.activity(rank).communication or EMPTY)
            | Intervals.union_of(begin, end)
        )
        begins = found["ts_ns"][mine]
        shown[mine] = found["dur_ns"][mine] - busy.within(begins, begins + found["dur_ns"][mine])
    return shown


def _candidate(run: Run, found: dict[str, Any], shown: Ints, ranks: tuple[int, ...], rows: Ints) -> Candidate:
    ids = found["span_id"][rows]
    launchers = run.columns(_BY, [ids.tolist()])["name"].astype(np.str_)
    known, place = np.unique(launchers, return_inverse=True)
    spent = np.zeros(len(known), np.int64)
    np.add.at(spent, place.ravel(), shown[rows])
    most = rows[place.ravel() == np.argmax(spent)]
    rest = rows[place.ravel() != np.argmax(spent)]
    first = np.concatenate([part[np.argsort(-shown[part], kind="stable")] for part in (most, rest)])
    worst = max(int(shown[rows[found["rank"][rows] == rank]].sum()) for rank in ranks)
    per = run.step_count * len(ranks)
    return Candidate(
        "device_copies", "found",
        {
            "ranks": said(ranks), "count": -(-len(rows) // per), "copied_ns": int(found["dur_ns"][rows].sum()) // per,
            "exposed_ns": int(shown[rows].sum()) // per, "exposed_share": of_run(run, worst),
            **origins(run, int(found["span_id"][first[0]])),
            "origin_share": int(spent.max()) / max(1, int(spent.sum())),
            "switch": "gradient_as_bucket_view=True" if run.get(_reduces_gradients) else None,
        },
        tuple(
            Evidence(int(found["rank"][row]), int(found["ts_ns"][row]), int(found["dur_ns"][row]),
                     int(found["span_id"][row]), str(known[np.argmax(spent)]) if row in most[:20] else "")
            for row in first[:20]
        ),
        Change(tasks=ids, task_ns=shown[rows]), ceiling_ns=int(shown[rows].sum()), measured_ns=worst,
    )  # fmt: skip
