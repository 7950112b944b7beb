"""The device idles, and nothing that was recorded says why.

## What it measures
Every gap of the device is cut into pieces, each with a cause (host, launch, synchronising call, allocation, and so on).
What is left over has no cause. The task that ends the gap has no known launch, or its launch was there in time and no
wait was recorded. This adds up what is left over, rank by rank. It also says what the host was in
during that time. And it says for how much of it the next task had already been launched. Where most of that is gaps of
one length, before kernels of several names, it tells their number and length.

## Why it costs
An idle device computes nothing. The time is as lost as time with a known reason; only its remedy is not known yet.

## What to do
Record what is missing: the finding names the settings that this capture lacks. Where the next task had been launched
already, the host was not late. Then look at waits between streams, at copies, and at other processes on the
device. A device that processes share gives each a turn of about one length, whatever runs next. Where everything was
recorded, look outside the process: a sleep, a lock, input or output.

## Limits of the method
No replay can tell what would be gained, because nothing says what the device waited for. The saving is therefore the
idle time itself: a ceiling, with low confidence. Where copies or collectives were not recorded, a gap may be one of
them; then nothing is said.

## References
The pieces are those of the idle time by cause; they tile the gaps to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.capability import explains, held, idle_untold, setting
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.ahead import launch_ends
from npulens.analysis.idle.blame import GAPS, Blame, blames, evidence
from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.inside import TELLS
from npulens.analysis.idle.pieces import idle
from npulens.analysis.limits import COVERED, limit
from npulens.analysis.run import Run

NEEDS = ("kernels",)

_TITLE = (
    "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) and nothing recorded says why"
    "[[, {code_share} of that while the host is in {code}]]"
)
_TITLE_ZH = (
    "rank {ranks}：设备每步空闲 {idle_ns}（{idle_share}），已采集的数据说明不了原因"
    "[[，其中 {code_share} 的时间主机在 {code}]]"
)
#: What is known of the time all the same.
_KNOWN = (
    "[[For {early_share} of it the next task had already been launched: the host was not late there. The "
    "device may have waited for another stream, an event or a copy. Another process may have used it, or the profiler "
    "lost work. ]][[{turns} of these gaps last about {turn_ns} each, and different kernels end them. It looks as if "
    "another process on the device takes turns with this one. See what else runs there. ]]"
    "[[For {untold_share} of it the launch of the next task was not recorded. ]]"
    "[[For {annotation_share} of it the host was in {annotation}. ]]"
    "[[Of the time in {code}, {call_share} is in {call}. ]]"
)
_KNOWN_ZH = (
    "[[其中 {early_share} 的时间，下一个任务早已下发，主机并不晚：设备可能在等另一条流、事件或拷贝，"
    "可能被其他进程占用，也可能是采集器丢失了任务。]][[其中 {turns} 段空闲都在 {turn_ns} 左右，且结束于不同的算子："
    "像是另一个进程与本作业轮流占用设备，请查看设备上还有哪些进程。]]"
    "[[其中 {untold_share} 的时间，没有采集到下一个任务的下发。]]"
    "[[其中 {annotation_share} 的时间主机在 {annotation}。]][[在 {code} 的时间里，{call_share} 在 {call}。]]"
)

TEXT = {
    "en": {
        "lacking": Words(
            _TITLE,
            _KNOWN + "Record the reason first: {setting}. The longest such gap lasts {longest_ns}; "
            "look there for what the host did.",
        ),
        "silent": Words(
            _TITLE,
            _KNOWN + "Host, launches and call stacks were recorded, and they show nothing there. The longest such gap "
            "lasts {longest_ns}: look outside the process, at sleeps, locks, input and output, and other processes.",
        ),
        "known": Words(_TITLE, _KNOWN + "The longest such gap lasts {longest_ns}."),
    },
    "zh": {
        "lacking": Words(
            _TITLE_ZH,
            _KNOWN_ZH + "请先采集原因：{setting}。其中最长的一段空闲为 {longest_ns}，请看主机当时在做什么。",
        ),
        "silent": Words(
            _TITLE_ZH,
            _KNOWN_ZH + "主机、下发和调用栈均已采集，但这些时段没有任何记录。最长的一段为 {longest_ns}："
            "请检查进程之外的因素，如休眠、锁、读写和其他进程。",
        ),
        "known": Words(_TITLE_ZH, _KNOWN_ZH + "其中最长的一段空闲为 {longest_ns}。"),
    },
}

#: Less of the time is not worth a sentence.
_WORTH = 0.05
#: Code that is no code: the host was between two calls.
_BETWEEN = " -> "
#: Turns of a device that is shared: they last a millisecond and more, and are alike to 5 %. Fewer may be chance.
_TURN_NS, _ALIKE, _TURNS, _MOSTLY = 500_000, 0.1, 5, 0.8
#: A wait that the job itself repeats ends before the same kernels.
_NAMES = 3
#: Of so much of it stacks would tell nothing more: the host was not late, or in one operator.
MOST = 0.5


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """From when on idle time without a reason is worth a sentence."""

    min_share: float = limit(0.05, "share of the step", "below 5 % the gaps between launches of any job are as long")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks that idle alike without a reason."""
    if (untold := idle_untold(run)) is not None:
        raise NotMeasured(*untold)
    for found in blames(run, "unknown"):
        most = max(found.host[rank].total() for rank in found.ranks)
        longest = max(int((found.host[rank].ends - found.host[rank].starts).max(initial=0)) for rank in found.ranks)
        known = _known(run, found)
        wanted = _setting(run, found, known)
        at = found.numbers if _BETWEEN not in str(found.numbers["code"]) else {"code": None, "code_share": None}
        numbers: dict[str, Value] = {
            **found.numbers, **at, **known, **_turns(run, found), "longest_ns": longest, "setting": wanted,
        }  # fmt: skip
        told = "known" if known["early_share"] or known["untold_share"] or numbers["code"] else "silent"
        shown = evidence(run, run.get(idle), found.pieces[:GAPS])
        yield Candidate(
            "idle_unexplained", "lacking" if wanted else told, numbers, shown, Change(), "low",
            ceiling_ns=most, measured_ns=most, replayed=False,
        )  # fmt: skip


def _known(run: Run, found: Blame) -> dict[str, Value]:
    """How much of the time was launched before its gap or has no known launch, and what the host was in."""
    pieces = run.get(idle)
    start, end = pieces.start[found.pieces], pieces.end[found.pieces]
    length, launched = end - start, launch_ends(run, pieces)[found.pieces]
    whole = max(1, int(length.sum()))
    early = int(np.maximum(0, end - np.maximum(start, launched))[launched != NONE].sum()) / whole
    untold = int(length[launched == NONE].sum()) / whole
    numbers: dict[str, Value] = {
        "early_share": early if early >= _WORTH else None, "untold_share": untold if untold >= _WORTH else None,
    }  # fmt: skip
    inside = found.inside
    if inside is None:
        return numbers
    (annotation, in_it), (call, in_call) = inside.annotation, inside.runtime
    if in_it >= TELLS * whole and annotation != inside.code:
        numbers |= {"annotation": annotation, "annotation_share": in_it / whole}
    if inside.code and call != inside.code and 2 * in_call >= inside.ns:
        numbers |= {"call": call, "call_share": in_call / inside.ns}
    return numbers


def _turns(run: Run, found: Blame) -> dict[str, Value]:
    """Gaps behind a launch that share one length and end with kernels of several names; {}: there is no such length."""
    pieces = run.get(idle)
    launched, end = launch_ends(run, pieces)[found.pieces], pieces.end[found.pieces]
    early = np.flatnonzero(launched != NONE)
    length = np.maximum(0, end - np.maximum(pieces.start[found.pieces], launched))[early]
    order = np.argsort(length, kind="stable")
    whole = int(length.sum())
    if not whole:
        return {}
    half = np.searchsorted(np.cumsum(length[order]), whole / 2)
    middle = int(length[order][half])  # half of the time is in shorter ones
    alike = np.abs(length - middle) <= _ALIKE * middle
    if middle < _TURN_NS or alike.sum() < _TURNS or length[alike].sum() < _MOSTLY * whole:
        return {}
    if len(set(names(run, pieces.task[found.pieces][early][alike]).values())) < _NAMES:
        return {}
    return {"turns": int(alike.sum()), "turn_ns": middle}


def _setting(run: Run, found: Blame, known: dict[str, Value]) -> str | None:
    """What to record: call stacks only where they can tell more, launches and the host's calls where they lack."""
    inside = found.inside
    in_code = inside.ns / max(1, inside.whole_ns) if inside is not None and _BETWEEN not in inside.code else 0.0
    early = known["early_share"]
    if (isinstance(early, float) and early >= MOST) or in_code >= MOST:
        lacking = [name for name in ("launches", "host_ops", "runtime_calls") if held(run, name) < COVERED]
        return ", ".join(dict.fromkeys(one for name in lacking if (one := setting(run, name)))) or None
    return explains(run)
