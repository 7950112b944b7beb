"""The device idles, and nothing that was recorded says why.

## What it measures
Every gap of the device is cut into pieces, each with a cause (host, launch, synchronising call, allocation, and so on).
What is left over has no cause. The task that ends the gap has no known launch, or its launch was there in time and no
wait was recorded. This adds up what is left over, rank by rank.

## Why it costs
An idle device computes nothing. The time is as lost as time with a known reason; only its remedy is not known yet.

## What to do
Record what is missing: the finding names the settings that this capture lacks. Where everything was recorded, look
outside the process: a sleep, a lock, input or output. Another process may use the same cores or the same device.

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

from npulens.analysis import limits as limits_
from npulens.analysis.capability import explains, idle_untold
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.idle.blame import GAPS, blames, evidence
from npulens.analysis.idle.pieces import idle
from npulens.analysis.limits import limit
from npulens.analysis.run import Run

NEEDS = ("kernels",)

TEXT = {
    "en": {
        "lacking": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) and nothing recorded says why",
            "Record the reason first: {setting}. The longest such gap lasts {longest_ns}; "
            "look there for what the host did.",
        ),
        "silent": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) and nothing recorded says why",
            "Host, launches and call stacks were recorded, and they show nothing there. The longest such gap lasts "
            "{longest_ns}: look outside the process, at sleeps, locks, input and output, and other processes.",
        ),
    },
    "zh": {
        "lacking": Words(
            "rank {ranks}：设备每步空闲 {idle_ns}（{idle_share}），已采集的数据说明不了原因",
            "请先采集原因：{setting}。其中最长的一段空闲为 {longest_ns}，请看主机当时在做什么。",
        ),
        "silent": Words(
            "rank {ranks}：设备每步空闲 {idle_ns}（{idle_share}），已采集的数据说明不了原因",
            "主机、下发和调用栈均已采集，但这些时段没有任何记录。最长的一段为 {longest_ns}："
            "请检查进程之外的因素，如休眠、锁、读写和其他进程。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """From when on idle time without a reason is worth a sentence."""

    min_share: float = limit(0.05, "share of the step", "below 5 % the gaps between launches of any job are as long")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks that idle alike without a reason."""
    setting = explains(run)
    if (untold := idle_untold(run)) is not None:
        raise NotMeasured(*untold)
    for found in blames(run, "unknown"):
        most = max(found.host[rank].total() for rank in found.ranks)
        longest = max(int((found.host[rank].ends - found.host[rank].starts).max(initial=0)) for rank in found.ranks)
        told = {name: value for name, value in found.numbers.items() if name not in ("code", "code_share")}
        numbers: dict[str, Value] = {**told, "longest_ns": longest, "setting": setting}
        shown = evidence(run, run.get(idle), found.pieces[:GAPS])
        yield Candidate(
            "idle_unexplained", "lacking" if setting else "silent", numbers, shown, Change(), "low",
            ceiling_ns=most, measured_ns=most, replayed=False,
        )  # fmt: skip

