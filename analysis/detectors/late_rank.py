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
shows when the first is mended. A captured late rank whose own cause is found is told by that. Where its device works
longer for another reason as well, it stays a finding with the rest. A slow link before the first meeting looks like a
late peer. Sends and receives are not counted (see pipeline_bubble).
Where a member is missing and no task shows the wait, all of an operator may have been waiting. The saving then has an
upper end.

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
from npulens.analysis.idle.blame import ONCE_SHARE
from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.collectives import POINT_TO_POINT, SHIFTS, UNNAMED, Collectives, collectives
from npulens.analysis.ranks.exposure import between_stages, waiting_at_most
from npulens.analysis.ranks.lateness import (  # fmt: skip
    Late,
    bare,
    excess,
    late_peers,
    most_ns,
    said,
    told_share,
    waited_less,
    witnessed,
)
from npulens.analysis.ranks.waits import GUESSED, UNKNOWN, complete, waits
from npulens.analysis.replay import whatif
from npulens.analysis.run import Run
from npulens.analysis.say import ONCE
from npulens.analysis.steady import of_step, steady_ns

NEEDS = ("collectives",)
_MOST, _PEERS = 10, 16  # windows of each side; peers looked at, the latest first
#: Of this share of the collectives' time waits have to be known before nobody is called late.
_TOLD = 0.8
#: A rank was late before the recording where its first step begins so much later, as a share of what is waited for it.
_SKEW = 0.5
#: Ranks take turns where the late one waits at least this share of what the others wait for it.
_TURN = 0.4

_HEAD = "{who} {wait_ns} of each step ({wait_share}{bare})"
_HEAD_ZH = "rank {waiting} 每步{up_zh}有 {wait_ns}（{wait_share}{bare_zh}）"
_SAVES = "If the last rank arrived when the second-slowest does, each step would be {saving_ns} shorter."
_SAVES_ZH = "若最后一张卡与倒数第二张卡同时到达，每步可缩短 {saving_ns}。"
_TURNS = (
    "[[They take turns: rank {peer} waits {back_ns} of each step for these ranks too. Look for what varies from step "
    "to step on every one of them: input, sizes, collections of garbage, other processes. ]]"
)
_TURNS_ZH = (
    "[[它们互相等待：rank {peer} 每步也有 {back_ns} 在等这些卡。请在每张卡上查看逐步变化的因素：数据输入、"
    "数据大小、垃圾回收、其他进程。]]"
)
_SKEWED = (
    "[[Rank {peer} began its first step {skew_ns} after rank {longest}: so much of it was so before the recording. "
    "Record later steps before anything is changed. ]]"
)
_SKEWED_ZH = (
    "[[rank {peer} 的第一步比 rank {longest} 晚开始 {skew_ns}：这部分在采集之前就已存在。修改之前请采集之后的步。]]"
)
_SEE = _TURNS + _SKEWED + "The other findings of rank {peer} say more. " + _SAVES
_SEE_ZH = _TURNS_ZH + _SKEWED_ZH + "rank {peer} 的其他结论有更多说明。" + _SAVES_ZH
_AT_ONCE = (
    "It happened once: look at that moment for a warm-up, garbage collection or another process on the host. Record "
    "more steps before anything is changed. "
)
_AT_ONCE_ZH = "它只发生了一次：请查看当时是否在预热、垃圾回收，或主机上有其他进程。修改之前请先采集更多的步。"
_LOST = "At most {gain_ns} of the recorded time is lost to it."
_LOST_ZH = "因此损失至多 {gain_ns} 的采集时长。"
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
            _HEAD + " for rank {peer}: its device idles {idle_ns} longer than {theirs}",
            "The host of rank {peer} issues work too late; see what it does in its gaps. " + _SEE,
        ),
        "busy": Words(
            _HEAD + " for rank {peer}: its device works {busy_ns} longer than {theirs}",
            "Compare its kernels with theirs: more tokens, other shapes, a lower clock. " + _SEE,
        ),
        "captured": Words(_HEAD + " for rank {peer}", _SEE),
        "dark": Words(
            _HEAD + " for rank {peer}",
            _TURNS + _SKEWED + "Whether rank {peer} computed longer or its host was late is not known: only "
            "communication was recorded. Record kernels and the host of every rank over the same steps. " + _SAVES,
        ),
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
        "once": Words(
            "{who} {once_ns} in step {once_step}, and hardly in another ({once_share} of the recorded time), "
            "for {whom}",
            _AT_ONCE + _LOST,
        ),
        "ordered_once": Words(
            "Rank {peer} comes last to {last_share} of {count} collectives, by the order of calls. Rank {witness} "
            "waits {once_ns} for it in step {once_step}, and hardly in another",
            "Nothing proves which calls of the ranks are the same collective, so this is a hint. Record every rank "
            "over the same steps, with names of groups and members (torch.distributed initialised before profiling). "
            + _AT_ONCE
            + _LOST,
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
            _HEAD_ZH + "在等 rank {peer}：它的设备比{theirs_zh}多空闲 {idle_ns}",
            "rank {peer} 的主机下发过晚，请看它在空闲时做了什么。" + _SEE_ZH,
        ),
        "busy": Words(
            _HEAD_ZH + "在等 rank {peer}：它的设备比{theirs_zh}多工作 {busy_ns}",
            "请对比它与其他卡的算子：token 更多、形状不同或频率更低。" + _SEE_ZH,
        ),
        "captured": Words(_HEAD_ZH + "在等 rank {peer}", _SEE_ZH),
        "dark": Words(
            _HEAD_ZH + "在等 rank {peer}",
            _TURNS_ZH + _SKEWED_ZH + "rank {peer} 是计算更久还是主机下发过晚无法判断：只采集到通信。"
            "请在相同的步上采集各卡的算子和主机调用。" + _SAVES_ZH,
        ),
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
        "once": Words(
            "{who_zh} 在第 {once_step} 步等待 {once_ns}（占采集时长 {once_share}），其他步几乎没有：在等{whom_zh}",
            _AT_ONCE_ZH + _LOST_ZH,
        ),
        "ordered_once": Words(
            "按调用顺序，{count} 次集合通信中有 {last_share} 由 rank {peer} 最后到达；"
            "rank {witness} 在第 {once_step} 步为此等待 {once_ns}，其他步几乎没有",
            "没有数据能证明各卡的哪些调用是同一次集合通信，因此仅供参考。请在相同的步上采集所有卡，"
            "并带上通信域名称与成员（先初始化 torch.distributed 再采集）。" + _AT_ONCE_ZH + _LOST_ZH,
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
        missing = ("not all of them were captured", "且未采集全部卡")
        if run.missing_ranks is None:
            missing = ("nothing says whether all of them were captured", "且无法判断是否已采集全部卡")
        raise NotMeasured(
            f"the ranks only send and receive (see pipeline_bubble), and {missing[0]}",
            f"各卡之间只有收发（见 pipeline_bubble），{missing[1]}",
            "a profile of every rank over the same steps",
        )  # fmt: skip
    yield from (_candidate(run, late) for late in peers)


def _only_passed_on(run: Run, least: float) -> bool:
    """Whether the job has no collective, and a rank waits in sends and receives for ranks that were not captured.

    Where nothing says what is computed beside them, any of them may be such a wait.
    """
    operators, waiting = run.get(collectives), run.get(between_stages)
    passed = operators.of_kinds(POINT_TO_POINT)
    if not len(operators) or not passed.all() or complete(run, operators).all():
        return False
    if waiting is not None:
        return waiting.longest_ns >= least
    bare = [rank for rank in run.ranks if run.activity(rank).computing is None]
    return bool(np.isin(operators.rank, bare).any())


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
    step = _only_step(run, operators.step[order.rows], order.row_wait_ns)
    if step is not None:
        numbers |= _once(run, step, order.wait_ns, order.late_ns)
    evidence = tuple(
        Evidence(order.waiting, int(operators.ts[row]), ns, int(operators.span_id[row]), str(operators.name[row]))
        for row, ns in zip(order.rows[:_MOST].tolist(), order.row_wait_ns[:_MOST].tolist(), strict=True)
    )
    return Candidate(
        "late_rank", "ordered" if step is None else "ordered_once", numbers, evidence, Change(), "low", order.late_ns,
        order.wait_ns, replayed=False,
    )  # fmt: skip


def _only_step(run: Run, steps: Ints, waited_ns: Ints) -> int | None:
    """The step that has nearly all of these waits; None: others have their part, or there is no other."""
    known, which = np.unique(steps, return_inverse=True)
    if run.step_count < 2 or not len(known) or known[0] < 0:
        return None
    total = np.bincount(which.ravel(), waited_ns)
    return int(known[np.argmax(total)]) if total.max() >= ONCE_SHARE * total.sum() else None


def _once(run: Run, step: int, wait_ns: int, gain_ns: int) -> dict[str, Value]:
    """What is said of waits in one step alone: a mean of all steps would show in none of them."""
    share = wait_ns / run.wall_ns if run.wall_ns else 0.0
    return {"per": ONCE, "once_step": str(step), "once_ns": wait_ns, "once_share": share, "gain_ns": gain_ns}


def _whom(run: Run, late: Late) -> tuple[str, str]:
    """For whom is waited, in English and Chinese."""
    if late.rank is not None:
        away = late.rank not in run.ranks
        return f"rank {late.rank}" + (", not captured" if away else ""), f" rank {late.rank}" + ("（未采集）" * away)
    if late.local is not None:
        return f"member {late.local} of group {late.team}", f"通信域 {late.team} 的成员 {late.local}"
    if late.guessed:
        return "another rank, or for a slow link", "其他卡，或链路偏慢"
    return "another rank; this capture does not say which", "其他卡，数据未说明是哪张"


def _back_ns(run: Run, late: Late) -> int | None:
    """What the late rank waits, a step, for those that wait for it; None where that is much less."""
    back = [one.waited[late.rank].total() for one in run.get(late_peers)
            if late.rank is not None and late.rank in one.waited and one.rank in late.waited]  # fmt: skip
    return sum(back) // run.step_count if sum(back) >= _TURN * late.wait_ns else None


def _skew_ns(run: Run, late: Late, witness: int) -> int | None:
    """By how much the late rank's first step begins after that of the rank that waits most; None: by little."""
    first, theirs = run.steps.get(late.rank, ()) if late.rank is not None else (), run.steps[witness]
    if not first or not theirs or late.rank is None:
        return None
    times = run.get(clock)
    unsure, wait = times.between_ns(late.rank, witness), late.waited[witness].total()
    later = first[0].ts_ns + times.offset_ns(late.rank) - theirs[0].ts_ns - times.offset_ns(witness)
    return later if unsure is not None and later - unsure >= _SKEW * wait else None


def _candidate(run: Run, late: Late) -> Candidate:
    more, most = excess(run, late), most_ns(run, late)
    ranks = sorted(late.waited, key=lambda rank: -late.gained[rank].total())
    wait, longest = late.wait_ns // run.step_count, max(late.waited, key=lambda rank: late.waited[rank].total())
    numbers: dict[str, Value] = {
        "who": said(sorted(ranks)), "waiting": sorted(ranks), "witness": ranks[0], "wait_ns": wait,
        "wait_share": of_step(run, wait), "peer": late.rank, "member": late.local,
        "bare": bare(late, run, ", {} of it without computing"), "bare_zh": bare(late, run, "，其中 {} 没有计算"),
        "up_zh": "最多" if len(ranks) > 1 else "", "longest": longest, "skew_ns": _skew_ns(run, late, longest),
        "group": late.team, "back_ns": _back_ns(run, late), "uncertainty_ns": late.unsure_ns,
        "idle_ns": more.idle_ns // run.step_count if more else None,
        "busy_ns": more.busy_ns // run.step_count if more else None,
        "theirs": "theirs" if len(ranks) == 1 else "the median of theirs",
        "theirs_zh": "其他卡" if len(ranks) == 1 else "其他卡的中位数",
    }  # fmt: skip
    operators, found = run.get(collectives), run.get(waits)
    mine = late.rows[operators.rank[late.rows] == longest]
    step = _only_step(run, operators.step[mine], found.wait_ns[mine])
    if step is not None:
        whom, whom_zh = _whom(run, late)
        numbers |= {**_once(run, step, late.wait_ns, most), "whom": whom, "whom_zh": whom_zh}
        numbers["who_zh"] = f"rank {', '.join(map(str, sorted(ranks)))}"
    return Candidate(
        "late_rank", late.text(run, more) if step is None else "once", numbers,
        witnessed(run, late, _MOST) + (more.evidence[:_MOST] if more else ()), waited_less(run, late),
        "low" if late.guessed else "medium" if late.clocked or late.rank is None else "high",
        most, late.gain_ns, most_ns=run.get(waiting_at_most) if late.guessed else None,
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
    # What no rank names may be a receive, and those of two ranks have nothing to do with each other.
    place = place[:, ~operators.of_kinds(frozenset({""}))[place].all(axis=0)]
    if place.shape[1] < _ENOUGH:
        return
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
        int(ranks[worst]), place.shape[1], int(mine.sum()), int(ranks[waiting]), int(wait[waiting].sum()),
        int(total[worst]), place[waiting][order], wait[waiting][order],
    )  # fmt: skip
