"""An operator or a library is used for the first time in the process; that does not come back.

## What it measures
Gaps of the device during what a process does once (analysis/idle/first_use.py). One is a runtime call that takes at
least 20 times its like. It lies in the first run of an operator, or before the first launch of a kernel. Such calls are
not their own like (analysis/idle/long_calls.py). The second is an operator in which a library starts up. It makes calls
that only starting up needs: it makes streams, finds symbols, asks for the device's properties. It takes 20 times its
like, or is the only one. Another is the first run of an operator that launches kernels (or its first launch by the task
queue's thread). It must take at least 20 times the later ones. The fourth is a stretch in which the host records
nothing before something new. The fifth is a convolution that waits for events, as it only does while its library tries
algorithms for a new shape. So is one that asks the runtime about 20 kernels or more: its library makes a plan for a new
shape. Runs of it without that must follow, and take less than a twentieth. The sixth is the way of a data loader with
workers from its seed to its first batch, before any kernel. Then there is loading of code that the profiler recorded
(Runtime Triggered Module Loading, Lazy Function Loading). The last is the recording of a graph (CUDA, HIP or ACL).
These two count in every step. The others count only in runs without steps, or in the first recorded step of a job that
has just begun. Its number says that: where it is 2, a slow call or first run alone counts no more, above 2 nothing
does. The steps of a serving engine do not tell its age. There only a long call and a library's start count, in the
first recorded step.

## Why it costs
A library loads its kernels, builds its context and picks algorithms when it is first used: milliseconds to seconds.
Later steps do not pay it. In a short capture it hides everything else, so it is taken out of the other findings.

## What to do
Record later steps: `schedule(wait=5, warmup=1, active=5)`, or run the model a few times before. Where starting up
itself matters (serving, tests), run every shape once before the first request.

## Limits of the method
The saving is a share of the recorded time; that of later steps is 0. Where steps were marked, all other findings are
shares of the step without what the first one did once. Of a stretch in which nothing was recorded only its place says
what it was, so it is told with less confidence. It is not told of a process that is warm: 20 kernels whose first launch
is quick, and no other sign. Where nothing but a slow first run was recorded, that is said, with less confidence, too. A
rest within an operator, before the driver first launches a kernel, may be a fuser that compiles. One capture does not
tell, so this is not measured then. What was first used before the capture is not seen.

## References
CUDA lazy loading (CUDA_MODULE_LOADING); torch.profiler.schedule; torch.cuda.graph; torch_npu NPUGraph.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import evidence, most_rank, said, similar_ranks, windows
from npulens.analysis.idle.culprit import codes, names
from npulens.analysis.idle.first_use import FirstUse, first_use, perhaps_ns, silences, untold
from npulens.analysis.idle.inside import Call
from npulens.analysis.idle.pieces import Idle, idle
from npulens.analysis.intervals import Intervals, Ints, distinct
from npulens.analysis.run import Run
from npulens.analysis.say import ONCE

NEEDS = ("kernels",)

_LATER = (
    " Later steps do not pay it: judge the job by them. Record after some steps, schedule(wait=5, warmup=1, active=5), "
    "or run the model a few times first."
)
_LATER_ZH = "后续步不再付出此开销，应以后续步评判：先跑若干步再采集，如 schedule(wait=5, warmup=1, active=5)。"

_KEEP = (
    "[[cuda:  CUDA_MODULE_LOADING=EAGER moves loading to the start of the process.]]"
    "[[npu:  Keep the cache of compiled operators (ACL_OP_COMPILER_CACHE_DIR) on a local disk.]]"
)
_KEEP_ZH = (
    "[[cuda: CUDA_MODULE_LOADING=EAGER 可把加载提前到进程启动时。]]"
    "[[npu: 请把算子编译缓存（ACL_OP_COMPILER_CACHE_DIR）放在本地盘。]]"
)
_FIRST = (
    "Rank {ranks}: {first_ns} ({first_share}) of the recorded time is first use of an operator or library, "
    "which happens once: {longest_ns} in {what}"
)
_FIRST_ZH = (
    "rank {ranks}：采集时间中有 {first_ns}（{first_share}）是算子或库的首次使用，只发生一次："
    "{what} 用了 {longest_ns}"
)

TEXT = {
    "en": {
        "found": Words(
            _FIRST,
            "The device waits while kernels are loaded, a context is built or an algorithm is picked." + _LATER + _KEEP,
        ),
        "plans": Words(
            _FIRST,
            "The device waits while kernels are loaded, a context is built or an algorithm is picked. Part of it is a "
            "library[[cuda:  (cuDNN)]] that makes plans for convolutions: it asks about many kernels before it "
            "launches one. It does so once for each shape. Shapes that change pay it again: pad them to a few."
            + _LATER + _KEEP,
        ),
        "slow": Words(
            "Rank {ranks}: {first_ns} ({first_share}) of the recorded time is first recorded runs, 20 times as long "
            "as later ones: {longest_ns} in {what}",
            "First use of an operator or library looks like this: kernels are loaded, a context is built or an "
            "algorithm is picked. Nothing recorded says that it was that." + _LATER + _KEEP,
        ),
        "batch": Words(
            "Rank {ranks}: {first_ns} ({first_share}) of the recorded time goes by until the data loader's first batch "
            "is there: its workers start",
            "The device has computed nothing before. Later batches do not pay it: judge the job by them. Record after "
            "some steps, schedule(wait=5, warmup=1, active=5). Each epoch begins so unless its workers are kept "
            "(persistent_workers=True).",
        ),
        "unseen": Words(
            "Rank {ranks}: for {first_ns} ({first_share}) the host records nothing until {what} is first recorded; "
            "it may well happen once",
            "Nothing says what the host did; with_stack=True would. First use looks like this: loading a library, or "
            "compiling at the first or second call (TorchScript, torch.compile). If it was that, later steps do not "
            "pay it: record after some steps, schedule(wait=5, warmup=1, active=5), and compare.",
        ),
        "graph": Words(
            "Rank {ranks}: {first_ns} ({first_share}) of the recorded time goes into recording graphs ({count}), the "
            "longest {longest_ns} in {what}",
            "While a graph is recorded the device does none of its work; this is warm-up." + _LATER + " If recording "
            "goes on there, shapes or addresses of the inputs change: pad them, and keep the inputs in place.",
        ),
    },
    "zh": {
        "batch": Words(
            "rank {ranks}：采集时间中有 {first_ns}（{first_share}）在等数据加载器的第一批数据，其间加载进程启动",
            "其间设备还没有做过任何计算。后续批次不再付出此开销，应以后续步评判：先跑若干步再采集，如 "
            "schedule(wait=5, warmup=1, active=5)。每个 epoch 开头都会这样，除非保留加载进程"
            "（persistent_workers=True）。",
        ),
        "found": Words(_FIRST_ZH, "设备在等待加载算子、建立上下文或选择算法。" + _LATER_ZH + _KEEP_ZH),
        "plans": Words(
            _FIRST_ZH,
            "设备在等待加载算子、建立上下文或选择算法。其中一部分是库[[cuda: （cuDNN）]]在为卷积制定执行计划："
            "启动 kernel 之前，先逐个查询大量 kernel。每种形状只需一次；"
            "若形状变化，则会再次付出，请填充到少数几种形状。"
            + _LATER_ZH + _KEEP_ZH,
        ),
        "slow": Words(
            "rank {ranks}：采集时间中有 {first_ns}（{first_share}）用于首次采集到的执行，其耗时至少是之后的 20 倍："
            "{what} 用了 {longest_ns}",
            "首次使用算子或库就是这样：加载算子、建立上下文或选择算法。但没有任何记录证明这一点。"
            + _LATER_ZH + _KEEP_ZH,
        ),
        "unseen": Words(
            "rank {ranks}：在首次采集到 {what} 之前，主机有 {first_ns}（{first_share}）没有任何记录；可能只发生一次",
            "现有数据说明不了主机在做什么，with_stack=True 可以。首次使用就是这样：加载库，"
            "或在第一、二次调用时编译（TorchScript、torch.compile）。若是如此，后续步不再付出此开销："
            "先跑若干步再采集，如 schedule(wait=5, warmup=1, active=5)，并加以比较。",
        ),
        "graph": Words(
            "rank {ranks}：采集时间中有 {first_ns}（{first_share}）在录制图（{count} 个），"
            "最长 {longest_ns}，在 {what}",
            "录制图时设备不执行图中的任务，属于预热。" + _LATER_ZH + "若之后仍在录制，说明输入的形状或地址在变："
            "请填充到固定形状，并让输入留在原处。",
        ),
    },
}

#: Which sentences say which sign of first use.
SAYS = {"found": ("call", "start", "operator", "trial", "plan", "loading"), "unseen": ("unseen",), "graph": ("graph",),
        "batch": ("batch",)}  # fmt: skip
#: Signs that something else than a slow first run was recorded.
_SHOWN = ("call", "start", "trial", "plan", "loading")


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each sign and group of ranks that show it alike."""
    told = False
    pieces, once = run.get(idle), run.get(first_use)
    mine = np.flatnonzero(pieces.pick("first_use"))
    way = {int(span): str(way) for found in once.values() for span, way in zip(found.ids, found.ways, strict=True)}
    of = np.array([way.get(int(span), "") for span in pieces.host[mine]], np.str_)
    length = pieces.end - pieces.start
    for text, ways in SAYS.items():
        here = mine[np.isin(of, ways)]
        here = here[np.argsort(-length[here], kind="stable")]
        totals = {rank: ns for rank in pieces.ranks if (ns := int(length[here[pieces.rank[here] == rank]].sum()))}
        hidden = set(run.ranks) - set(totals)
        for ranks in similar_ranks(totals):
            told = True
            gone = _gone(run, {*ranks, *hidden}, ways)
            yield _candidate(run, pieces, text, ranks, here[np.isin(pieces.rank[here], ranks)], gone)
            hidden = set()
    silent = sum(one.end - one.begin for one in run.get(silences))
    if not told and silent >= limits.min_share * run.wall_ns:
        raise NotMeasured(*untold(silent))
    if not told and perhaps_ns(run) >= limits.min_share * run.wall_ns:
        raise NotMeasured(
            "an operator's first run is very slow; nothing says that it launched a kernel, or the job had just begun",
            "有算子首次执行很慢，但采集数据无法说明它是否下发了任务，或作业是否刚启动",
            "two profiles of the same job: one of its start and one after some minutes",
        )


def _gone(run: Run, ranks: set[int], ways: tuple[str, ...]) -> Change:
    """The run without any of it on these ranks, not only what left a gap.

    A rank whose device waits in a receive has no gap while its host does the same. There it would only take the place
    of the rank that is mended.
    """
    once = run.get(first_use)
    signs = {rank: np.isin(once[rank].ways, ways) for rank in sorted(ranks) if rank in once}
    return Change(host={
        rank: Intervals.union_of(once[rank].starts[of], once[rank].ends[of]) for rank, of in signs.items() if of.any()
    })  # fmt: skip


def _candidate(run: Run, pieces: Idle, text: str, ranks: tuple[int, ...], mine: Ints, gone: Change) -> Candidate:
    length = (pieces.end - pieces.start)[mine]
    spent, calls = _innermost(run, pieces, SAYS[text], mine)
    longest = min(spent, key=lambda span: (-spent[span], span))
    totals = {rank: int(length[pieces.rank[mine] == rank].sum()) for rank in ranks}
    worst = max(totals.values())
    numbers: dict[str, Value] = {
        "ranks": said(ranks), "first_ns": worst, "first_share": worst / run.wall_ns if run.wall_ns else 0.0,
        "longest_ns": spent[longest], "what": _what(run, pieces, int(mine[0]), longest),
        "count": max(1, len(np.unique(pieces.host[mine])) // len(ranks)), "per": ONCE,
        "most_rank": most_rank(totals),
    }  # fmt: skip
    its = np.array([piece in calls and calls[piece].span == longest for piece in mine.tolist()], np.bool_)
    if text == "found":
        text = _said(run, set(spent))
    return Candidate(
        "first_use", text, numbers, evidence(run, pieces, np.concatenate((mine[its], mine[~its]))[:10], calls),
        Change(host=windows(pieces, ranks, mine)) | gone,
        "medium" if text in ("unseen", "slow") else "high", measured_ns=worst,
    )  # fmt: skip


def _said(run: Run, spans: set[int]) -> str:
    """Which sentences say what was recorded of these spans."""
    ways = {
        str(way) for one in run.get(first_use).values() for span, way in zip(one.ids.tolist(), one.ways, strict=True)
        if span in spans
    }  # fmt: skip
    return "plans" if "plan" in ways else "found" if ways.intersection(_SHOWN) else "slow"


#: A stretch of first use: its span, start and end.
_Stretch = tuple[int, int, int]


def _innermost(run: Run, pieces: Idle, ways: tuple[str, ...], mine: Ints) -> tuple[Counter[int], dict[int, Call]]:
    """How long the device idled in each span, without those within it; and of each piece the span with most of it."""
    spent, largest = Counter[int](), dict[int, tuple[_Stretch, int]]()
    for rank in np.unique(pieces.rank[mine]).tolist():
        own = mine[pieces.rank[mine] == rank]
        for piece, within in _cut(run.get(first_use)[rank], pieces, ways, own[np.argsort(pieces.start[own])]):
            for (span, _, _), ns in within.items():
                spent[span] += ns
            if within:
                largest[piece] = min(within.items(), key=lambda one: (-one[1], one[0]))
    if not spent:  # all of it on the way to the device
        for host, ns in zip(pieces.host[mine].tolist(), (pieces.end - pieces.start)[mine].tolist(), strict=True):
            spent[host] += ns
    known = names(run, np.array([span for (span, _, _), _ in largest.values()], np.int64))
    calls = {
        piece: Call(span, known[span], begin, end, ns)
        for piece, ((span, begin, end), ns) in largest.items() if span in known
    }  # fmt: skip
    return spent, calls


def _cut(
    found: FirstUse, pieces: Idle, ways: tuple[str, ...], ordered: Ints
) -> Iterator[tuple[int, Counter[_Stretch]]]:
    """Of some pieces of a rank, by start, how much of each lies in which stretch: the last begun that is open."""
    rows = np.flatnonzero(np.isin(found.ways, ways))
    rows = rows[np.lexsort((-found.ends[rows], found.starts[rows]))]
    stretches = list(zip(*(part[rows].tolist() for part in (found.ids, found.starts, found.ends)), strict=True))
    edges = distinct(np.concatenate((found.starts[rows], found.ends[rows])))
    open_, at = list[_Stretch](), 0
    for piece in ordered.tolist():
        begin, end = int(pieces.start[piece]), int(pieces.end[piece])
        inner = edges[np.searchsorted(edges, begin, side="right") : np.searchsorted(edges, end)]
        within = Counter[_Stretch]()
        for first, last in itertools.pairwise((begin, *inner.tolist(), end)):
            while at < len(stretches) and stretches[at][1] <= first:
                open_.append(stretches[at])
                at += 1
            while open_ and open_[-1][2] <= first:
                open_.pop()
            if open_:
                within[open_[-1]] += last - first
        yield piece, within


def _what(run: Run, pieces: Idle, piece: int, span: int) -> str:
    """The call or operator, and the operator and line that it belongs to."""
    known = names(run, np.array([span], np.int64))
    if span not in known:
        return names(run, pieces.task[[piece]]).get(int(pieces.task[piece]), "?")
    name = known[span].rsplit("@", 1)[-1]
    ((rank, begin),) = run.con.execute("SELECT rank, ts_ns FROM span WHERE span_id = ?", [span]).fetchall()
    code = codes(run, rank, np.array([begin], np.int64))[0]
    where = ", ".join(part for part in (code.frame, code.op) if part and part != name)
    return f"{name} ({where})" if where else name
