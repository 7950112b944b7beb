"""Collectives wait for a rank that comes late, whether that rank was captured or not.

## What it measures
Each collective waits until its last member has come. From Level1 on, its parts that wait (`Notify_Wait`) name the peer,
so that the last one is known from any captured rank. Level0 shows the waits without the peer. Without tasks (Kineto)
several ranks' starts are compared on one clock, and only differences beyond the clocks' uncertainty count. What several
captured ranks saw of one collective is merged first. Each late peer is one finding. Where nothing proves which calls
are the same collective, their order is told.

## Why it costs
Everybody waits for the last, and has nothing else to do.

## What to do
Capture the late rank. The usual reasons are an input pipeline, garbage collection or another process on its host.
Others are more tokens than the other ranks have, or a lower clock.

## Limits of the method
The saving is what is left when the late peer comes together with the last but one. If more ranks come late, the rest
shows when the first is mended. A captured late rank whose own cause is found is told by that. A slow link before the
first meeting looks like a late peer. Sends and receives are not counted (see pipeline_bubble).

## References
HCCL's `Notify_Wait` and `Notify_Record` tasks (CANN profiling guide: COMMUNICATION_TASK_INFO).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.device.family import family
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Value, Words
from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.collectives import POINT_TO_POINT, SHIFTS, UNNAMED, Collectives, collectives
from npulens.analysis.ranks.exposure import between_stages
from npulens.analysis.ranks.lateness import Late, bare, excess, late_peers, said, told_share, waited_less, witnessed
from npulens.analysis.ranks.waits import GUESSED, UNKNOWN, complete, waits
from npulens.analysis.replay import whatif
from npulens.analysis.run import Run
from npulens.analysis.steady import of_step, steady_ns

NEEDS = ("collectives",)
_MOST, _PEERS = 10, 16  # windows of each side; peers looked at, the latest first
#: Of this share of the collectives' time waits have to be known before nobody is called late.
_TOLD = 0.8

_HEAD = "{who} {wait_ns} of each step ({wait_share}{bare})"
_HEAD_ZH = "rank {waiting} 每步有 {wait_ns}（{wait_share}{bare_zh}）"
_SAVES = "If the last rank arrived when the second-slowest does, each step would be {saving_ns} shorter."
_SAVES_ZH = "若最后一张卡与倒数第二张卡同时到达，每步可缩短 {saving_ns}。"
_SEE = "The other findings of rank {peer} say more. " + _SAVES
_SEE_ZH = "rank {peer} 的其他结论有更多说明。" + _SAVES_ZH
TEXT = {
    "en": {
        "uncaptured": Words(
            _HEAD + " for rank {peer}, not captured",
            "Nothing recorded here says why rank {peer} is late. Profile rank {peer} together with rank {witness} over "
            "the same 5 steps: [[npu: activities=[CPU, NPU], profiler_level=Level1, gc_detect_threshold=0, ]]"
            "with_stack=True. On its host look at the input pipeline, garbage collection, core binding, other "
            "processes and the clock of its device. " + _SAVES,
        ),
        "idle": Words(
            _HEAD + " for rank {peer}: its device idles {idle_ns} longer than theirs",
            "The host of rank {peer} issues work too late; see what it does in its gaps. " + _SEE,
        ),
        "busy": Words(
            _HEAD + " for rank {peer}: its device works {busy_ns} longer than theirs",
            "Compare its kernels with theirs: more tokens, other shapes, a lower clock. " + _SEE,
        ),
        "captured": Words(_HEAD + " for rank {peer}", _SEE),
        "clocked": Words(_HEAD + " for rank {peer} (clocks compared to +-{uncertainty_ns})", _SEE),
        "unnamed": Words(
            _HEAD + " in collectives for another rank; this capture does not say for which",
            "Record every rank over the same steps[[npu: , or this one with profiler_level=Level1]]: then it is known "
            "which one comes late. " + _SAVES,
        ),
        "guessed": Words(
            "Collectives take {wait_ns} of each step ({wait_share}) longer than the fastest of their size. "
            "A rank comes late, or a link is slow",
            "Profile every rank of the group over the same steps[[npu:  (profiler_level=Level1 on this one is "
            "enough)]], "
            "then it is known which. " + _SAVES,
        ),
        "ordered": Words(
            "Rank {peer} comes last to {last_share} of {count} collectives, by the order of calls. Rank {witness} "
            "waits {wait_ns} of each step ({wait_share}) for it",
            "Nothing proves which calls of the ranks are the same collective, so this is a hint. Record every rank "
            "over the same steps, with names of groups and members (torch.distributed initialised before profiling). "
            "Look at the host and the input of rank {peer} first. " + _SAVES,
        ),
        "local": Words(
            _HEAD + " for member {member} of group {group}",
            "The capture does not list the group's ranks (profiler_metadata.json); profile that member. " + _SAVES,
        ),
    },
    "zh": {
        "uncaptured": Words(
            _HEAD_ZH + "在等未采集的 rank {peer}",
            "现有数据说明不了 rank {peer} 为何迟到。请在相同的 5 个步上同时采集 rank {peer} 和 rank {witness}："
            "[[npu: activities=[CPU, NPU]、profiler_level=Level1、gc_detect_threshold=0、]]with_stack=True，"
            "并检查其主机的数据输入、垃圾回收、绑核、其他进程和设备频率。" + _SAVES_ZH,
        ),
        "idle": Words(
            _HEAD_ZH + "在等 rank {peer}：它的设备比其他卡多空闲 {idle_ns}",
            "rank {peer} 的主机下发过晚，请看它在空闲时做了什么。" + _SEE_ZH,
        ),
        "busy": Words(
            _HEAD_ZH + "在等 rank {peer}：它的设备比其他卡多工作 {busy_ns}",
            "请对比它与其他卡的算子：token 更多、形状不同或频率更低。" + _SEE_ZH,
        ),
        "captured": Words(_HEAD_ZH + "在等 rank {peer}", _SEE_ZH),
        "clocked": Words(_HEAD_ZH + "在等 rank {peer}（时钟误差 ±{uncertainty_ns}）", _SEE_ZH),
        "unnamed": Words(
            _HEAD_ZH + "在集合通信中等其他卡，数据未说明在等哪张卡",
            "请在相同的步上采集所有卡[[npu: ，或用 profiler_level=Level1 重新采集本卡]]，"
            "便可知是哪张卡迟到。" + _SAVES_ZH,
        ),
        "guessed": Words(
            "集合通信每步比同规模最快者多用 {wait_ns}（{wait_share}）：有卡迟到或链路偏慢",
            "请在相同的步上采集该通信域的所有卡[[npu: （本卡用 profiler_level=Level1 即可）]]，"
            "便可知是哪张。" + _SAVES_ZH,
        ),
        "ordered": Words(
            "按调用顺序，{count} 次集合通信中有 {last_share} 由 rank {peer} 最后到达；"
            "rank {witness} 每步为此等待 {wait_ns}（{wait_share}）",
            "没有数据能证明各卡的哪些调用是同一次集合通信，因此仅供参考。请在相同的步上采集所有卡，"
            "并带上通信域名称与成员（先初始化 torch.distributed 再采集），先检查 rank {peer} 的主机和数据输入。"
            + _SAVES_ZH,
        ),
        "local": Words(
            _HEAD_ZH + "在等通信域 {group} 的成员 {member}",
            "数据中没有通信域成员列表（profiler_metadata.json），请采集该成员。" + _SAVES_ZH,
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When a wait is worth telling."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate per late peer."""
    peers, least = run.get(late_peers)[:_PEERS], limits.min_share * run.get(steady_ns)
    told = run.get(told_share) >= _TOLD
    shown = [] if told else [late for late in peers if _shown(run, late, least)]
    vague = not told and all(late.guessed for late in shown)
    hints = [one for one in run.get(orders) if one.late_ns >= least and 2 * one.last > one.count] if vague else []
    if hints:  # a rank is better than a guess
        yield from (_hint(run, one) for one in hints)
        return
    if not told and not shown:
        raise NotMeasured(
            "waits inside collectives were not recorded, and the starts of the captured ranks do not show them",
            "未采集集合通信内部的等待，已采集各卡的起始时间也无法体现",
            "profiler_level=Level1" if run.get(family) == "npu" else "a profile of every rank over the same steps",
        )
    if not peers and _only_passed_on(run, least):
        raise NotMeasured(
            "the ranks only send and receive (see pipeline_bubble), and not all of them were captured",
            "各卡之间只有收发（见 pipeline_bubble），且未采集全部卡",
            "a profile of every rank over the same steps",
        )  # fmt: skip
    yield from (_candidate(run, late) for late in peers)


def _only_passed_on(run: Run, least: float) -> bool:
    """Whether the job has no collective, and a rank waits in sends and receives for ranks that were not captured."""
    operators = run.get(collectives)
    passed, waiting = operators.of_kinds(POINT_TO_POINT), run.get(between_stages)
    if waiting is None or waiting.longest_ns < least or not passed.all():
        return False
    return not complete(run, operators).all()


def _shown(run: Run, late: Late, least: float) -> bool:
    """Whether the capture shows a wait that is worth telling; a guess has to give something back."""
    return late.gain_ns >= least and (not late.guessed or whatif.saved_ns(run, waited_less(run, late)) >= least)


def _hint(run: Run, order: Order) -> Candidate:
    """The order of calls says who comes last; the replay cannot move what is not matched."""
    operators, wait = run.get(collectives), order.wait_ns // run.step_count
    numbers: dict[str, Value] = {
        "peer": order.rank, "witness": order.waiting, "count": order.count, "last_share": order.last / order.count,
        "wait_ns": wait, "wait_share": of_step(run, wait),
    }  # fmt: skip
    evidence = tuple(
        Evidence(order.waiting, int(operators.ts[row]), ns, int(operators.span_id[row]), str(operators.name[row]))
        for row, ns in zip(order.rows[:_MOST].tolist(), order.row_wait_ns[:_MOST].tolist(), strict=True)
    )
    return Candidate(
        "late_rank", "ordered", numbers, evidence, Change(), "low", order.late_ns, order.wait_ns, replayed=False
    )


def _candidate(run: Run, late: Late) -> Candidate:
    more = excess(run, late)
    ranks = sorted(late.waited, key=lambda rank: -late.gained[rank].total())
    wait = late.wait_ns // run.step_count
    numbers: dict[str, Value] = {
        "who": said(sorted(ranks)), "waiting": sorted(ranks), "witness": ranks[0], "wait_ns": wait,
        "wait_share": of_step(run, wait), "peer": late.rank, "member": late.local,
        "bare": bare(late, run, ", {} of it without computing"), "bare_zh": bare(late, run, "，其中 {} 没有计算"),
        "group": late.team, "uncertainty_ns": late.unsure_ns,
        "idle_ns": more.idle_ns // run.step_count if more else None,
        "busy_ns": more.busy_ns // run.step_count if more else None,
    }  # fmt: skip
    return Candidate(
        "late_rank", late.text(run, more), numbers,
        witnessed(run, late, _MOST) + (more.evidence[:_MOST] if more else ()), waited_less(run, late),
        "low" if late.guessed else "medium" if late.clocked or late.rank is None else "high", late.gain_ns,
        late.gain_ns,
    )  # fmt: skip


# Who comes last to collectives, by the order of calls alone: where nothing proves which calls are the same.
#
# The n-th call from the end of each rank is taken for the same collective. For that the ranks must have made nearly as
# many, and the kinds agree. Their ends put the ranks on one clock, as far as they do. What is smaller than the scatter
# of the ends does not count. So it is a hint, never a measurement.
#: So many calls at least have an order; a wait has to be so many times the scatter of the ends.
_ENOUGH, _CLEARLY = 8, 3


@dataclass(frozen=True)
class Order:
    """The rank that came last most often to the collectives of one group."""

    rank: int
    count: int  # collectives compared
    last: int  # to so many of them it came last
    waiting: int  # the rank that waited most for it
    wait_ns: int  # that rank's waits for it, in the whole run
    late_ns: int  # by how much it came after the last but one, together
    rows: Ints  # of `collectives(run)`: the waiting rank's, the longest wait first
    row_wait_ns: Ints


def orders(run: Run) -> tuple[Order, ...]:
    """One per group whose waits nothing else tells, the longest wait first."""
    operators, found = run.get(collectives), run.get(waits)
    bare = ~operators.of_kinds(POINT_TO_POINT) & np.isin(found.how, (UNKNOWN, GUESSED))
    every = (_order(operators, np.flatnonzero(bare & (operators.team == team)))
             for team in np.unique(operators.team[bare]).tolist())  # fmt: skip
    return tuple(sorted((one for some in every for one in some), key=lambda one: -one.wait_ns))


def _order(operators: Collectives, rows: Ints) -> Iterator[Order]:
    ranks, count = np.unique(operators.rank[rows], return_counts=True)
    if len(ranks) < 2 or count.min() < _ENOUGH or count.max() - count.min() > SHIFTS:
        return
    place = np.stack([rows[operators.rank[rows] == rank][-count.min() :] for rank in ranks])  # by rank and call
    kind = np.where(operators.of_kinds(UNNAMED), -1, operators.kind)[place]
    known = kind.max(axis=0)
    if ((kind >= 0) & (kind != known)).any():
        return
    apart = operators.end[place[0]] - operators.end[place]
    offset = np.median(apart, axis=1).astype(np.int64)[:, None]
    scatter = int(np.median(np.abs(apart - offset)))
    came = operators.ts[place] + offset
    last, second = np.sort(came, axis=0)[-1], np.sort(came, axis=0)[-2]
    late = np.where(last - second > _CLEARLY * scatter, last - second, 0)
    who = np.argmax(came, axis=0)
    total = np.bincount(who, late, len(ranks))
    worst = int(np.argmax(total))
    mine = (who == worst) & (late > 0)
    if not mine.any():
        return
    length = operators.end[place] - operators.ts[place]
    wait = np.where(mine, np.minimum(np.maximum(last - came, 0), length), 0)
    waiting = int(np.argmax(wait.sum(axis=1)))
    order = np.argsort(-wait[waiting], kind="stable")[: int(mine.sum())]
    yield Order(
        int(ranks[worst]), int(count.min()), int(mine.sum()), int(ranks[waiting]), int(wait[waiting].sum()),
        int(total[worst]), place[waiting][order], wait[waiting][order],
    )  # fmt: skip
