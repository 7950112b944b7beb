"""A job on a CPU draws random numbers in every step.

## What it measures

On a CPU, operators that draw numbers and that the job calls itself: `normal_`, `uniform_`, `random_`, `randn`, `rand`,
`randint`, `randperm`. One operator on one shape is a kind. A kind counts where its calls go on: eight or more, over at
least half of the recorded time. What dropout draws lies within `aten::dropout` and does not count.

## Why it costs

A CPU draws numbers one after the other from one state, most on a single thread. Inputs made up anew in every step cost
that again each time.

## What to do

Draw made-up inputs once, before the loop. Draw data and augmentation in the workers of the data loader. What the model
itself needs at random can be drawn for several steps at once.

## Limits of the method

A ceiling: nothing says what the numbers are for, and a model may need them where they are. `randn_like` and
`bernoulli_` are mostly the model's own, and are left out. On other devices, a host that draws numbers is `host_late`.

## References

PyTorch: torch.Generator; torch.utils.data.DataLoader, num_workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.host_alone import DRAWS, MANY, SPREAD
from npulens.analysis.device.kernels import Kernels, evidence, kernels, of_a_step
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.host_names import ON_CPU, names
from npulens.analysis.idle.origin import origins
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run
from npulens.analysis.work.judged import most_of_a_rank

NEEDS = ("kernels",)

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: drawing random numbers takes {kernel_ns} of each step ({kernel_share}) in {count} calls of "
            "{type}[[ on {shapes}]]",
            "Draw made-up inputs once before the loop, and use them again. Draw data and augmentation in the workers "
            "of the data loader. What the model itself needs can be drawn for several steps at once. Called by "
            "{origin}.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步生成随机数耗时 {kernel_ns}（{kernel_share}），"
            "共调用 {count} 次 {type}[[，形状 {shapes}]]",
            "若是人造输入，请在循环之前生成一次并重复使用。数据与增强所需的随机数请放到数据加载的工作进程中生成。"
            "模型自身需要的随机数可一次生成多步所需。由 {origin_zh} 调用。",
        )
    },
}

_ON_A_DEVICE = (
    "the job computes on a device: there, a host that draws numbers is judged by host_late",
    "作业在加速设备上计算：主机生成随机数由 host_late 判断",
)
_DRAWN = """
    SELECT s.span_id FROM span s JOIN link l ON l.dst_span_id = s.span_id
    WHERE l.route = 'itself' AND list_contains(?, s.name) ORDER BY s.span_id
"""


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    table, every = run.get(names), run.get(kernels)
    if not run.con.execute(f"{ON_CPU} LIMIT 1").fetchall():
        raise NotMeasured(*_ON_A_DEVICE, None, recordable=False)
    draws = [name for (name,) in run.con.execute(
        f"SELECT DISTINCT name FROM {table} WHERE regexp_matches(name, ?) ORDER BY 1", [DRAWS]
    ).fetchall()]  # fmt: skip
    if not draws or not len(every):
        return
    drawn = run.columns(_DRAWN, [draws])["span_id"].astype(np.int64)
    rows = _going_on(run, every, np.flatnonzero(np.isin(every.span_id, drawn)))
    for ranks, here in by_rank(every.rank[rows], every.dur[rows]):
        mine = rows[here]
        ns = every.dur[mine]
        whole = most_of_a_rank(every.rank[mine], ns)
        spent = np.bincount(every.kind[mine], ns)
        kinds = [every.kinds[kind] for kind in np.argsort(-spent, kind="stable")[: np.count_nonzero(spent)].tolist()]
        longest = mine[every.kind[mine] == spent.argmax()][0]
        shapes = {spoken(kind.input_shapes) for kind in kinds}
        numbers: dict[str, Value] = {
            "ranks": said(ranks), "type": ", ".join(dict.fromkeys(kind.type.removeprefix("aten::") for kind in kinds)),
            "shapes": shapes.pop() or None if len(shapes) == 1 else None,
            "count": of_a_step(run, every, mine)["count"], "kernel_ns": whole // max(1, run.step_count),
            "kernel_share": of_run(run, whole), **origins(run, int(every.span_id[longest])),
        }  # fmt: skip
        yield Candidate(
            "random_numbers", "found", numbers, evidence(every, mine, ns),
            Change(tasks=every.span_id[mine], task_ns=ns), "medium", measured_ns=whole,
        )  # fmt: skip


def _going_on(run: Run, every: Kernels, rows: Ints) -> Ints:
    """Those of some rows whose kind is called many times over much of its rank's window."""
    _, group = np.unique(combined(every.rank[rows], every.kind[rows]), return_inverse=True)
    count = np.bincount(group)
    first, last = np.full(len(count), np.iinfo(np.int64).max), np.full(len(count), -1)
    np.minimum.at(first, group, every.ts[rows])
    np.maximum.at(last, group, every.end[rows])
    windows = {rank: run.window(rank) or (0, 0) for rank in run.ranks}
    length = np.array([windows[rank][1] - windows[rank][0] for rank in every.rank[rows].tolist()], np.int64)
    keep = (count[group] >= MANY) & ((last - first)[group] >= SPREAD * length)
    found: Ints = rows[keep]
    return found
