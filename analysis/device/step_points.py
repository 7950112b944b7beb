"""MindSpore's step trace: what a step is made of where the operators themselves were not recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from npulens.analysis.idle.blame import said as ranges
from npulens.analysis.intervals import Intervals
from npulens.analysis.run import Run
from npulens.analysis.say import duration, share

#: The parts that follow each other, as the file calls them, in English and Chinese.
_PARTS = (
    ("iteration_interval", "waiting before the first operator", "首个算子之前的等待（迭代间隙）"),
    ("fp_and_bp", "forward and backward", "前向与反向"),
    ("tail", "tail (communication and update)", "拖尾（通信与参数更新）"),
)
#: A rank's first step has nothing before it, so no wait: it counts only where it is alone.
_LENGTHS = """
    WITH length AS (
        SELECT rank, ts_ns, replace(series, ' (ns)', '') AS part, value FROM sample WHERE counter = 'Step trace'
    ), later AS (
        SELECT * FROM length QUALIFY ts_ns > min(ts_ns) OVER (PARTITION BY rank)
            OR min(ts_ns) OVER (PARTITION BY rank) = max(ts_ns) OVER (PARTITION BY rank)
    )
    SELECT rank, part, sum(value)::DOUBLE, count(*), min(ts_ns) FROM later WHERE list_contains(?, part) GROUP BY 1, 2
"""
_SPANS = """
    SELECT s.rank, s.ts_ns, s.ts_ns + s.dur_ns, c.collective IS NOT NULL FROM span s LEFT JOIN comm c USING (span_id)
    WHERE s.kind = 'comm_op' AND c.collective IS NOT NULL
        OR s.kind = 'device_annotation' AND s.name = 'Forward and backward'
"""
#: From this share of a step on, waiting before it is said to be for data.
_WAITS = 0.1


def told(run: Run) -> Iterator[tuple[str, str]]:
    """The split of a step, collectives that nothing hides and queues of the input, in English and Chinese."""
    if run.con.execute("SELECT 1 FROM kernel LIMIT 1").fetchall():
        return
    lengths = run.con.execute(_LENGTHS, [[part for part, _, _ in _PARTS]]).fetchall()
    whole = sum(row[2] for row in lengths)
    if whole <= 0:
        return
    ranks = sorted({int(row[0]) for row in lengths})
    steps = {rank: max(int(row[3]) for row in lengths if row[0] == rank) for rank in ranks}
    counted = sum(steps.values())
    sums = {part: sum(row[2] for row in lengths if row[1] == part) for part, _, _ in _PARTS}
    texts = [
        (", ", "、")[lang].join(
            f"{names[lang]} {duration(int(sums[part] / counted))} ({share(sums[part] / whole)})"
            for part, *names in _PARTS
        )
        for lang in (0, 1)
    ]
    en = f"only the profiler's split was recorded, of rank {ranges(tuple(ranks))}, on average of a step: {texts[0]}"
    zh = f"只采集到 rank {ranges(tuple(ranks))} 的 profiler 时间划分，每步平均：{texts[1]}"
    if sums["iteration_interval"] > _WAITS * whole:
        en += ". So long a wait before a step is mostly for its data"
        zh += "。步前等待这么久，多半是在等数据"
    yield en, zh
    begin = {rank: min(int(row[4]) for row in lengths if row[0] == rank) for rank in ranks}
    yield from _collectives(run, begin, counted, whole)
    yield from _queues(run)


def _collectives(run: Run, begin: dict[int, int], steps: int, whole: float) -> Iterator[tuple[str, str]]:
    """Collectives outside forward and backward. `begin`: where each rank's first step that counts does."""
    rows = [row for row in run.con.execute(_SPANS).fetchall() if row[1] >= begin.get(row[0], 0)]
    every = bare = 0
    for rank in begin:
        of_comm, of_steps = (
            Intervals.union_of(*(np.array([row[at] for row in rows if row[0] == rank and row[3] is comm], np.int64)
                                 for at in (1, 2)))
            for comm in (True, False)
        )  # fmt: skip
        every, bare = every + of_comm.total(), bare + (of_comm - of_steps).total()
    if every:
        yield (
            f"collectives run for {duration(every // steps)} of each step. {duration(bare // steps)} of that "
            f"({share(bare / whole)} of the step) is outside forward and backward, which do not hide it",
            f"集合通信每步 {duration(every // steps)}，其中 {duration(bare // steps)}（占每步 {share(bare / whole)}）"
            "在前向与反向之外，未被掩盖",
        )


def _queues(run: Run) -> Iterator[tuple[str, str]]:
    """How full the queues of the input pipeline are: near 0 %, what fills them is too slow."""
    found: dict[str, None] = {}
    for name, args in run.con.execute(
        "SELECT name, args FROM summary WHERE source = 'minddata_pipeline' AND args IS NOT NULL ORDER BY rank, name"
    ).fetchall():
        try:
            used = float(json.loads(args).get("output_queue_usage_rate"))
        except (TypeError, ValueError, AttributeError):
            continue
        if 0 <= used <= 1:
            found[f"{name} {share(used)}"] = None
    if found:
        yield (
            f"how full the queue behind each operator of the input pipeline is: {', '.join(found)}. "
            "Near 0 %, what fills it is too slow",
            f"输入流水线各算子输出队列的占用率：{'、'.join(found)}。接近 0 % 说明数据产生得太慢",
        )
