"""Kernels are shorter than the cost of launching them.

## What it measures
Runs of 8 or more kernels, each shorter than the time from one launch of this job to the next. Between them
the device idles. Per launch it counts the usual time to the next launch, and the launch's way to the device. What the
host takes beyond that is host_late. Other kernels before which the device idles from their launch on are counted apart.

A kernel may have been queued by then: its launch had returned and had time to arrive before the device fell idle. Such
gaps are the device's own, and a finding of their own: the host is not their reason. Gaps of next to nothing are no gaps
and are not counted. Most of the time may lie where a launched graph begins or ends. That is said, as it is what
launching the step in pieces costs.

## Why it costs
A launch takes the host 5 to 50 us whatever the kernel does. Kernels of 2 us leave the device idle nine tenths of the
time, however fast they are.

## What to do
Launch them together: fused or foreach operators (`foreach=True`, NpuFusedAdamW), or torch.compile with torchair or
Inductor. Or use a captured graph (torch.npu.NPUGraph, CUDA graphs), TASK_QUEUE_ENABLE=2, or a larger batch. Where the
device idles around graphs, take what lies between them into one graph of the whole step.

## Limits of the method
The saving is what one launch instead of the run's would give back, with what a kernel costs that does nothing. It is a
ceiling, and never more than the device idles for reasons that are known. A kernel that waits much longer than a launch
takes to arrive waits for something else, which is not counted. Nodes of a captured graph have no launch of their own
and do not count. What fusing saves in memory traffic is `unfused`.

On a CPU nothing is launched: calling an operator and computing it are one. There runs of operators count whose work, by
their shapes, is less than half of their time. One call for all of them would give back the rest, and the pauses between
them. Work is counted at a tenth of what a core does, and calls cost more while a profiler records them. Operators that
make views, ask, allocate or only call others compute nothing: their own time outside of such runs is told apart.

## References
Launch cost against kernel length: HTA "short kernels"; CUDA graphs and ACL graph documentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import limits as limits_
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.kernels import evidence, kernels
from npulens.analysis.device.tensors import spoken
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import Blame, blame, said, similar_ranks
from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.issue import RUNTIME, Tasks, launches, tasks
from npulens.analysis.idle.launch_costs import kernel_calls, launch_costs
from npulens.analysis.idle.origin import origins
from npulens.analysis.idle.pieces import CODE, LATENCIES, Idle, idle
from npulens.analysis.idle.small_operators import SmallOperators, small_operators
from npulens.analysis.intervals import EMPTY, Intervals, Ints, among, combined, distinct
from npulens.analysis.limits import limit
from npulens.analysis.run import Run
from npulens.analysis.steady import steady_ns

NEEDS = ("kernels", "launches")

#: A call that launches several kernels launches a graph: its nodes cost no launch each.
TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {kernels} kernels of each step, {kernel_ns} each, are shorter than the time from one launch "
            "to the next ({launch_ns}). The device idles {idle_ns} ({idle_share}) between them"
            "[[, {code_share} of that while the host is in {code}]]",
            "Launch them together: foreach or fused operators[[npu:  (NpuFusedAdamW, torch_npu.npu_*)]], torch.compile"
            "[[npu:  (torchair)]][[cuda|rocm:  (mode='reduce-overhead')]], or a captured graph[[npu:  (NPUGraph)]]"
            "[[cuda:  (CUDA graphs)]][[rocm:  (HIP graphs)]]. [[npu: TASK_QUEUE_ENABLE=2 makes each launch cheaper. ]]"
            "A larger batch makes each kernel worth its launch.",
        ),
        "apart": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) between launches and their kernels, "
            "{launch_ns} before each of {kernels}",
            "Nothing else was queued by then, so each pays the way to the device. Let the host run "
            "ahead: fewer synchronising calls and reads of values, larger pieces of work, or a captured graph"
            "[[npu:  (NPUGraph)]][[cuda:  (CUDA graphs)]][[rocm:  (HIP graphs)]].",
        ),
        "queued": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) between kernels that were queued "
            "already, {gap_ns} before each of {kernels}",
            "The host is not the reason: half of their launches had returned {lead_ns} or more before the gap. The "
            "device takes this long from one kernel of {kernel_ns} to the next. Have fewer and larger kernels: fuse "
            "them[[npu:  (torch_npu.npu_*)]], or give each more work. A captured graph[[npu:  (NPUGraph)]]"
            "[[cuda:  (CUDA graphs)]][[rocm:  (HIP graphs)]] may shorten the gaps. Faster launches do not."
            "[[ {edge_share} of the time is where a launched graph begins or ends: one whole graph has no such gaps.]]",
        ),
        "edges": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) between queued kernels, "
            "{edge_share} of that where a graph begins or ends",
            "The host is not the reason: half of the launches had returned {lead_ns} or more before the gap. Going "
            "from a graph to kernels outside it, or back, takes the device {gap_ns} (median of {kernels} gaps). "
            "[[Outside is most often {type}. ]]Capture the step as one whole graph: take what is launched between the "
            "graphs into it. More graphs of smaller pieces make it worse, and faster launches do not help.",
        ),
        "called": Words(
            "Rank {ranks}: calling {kernels} small operators costs {called_ns} of each step; each takes {kernel_ns}, "
            "its work {work_ns} at most",
            "Compute more in each call: whole tensors instead of rows in a Python loop, a larger batch, foreach or "
            "fused operators, torch.compile. Most of it is {type}[[ on {shapes}]], called by {origin}.",
        ),
        "calling": Words(
            "Rank {ranks}: operators that only make views or call others take {idle_ns} of each step ({idle_share})"
            "[[, {code_share} of that in {code}]]",
            "Call fewer of them: whole tensors instead of slices, larger pieces of work, a larger batch, "
            "torch.compile.[[ A single call of {code} takes {longest_ns}: see whether it comes back in later steps.]]"
            "[[ Besides, the host was in {others}.]] Python code that they run, such as hooks, is part of it.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步有 {kernels} 个算子（平均 {kernel_ns}）比相邻两次下发的间隔（{launch_ns}）还短，"
            "其间设备空闲 {idle_ns}（{idle_share}）[[，其中 {code_share} 的时间主机在 {code}]]",
            "合并下发：foreach 或融合算子[[npu: （NpuFusedAdamW、torch_npu.npu_*）]]、torch.compile[[npu: "
            "（torchair）]]"
            "[[cuda|rocm: （mode='reduce-overhead'）]]、图捕获[[npu: （NPUGraph）]][[cuda: （CUDA graphs）]]"
            "[[rocm: （HIP graphs）]]。[[npu: TASK_QUEUE_ENABLE=2 可降低单次下发开销。]]更大的批量使算子更长。",
        ),
        "apart": Words(
            "rank {ranks}：从下发到算子开始之间，设备每步空闲 {idle_ns}（{idle_share}）；共 {kernels} 个算子，每个之前 "
            "{launch_ns}",
            "主机下发时队列已空，每个算子都要等下发到达设备。请让主机跑在前面：减少同步调用和取值、增大每次下发的工作量，"
            "或使用图捕获[[npu: （NPUGraph）]][[cuda: （CUDA graphs）]][[rocm: （HIP graphs）]]。",
        ),
        "queued": Words(
            "rank {ranks}：在已排队的算子之间，设备每步空闲 {idle_ns}（{idle_share}）；共 {kernels} 个算子，每个之前 "
            "{gap_ns}",
            "原因不在主机：半数算子的下发调用在空隙开始前至少 {lead_ns} 就已返回。算子平均 {kernel_ns}，"
            "空隙是设备从一个算子切换到下一个的耗时。请减少算子数量、增大单个算子：融合算子"
            "[[npu: （torch_npu.npu_*）]]，或让每个算子多算一些。图捕获"
            "[[npu: （NPUGraph）]][[cuda: （CUDA graphs）]][[rocm: （HIP graphs）]]"
            "可能缩短空隙；加快下发则没有作用。"
            "[[其中 {edge_share} 的时间在图的开始或结束处：合成一张整图就没有这些空隙。]]",
        ),
        "edges": Words(
            "rank {ranks}：在已排队的算子之间，设备每步空闲 {idle_ns}（{idle_share}），"
            "其中 {edge_share} 在图的开始或结束处",
            "原因不在主机：半数下发调用在空隙开始前至少 {lead_ns} 就已返回。设备从图切换到图外的算子（或反过来）耗时 "
            "{gap_ns}（{kernels} 个空隙的中位数）。[[图外最常见的是 {type}。]]"
            "请把整步捕获为一张图，把各图之间下发的算子也放进去。"
            "把图拆得更碎只会更慢，加快下发也没有作用。",
        ),
        "called": Words(
            "rank {ranks}：每步调用 {kernels} 个小算子的开销为 {called_ns}；"
            "每个耗时 {kernel_ns}，其中计算最多 {work_ns}",
            "让每次调用多算一些：用整个张量代替 Python 循环里的逐行计算、增大 batch、使用 foreach 或融合算子、"
            "torch.compile。最多的是 {type}[[，形状 {shapes}]]，由 {origin_zh} 调用。",
        ),
        "calling": Words(
            "rank {ranks}：每步有 {idle_ns}（{idle_share}）用于只建视图或只调用其他算子的算子"
            "[[，其中 {code_share} 在 {code}]]",
            "请减少这类调用：用整个张量代替切片、增大每次的工作量、增大 batch、使用 torch.compile。"
            "[[{code} 的一次调用就用了 {longest_ns}，请确认后续步中是否还会出现。]]"
            "[[此外主机还在：{others}。]]它们执行的 Python 代码（如钩子函数）也计算在内。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """What a kernel costs that does nothing."""

    empty_ns: float = limit(2_000, "ns of a kernel that does nothing", "shortest of the real captures: 1.5 to 2.5 us")


#: So many kernels of a rank in a step that idle apart are no accident.
_SEVERAL = 8
#: Stamps of kernels that follow each other at once are up to so far apart (real captures: 1 ns, or under 100).
_NO_GAP_NS = 200
#: A call that holds a smaller share of the idle time is not named.
_TELLS = 0.1
#: Idle time with these causes is none that fewer launches are known to give back.
_NOT_OF_LAUNCHES = ("unknown", "backlog")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks whose kernels are short alike."""
    small = run.get(small_operators)
    yield from _called(run, small, limits)
    yield from _calling(run, small)
    pieces, rhythm = run.get(idle), run.get(launch_costs)
    every = {rank: did for rank, did in run.get(tasks).items() if not np.isin(did.ids, small.on_cpu).any()}
    ahead = {rank: _ahead(every[rank], rhythm.latency_ns[rank]) for rank in pieces.ranks if rank in every}
    graphs = _graphs(run)
    short = {
        rank: rhythm.short_run(every[rank]) & ~np.isin(every[rank].source, graphs)
        for rank in pieces.ranks if rank in every
    }  # fmt: skip
    queued = pieces.pick("launch_overhead") & _before(pieces, every, ahead)
    short = {rank: _by_launches(pieces, every[rank], of, queued, rank) for rank, of in short.items()}
    mine = pieces.pick("launch_overhead") & _before(pieces, every, short)
    totals = {rank: ns for rank, ns in pieces.totals(mine).items() if rank in short and ns}
    least = limits.min_share * run.get(steady_ns)
    if max(totals.values(), default=0) < least <= _hidden(pieces, every, short):
        raise NotMeasured(
            "between short kernels the device waits for the profiler, which hides what launching costs",
            "短算子之间设备在等采集器，看不出下发开销", "l2_cache=False",
        )  # fmt: skip
    for ranks in similar_ranks(totals):
        found = blame(run, pieces, ranks, mine)
        own = np.concatenate([(every[rank].ends - every[rank].starts)[short[rank]] for rank in ranks])
        count = max(int(short[rank].sum()) for rank in ranks)
        numbers: dict[str, Value] = {
            **found.numbers, **_called_in(run, pieces, found), "kernels": -(-count // run.step_count),
            "kernel_ns": int(own.mean()), "launch_ns": rhythm.ordinary_ns,
        }  # fmt: skip
        ids = np.concatenate([every[rank].ids[short[rank]] for rank in ranks])
        change = Change(
            host={rank: _launches(every[rank], short[rank], rhythm.ordinary_ns) for rank in ranks},
            tasks=ids,
            task_ns=np.minimum(own, int(limits.empty_ns)),
            delays=ids,
            delay_ns=np.concatenate([
                np.minimum(_latency(every[rank], short[rank]), LATENCIES * rhythm.latency_ns[rank]) for rank in ranks
            ]),
        )  # fmt: skip
        ceiling = max(_idle(pieces, rank) for rank in ranks)
        yield Candidate(
            "launch_overhead", "found", numbers, found.evidence, change, ceiling_ns=ceiling,
            measured_ns=found.measured_ns,
        )  # fmt: skip
    apart = pieces.pick("launch_overhead") & ~mine
    yield from _apart(run, pieces, every, apart & queued, "queued")
    yield from _apart(run, pieces, every, apart & ~queued, "apart")


def _apart(run: Run, pieces: Idle, every: dict[int, Tasks], mine: NDArray[np.bool_], text: str) -> Iterator[Candidate]:
    """One candidate for each group of ranks whose other kernels start as long after they could."""
    totals = {rank: ns for rank, ns in pieces.totals(mine).items() if ns}
    for ranks in similar_ranks(totals):
        here = np.flatnonzero(mine & np.isin(pieces.rank, ranks) & (pieces.task != NONE))
        ids, of = np.unique(pieces.task[here], return_inverse=True)
        wait = np.zeros(len(ids), np.int64)
        np.add.at(wait, of.ravel(), (pieces.end - pieces.start)[here])
        real = wait > (_NO_GAP_NS if text == "queued" else 0)
        ids, wait = ids[real], wait[real]
        if len(ids) < _SEVERAL * run.step_count * len(ranks):
            continue
        # A launch that returned long before is not what the host did in the gap.
        shown = replace(pieces, host=np.full_like(pieces.host, NONE)) if text == "queued" else pieces
        found = blame(run, shown, ranks, mine)
        numbers: dict[str, Value] = {
            **{name: value for name, value in found.numbers.items() if not name.startswith("code")},
            "kernels": -(-len(ids) // (run.step_count * len(ranks))),
        }  # fmt: skip
        says = text
        if text == "queued":
            share, outside = _edges(run, every, ids, wait)
            numbers |= {"gap_ns": int(np.median(wait)), **_queue(every, ranks, ids)}
            numbers |= {"edge_share": share, "type": outside}
            says = "edges" if share is not None and 2 * share >= 1 else text
        else:
            numbers["launch_ns"] = int(wait.mean())
        yield Candidate(
            "launch_overhead", says, numbers, found.evidence, Change(delays=ids, delay_ns=wait),
            ceiling_ns=found.measured_ns if text == "queued" else None, measured_ns=found.measured_ns,
        )  # fmt: skip


def _ahead(did: Tasks, latency_ns: int) -> NDArray[np.bool_]:
    """Which tasks were queued when the device was through with all before them.

    Their launch had returned by then, and had had the time that one usually takes to arrive.
    """
    free = _free(did)
    found: NDArray[np.bool_] = did.linked & ~did.node & (did.source_end <= free)
    found &= did.source_start + latency_ns <= free
    found[:1] = False
    return found


def _free(did: Tasks) -> Ints:
    """When all tasks that began before each were over; the first of a rank: when it begins itself."""
    return np.concatenate((did.starts[:1], np.maximum.accumulate(did.ends)[:-1]))


def _queue(every: dict[int, Tasks], ranks: tuple[int, ...], ids: Ints) -> dict[str, Value]:
    """Of tasks that were queued: how long the median launch had returned, and how long they take."""
    parts = [(_free(did) - did.source_end, did.ends - did.starts, among(did.ids, ids))
             for did in (every[rank] for rank in ranks)]  # fmt: skip
    lead = np.concatenate([early[of] for early, _, of in parts])
    length = np.concatenate([took[of] for _, took, of in parts])
    return {"lead_ns": int(np.median(lead)), "kernel_ns": int(length.mean())}


def _edges(run: Run, every: dict[int, Tasks], ids: Ints, wait: Ints) -> tuple[float | None, str | None]:
    """Of gaps before some tasks: the share where a launched graph begins or ends, and what lies outside of it most.

    Neither, where that share is too small to tell.
    """
    calls = run.get(launches)
    graphs = np.unique(calls["source"][calls["graph"].astype(np.bool_)]).astype(np.int64)
    held, outside = 0, Counter[int]()
    for did in every.values():
        after = np.flatnonzero(among(did.ids, ids))
        before = _last(did)[after]
        ns = wait[np.searchsorted(ids, did.ids[after])]
        of_graph = did.linked & np.isin(did.source, graphs)
        edge = (of_graph[before] | of_graph[after]) & (did.source[before] != did.source[after])
        held += int(ns[edge].sum())
        for task, graph in ((after, before), (before, after)):
            mine = edge & of_graph[graph] & ~of_graph[task]
            outside.update(dict(zip(did.ids[task[mine]].tolist(), ns[mine].tolist(), strict=True)))
    share = held / max(1, int(wait.sum()))
    if share < _TELLS:
        return None, None
    known, spent = run.get(kernels), Counter[str]()
    order = np.argsort(known.span_id, kind="stable")
    for span, lost in outside.items():
        at = np.searchsorted(known.span_id, span, sorter=order)
        if at < len(order) and known.span_id[order[at]] == span:
            spent[known.kinds[known.kind[order[at]]].type] += lost
    return share, min(spent, key=lambda one: (-spent[one], one)) if spent else None


def _last(did: Tasks) -> Ints:
    """For each task the one before it that ended last; the first has itself."""
    until = np.maximum.accumulate(did.ends)
    found: Ints = np.maximum.accumulate(np.where(did.ends == until, np.arange(len(until)), 0))
    return np.concatenate((found[:1], found[:-1]))


def _by_launches(
    pieces: Idle, did: Tasks, short: NDArray[np.bool_], queued: NDArray[np.bool_], rank: int
) -> NDArray[np.bool_]:
    """The runs of short kernels but for those whose gaps mostly end with a kernel that was queued."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], short.view(np.int8), [0]))))
    own = pieces.on(rank)
    order = np.argsort(did.ids, kind="stable")
    at = np.flatnonzero(pieces.pick("launch_overhead")[own] & np.isin(pieces.task[own], did.ids))
    place = order[np.searchsorted(did.ids, pieces.task[own][at], sorter=order)]
    length = np.where(queued[own][at], 1, -1) * (pieces.end - pieces.start)[own][at]
    until = np.concatenate(([0], np.cumsum(np.bincount(place, length, len(did.ids)))))
    left = short.copy()
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        left[first:last] &= until[last] - until[first] <= 0
    return left


def _called_in(run: Run, pieces: Idle, found: Blame) -> dict[str, Value]:
    """The call or operator that launches most of these kernels, and the share of the idle time the host was in it."""
    calls, count = np.unique(pieces.host[found.pieces], return_counts=True)
    name = names(run, calls)
    launching = Counter[str]()
    for call, times in zip(calls.tolist(), count.tolist(), strict=True):
        if call in name:
            launching[name[call]] += times
    if not launching:
        return {"code": None, "code_share": None}
    most = min(launching, key=lambda one: (-launching[one], one))
    held, whole = 0, 0
    for rank in found.ranks:
        idle_ = found.host.get(rank, EMPTY)
        rows = run.columns("SELECT ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE rank = ? AND name = ? "
                           "AND kind IN ('runtime', 'cpu_op', 'enqueue', 'dequeue')", [rank, most])  # fmt: skip
        inside = Intervals.union_of(rows["ts_ns"].astype(np.int64), rows["end_ns"].astype(np.int64))
        held, whole = held + (idle_ & inside).total(), whole + idle_.total()
    share = held / whole if whole else 0.0
    return {"code": most if share >= _TELLS else None, "code_share": share if share >= _TELLS else None}


def _graphs(run: Run) -> Ints:
    """Calls that launch several kernels."""
    found = run.get(kernel_calls)
    mine = found["vague"] == RUNTIME
    source, task = found["source"][mine].astype(np.int64), found["task"][mine].astype(np.int64)
    _, once = np.unique(combined(source, task), return_index=True)
    called, count = np.unique(source[once], return_counts=True)
    return called[count > 1]


def _called(run: Run, small: SmallOperators, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks on a CPU whose operators are small alike."""
    least = limits.min_share * run.get(steady_ns)
    if not len(small.ids) and max(small.untold_ns.values(), default=0) / run.step_count >= least:
        raise NotMeasured(
            "how much the short operators have to compute: their shapes were not recorded",
            "短算子的计算量：未采集形状", "record_shapes=True",
        )  # fmt: skip
    every, steps = run.get(kernels), run.step_count
    for ranks, mine in by_rank(small.rank, small.fixed_ns):
        ids, fixed = small.ids[mine], small.fixed_ns[mine]
        rows = np.flatnonzero(np.isin(every.span_id, ids))
        kind = np.bincount(every.kind[rows], every.dur[rows]).argmax()
        longest = rows[every.kind[rows] == kind]
        lost = {
            rank: int(small.fixed_ns[small.rank == rank].sum()) + small.pauses[rank].total() for rank in ranks
        }  # fmt: skip
        worst = max(lost, key=lambda rank: lost[rank])
        numbers: dict[str, Value] = {
            "ranks": said(ranks), "kernels": -(-int((small.rank == worst).sum()) // steps),
            "called_ns": lost[worst] // steps, "kernel_ns": int(small.ns[mine].mean()),
            "work_ns": int((small.ns[mine] - fixed).mean()), "type": every.kinds[kind].type,
            "shapes": spoken(every.kinds[kind].input_shapes), **origins(run, int(every.span_id[longest[0]])),
        }  # fmt: skip
        host = {rank: small.pauses[rank] for rank in ranks}
        yield Candidate(
            "launch_overhead", "called", numbers, evidence(every, rows, every.dur[rows]),
            Change(host=host, tasks=ids, task_ns=fixed), measured_ns=lost[worst],
        )  # fmt: skip


def _calling(run: Run, small: SmallOperators) -> Iterator[Candidate]:
    """One candidate for each group of ranks on a CPU whose operators call others alike, outside of such runs."""
    pieces = run.get(idle)
    mine = pieces.pick("calling")
    for rank, pauses in small.pauses.items():
        at = np.flatnonzero(mine & (pieces.rank == rank))
        mine[at[pauses.within(pieces.start[at], pieces.end[at]) > 0]] = False
    for ranks in similar_ranks({rank: ns for rank, ns in pieces.totals(mine).items() if ns}):
        found = blame(run, pieces, ranks, mine)
        numbers: dict[str, Value] = {**found.numbers, "others": None, "longest_ns": None}
        if found.inside is not None and found.inside.code:
            alone = 2 * found.longest_ns >= found.inside.ns
            numbers |= {**found.inside.besides, "longest_ns": found.longest_ns if alone else None}
        yield Candidate(
            "launch_overhead", "calling", numbers, found.evidence, found.change, "medium",
            measured_ns=found.measured_ns,
        )  # fmt: skip


def _idle(pieces: Idle, rank: int) -> int:
    """A launch less gives back idle time and nothing else; and none that waits for something unknown."""
    own = pieces.on(rank)
    known = ~np.isin(pieces.cause[own], [CODE[cause] for cause in _NOT_OF_LAUNCHES])
    return int((pieces.end[own] - pieces.start[own])[known].sum())


def _hidden(pieces: Idle, every: dict[int, Tasks], short: dict[int, NDArray[np.bool_]]) -> int:
    """Of the rank that has most: time in which the profiler holds the device up before a kernel of a run."""
    mine = pieces.pick("profiler_overhead") & _before(pieces, every, short) & (pieces.host == NONE)
    totals = pieces.totals(mine)
    return max((totals[rank] for rank in short), default=0)


def _before(pieces: Idle, every: dict[int, Tasks], some: dict[int, NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """The pieces before some of the tasks."""
    ids = [every[rank].ids[of] for rank, of in some.items()]
    return np.isin(pieces.task, np.concatenate(ids) if ids else np.zeros(0, np.int64))


def _launches(did: Tasks, short: NDArray[np.bool_], ordinary_ns: int) -> Intervals:
    """What launching the run's kernels took the host, each at most what a launch usually costs."""
    done = np.where(did.queued, did.issued, did.source_end)
    times = distinct(done[did.linked])
    mine = done[short]
    before = times[np.maximum(np.searchsorted(times, mine) - 1, 0)]
    return Intervals.union_of(np.maximum(before, mine - ordinary_ns), mine)


def _latency(did: Tasks, short: NDArray[np.bool_]) -> Ints:
    """From launch to start, or to the end of the kernel before where that was later."""
    late: Ints = np.maximum((did.starts - np.maximum(did.source_start, _free(did)))[short], 0)
    return late
