"""The profiler itself makes the device wait.

## What it measures
Gaps of the device while the host does the profiler's own work. That is its `step`, `start` and `stop`, and calls into
aclprof, CUPTI or roctracer. It is also what Kineto files as overhead (buffers requested and flushed). With
l2_cache=True the counters are read after every kernel. That is a pause of nearly the same length before each next one,
though it was queued long before.

## Why it costs
What the profiler takes is not there without it; only the job's own record_function ranges stay. The step is really
shorter than the capture says, and a comparison with another capture is one of profilers.

## What to do
Take out record_function ranges that nobody reads. Believe the other findings' shares, not this time. Record less:
Level0 or Level1, with_stack=False, record_shapes=False, profile_memory=False, fewer active steps; leave out the first
active step.

## Limits of the method
Only work that has a span of its own is seen. What recording costs each operator (1 to 10 us with stacks) is spread over
all of them. It cannot be told from them.

## References
torch_npu.profiler documentation (levels and their overhead); Kineto's overhead activities.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.idle.blame import Blame, blames, windows
from npulens.analysis.idle.culprit import OWN, whose
from npulens.analysis.idle.culprit import names as span_names
from npulens.analysis.idle.host_names import HOST_KINDS, NAMES, names
from npulens.analysis.idle.host_spans import NONE, HostSpans, hosts
from npulens.analysis.idle.pieces import Idle, idle
from npulens.analysis.idle.within import marked
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

NEEDS = ("kernels", "host_ops")

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while the profiler works",
            "The step is shorter without the profiler. Record less ([[npu: profiler_level=Level1 or Level0, "
            "]]with_stack=False, "
            "record_shapes=False, profile_memory=False) and compare only captures taken alike.",
        ),
        "ranges": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) while the profiler works",
            "{ranges_share} of that goes into entering and leaving ranges of the job's own record_function, {count} in "
            "each step, such as {names}. They cost time without the profiler, too: take out what nobody reads. The "
            "rest is not there without it. Compare only captures taken alike.",
        ),
        "held": Words(
            "Rank {ranks}: after each kernel the device waits {pause_ns} for the profiler to read the counters of the "
            "L2 cache. {idle_ns} of each step ({idle_share})",
            "Record with l2_cache=False; the step is shorter without. Shares of other findings count more than this "
            "capture says. Record the L2 cache in a capture of its own.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：采集器自身工作时设备每步空闲 {idle_ns}（{idle_share}）",
            "不采集时训练步更短。减少采集内容（[[npu: profiler_level=Level1 或 Level0、]]with_stack=False、"
            "record_shapes=False、"
            "profile_memory=False），只比较采集方式相同的数据。",
        ),
        "ranges": Words(
            "rank {ranks}：采集器自身工作时设备每步空闲 {idle_ns}（{idle_share}）",
            "其中 {ranges_share} 花在进入和退出作业自己的 record_function 区间上，每步 {count} 个，如 {names}。"
            "不采集时它们也有开销，请去掉没有人看的区间。其余部分不采集就没有。只比较采集方式相同的数据。",
        ),
        "held": Words(
            "rank {ranks}：每个算子之后设备等待采集器读取 L2 缓存计数器 {pause_ns}，每步共 {idle_ns}（{idle_share}）",
            "用 l2_cache=False 采集；不采集时训练步更短，其他结论的占比实际更大。L2 缓存请单独采集一次。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks that are held up alike."""
    pieces = run.get(idle)
    for found in blames(run, "profiler_overhead"):
        held = found.pieces[pieces.host[found.pieces] == NONE]
        text = "held" if 2 * _ns(pieces, held) > _ns(pieces, found.pieces) else "found"
        change = Change(
            host=windows(pieces, found.ranks, np.setdiff1d(found.pieces, held)),
            delays=pieces.task[held], delay_ns=(pieces.end - pieces.start)[held],
        )  # fmt: skip
        numbers: dict[str, Value] = {**found.numbers, "pause_ns": _ns(pieces, held) // max(1, len(held))}
        if text == "found" and (ranges := _ranges(run, pieces, found)):
            text, numbers = "ranges", numbers | ranges
        yield Candidate(
            "profiler_overhead", text, numbers, found.evidence, change, measured_ns=found.measured_ns
        )  # fmt: skip


def _ns(pieces: Idle, which: Ints) -> int:
    return int((pieces.end - pieces.start)[which].sum())


#: So many ranges are named.
_NAMES = 3
#: Frames of record_function; the profiler's own context has the same names.
_FRAMES = r"(?:^|/)torch/autograd/profiler\.py\(\d+\): __(?:enter|exit)__$"
#: Ranges that the framework enters: they tell whose they are where the function around them begins before the step.
_OF_FRAMEWORK = re.compile(
    r"Optimizer\.|enumerate\(|\w*DataParallel\.|FSDP::|(?:nccl|gloo|hccl|c10d):|Torch-Compiled|## "
)
_RECORDS = f"""
    SELECT span_id, ends_with(name, '__enter__') AS enters FROM span WHERE kind = 'python' AND name IN (
        SELECT name FROM {NAMES} WHERE kind = 'python' AND regexp_matches(name, $1)) ORDER BY span_id
"""
_PYTHON, _ANNOTATION = HOST_KINDS.index("python"), HOST_KINDS.index("annotation")


def _ranges(run: Run, pieces: Idle, found: Blame) -> dict[str, Value]:
    """What the program's own ranges have of the time, if that is most of it, and how many there are."""
    run.get(names)
    frames = run.columns(_RECORDS, [_FRAMES])
    ns, seen = 0, Counter[str]()
    for rank in found.ranks:
        spans = run.get(hosts).spans(rank)
        own = np.flatnonzero(marked(spans, frames["span_id"]))
        enters = frames["enters"][np.searchsorted(frames["span_id"], spans.ids[own])]
        idle_in = found.host[rank].within(spans.starts[own], spans.ends[own])
        range_ = np.where(enters, _within(spans, own, spans.starts), _within(spans, own, spans.ends))
        there = (idle_in > 0) & (range_ != NONE)
        own, idle_in, range_ = own[there], idle_in[there], range_[there]
        called = spans.parent[own]
        known = span_names(run, spans.ids[np.concatenate((range_, called[called != NONE]))])
        of_job = np.array([
            whose(known[int(spans.ids[outer])]) == OWN if outer != NONE and spans.kinds[outer] == _PYTHON
            else not _OF_FRAMEWORK.match(known[int(spans.ids[inner])])
            for outer, inner in zip(called.tolist(), range_.tolist(), strict=True)
        ], np.bool_)  # fmt: skip
        ns += int(idle_in[of_job].sum())
        seen.update(known[int(span)] for span in spans.ids[np.unique(range_[of_job])])
    whole = _ns(pieces, found.pieces)
    if not ns or 2 * ns < whole:
        return {}
    return {
        "ranges_share": ns / whole, "count": -(-seen.total() // (run.step_count * len(found.ranks))),
        "names": [name for name, _ in sorted(seen.items(), key=lambda one: (-one[1], one[0]))[:_NAMES]],
    }  # fmt: skip


def _within(spans: HostSpans, frames: Ints, moments: Ints) -> Ints:
    """Per frame the first annotation of its track of which a moment (its start or its end) lies in it, or NONE."""
    found = np.full(len(frames), NONE, np.int64)
    marks = np.flatnonzero(spans.kinds == _ANNOTATION)
    for track in np.unique(spans.tracks[frames]).tolist():
        mine, ranges = spans.tracks[frames] == track, marks[spans.tracks[marks] == track]
        ranges = ranges[np.argsort(moments[ranges], kind="stable")]
        at = np.searchsorted(moments[ranges], spans.starts[frames[mine]])
        there = np.append(moments[ranges], np.iinfo(np.int64).max)[at] <= spans.ends[frames[mine]]
        found[mine] = np.where(there, np.append(ranges, NONE)[at], NONE)
    return found
