"""Findings that tell the same loss: which of them stays, and with how much.

A late rank and what makes it late are one finding. The cause says what to do, and carries what mending it gives. The
device of that rank may work longer than the others for another reason as well. That stays a finding with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npulens.analysis.causes import OF_EXPOSED, OF_IDLE
from npulens.analysis.finding import Evidence, Finding, Words, severity, together
from npulens.analysis.idle.blame import listed
from npulens.analysis.intervals import Intervals
from npulens.analysis.limits import Limits
from npulens.analysis.ranks.lateness import said as who_waits
from npulens.analysis.replay import whatif
from npulens.analysis.run import Run
from npulens.analysis.say import number

#: Of a finding that makes a rank late: what the lateness does to the others.
_MAKES_LATE = {"en": "Because of it others wait: {waits}.", "zh": "其他卡因此等待：{waits}。"}
#: Of a late rank: what another finding of it tells already.
_REST = {
    "en": "Another finding of this rank gives back {told} of that; the saving told here is the rest.",
    "zh": "其中 {told} 已计入该卡的另一条结论，此处的收益只是其余部分。",
}
#: What ranks do together makes none of them late.
_SHARED = frozenset({
    "late_rank", "comm_exposed", "pipeline_bubble", "slow_link", "retransmission", "small_packets", "contention",
})  # fmt: skip
#: Work that is moved to the other ranks makes those longer. To come with the second last is more than it can give back.
_MOVED = frozenset({"expert_imbalance", "stage_balance"})
#: A cause explains a late rank if it gives back at least this share of what the rank's lateness costs. Without the
#: cause no more than this share of it is left.
MOST = 0.5
#: A device that works longer does so for another reason as well where this share of its lateness is left.
REST = 0.2


def joined(run: Run, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each captured late rank told once: by its own cause where another finding is that."""
    kept = list(findings)
    for late in [one for one in findings if one.cause == "late_rank" and one.numbers.get("peer") in run.ranks]:
        if late.numbers.get("skew_ns"):
            continue  # it was late before anything was recorded, and no cause of it is here
        own = [one for one in kept if one.cause not in _SHARED and _explains(run, one, late)]
        if not own:
            continue
        cause = max(own, key=lambda one: one.saving_ns)
        others = [one for one in kept if one is not late]
        saving, place = _with_lateness(run, cause, late, others), kept.index(cause)
        if late.text == "busy" and cause.cause not in _MOVED and _is_worth_telling(late, saving - cause.saving_ns):
            kept[kept.index(late)] = _rest_of(late, saving - cause.saving_ns)
            continue
        if cause.saving_ns < saving and cause.cause not in _MOVED:
            share = cause.saving_share * saving / cause.saving_ns  # of the same whole as before
            cause = replace(
                cause, saving_ns=saving, saving_most_ns=max(saving, cause.saving_most_ns), saving_share=share,
                severity=severity(share),
                numbers={**cause.numbers, "saving_ns": saving, "saving_share": share},
                change=cause.change | late.change,
            )  # fmt: skip
        kept[place] = replace(cause, words=_making_late(cause, late))
        kept.remove(late)
    return sorted(kept, key=lambda finding: (-finding.saving_ns, finding.detector))


def _is_worth_telling(late: Finding, rest_ns: int) -> bool:
    """Whether so much of a rank's lateness is a finding beside its cause."""
    return rest_ns >= REST * late.saving_ns and late.saving_share * rest_ns >= Limits.min_share * late.saving_ns


def _rest_of(late: Finding, rest_ns: int) -> Finding:
    """A late rank without what another finding of it gives back."""
    told = late.saving_ns - rest_ns
    return replace(late.with_saving(rest_ns), saving_most_ns=rest_ns, words={
        lang: said.advising(lang, _REST[lang].format(told=number("_ns", told)))
        for lang, said in late.words.items()
    })  # fmt: skip


def _making_late(cause: Finding, late: Finding) -> dict[str, Words]:
    """The cause's words with who waits because of it, and how long."""
    return {
        lang: said.advising(lang, _MAKES_LATE[lang].format(waits=who))
        for (lang, said), who in zip(cause.words.items(), _waiting(cause, late), strict=True)
    }


def _waiting(cause: Finding, late: Finding) -> tuple[str, ...]:
    """Who waits, in the languages of the cause; without ranks that the cause is about as well.

    Where one of those waits longest, nobody is left out, as the time that is told is of that rank.
    """
    titles = {lang: late.words[lang].title for lang in cause.words}
    waiting, ranks, who = late.numbers.get("waiting"), cause.numbers.get("ranks"), late.numbers.get("who")
    if isinstance(waiting, list) and isinstance(ranks, str) and isinstance(who, str):
        own = listed(ranks)
        left = [rank for rank in waiting if isinstance(rank, int) and not any(rank in some for some in own)]
        if late.numbers.get("longest") in left:
            for lang, (old, new) in {
                "en": (who, who_waits(left)), "zh": (number("waiting", waiting), number("waiting", left)),
            }.items():  # fmt: skip
                titles[lang] = titles[lang].replace(old, new, 1)
    return tuple(titles.values())


def _with_lateness(run: Run, cause: Finding, late: Finding, findings: Sequence[Finding]) -> int:
    """What a cause gives back with what is left of the lateness once it and other findings of that rank are mended."""
    others = [
        one.change for one in findings
        if one is not cause and one.cause not in _SHARED and {e.rank for e in one.evidence} == {late.numbers["peer"]}
    ]  # fmt: skip
    if not others:
        return late.saving_ns
    mended = together((cause.change, *others))
    left = whatif.saved_ns(run, mended | late.change) - whatif.saved_ns(run, mended)
    return min(late.saving_ns, cause.saving_ns + max(0, left) // run.step_count)


def without_implied(run: Run, findings: Sequence[Finding]) -> list[Finding]:
    """Without what belongs to another finding: once that is mended on its ranks, it gives back nothing more.

    Such are synchronising calls of an allocation or a compilation, after which the device hardly waits. Such are the
    allocations and frees of a memory that lies in pieces.
    """
    kept = list(findings)
    for one in findings:
        ranks = {each.rank for each in one.evidence}
        above = [
            other.change for other in kept
            if other is not one and _may_imply(other, one) and ranks <= {each.rank for each in other.evidence}
        ]  # fmt: skip
        if not above:
            continue
        mended = together(above)
        more = whatif.saved_ns(run, mended | one.change) - whatif.saved_ns(run, mended)
        if more // run.step_count * one.saving_share < Limits.min_share * one.saving_ns:
            kept.remove(one)
    return kept


def _may_imply(other: Finding, one: Finding) -> bool:
    if one.cause == "memory_alloc":
        return other.cause == "memory_pressure"
    share = one.numbers.get("idle_share")
    waits = one.cause == "sync_stall" and isinstance(share, float) and share < Limits.min_share
    return waits and other.cause in (*OF_IDLE, "memory_pressure") and other.saving_ns > one.saving_ns


def said_once(findings: Sequence[Finding]) -> list[Finding]:
    """Without idle time that nothing explains where a slow step's finding says that of the same moments."""
    told = [e for one in findings if one.cause == "step_jitter" for e in one.evidence]
    return [one for one in findings if one.cause != "idle_unexplained" or _apart(one.evidence, told) > 1 - MOST]


def umbrella(findings: Sequence[Finding], whole_ns: int) -> list[Finding]:
    """Exposed communication without what its own causes give back, as far as all together were more than the whole.

    The same time is not saved twice, and no cause is lost for it.
    """
    kept = list(findings)
    nested = sum(one.saving_ns for one in findings if one.cause in OF_EXPOSED)
    for over in [one for one in findings if one.cause == "comm_exposed"]:
        twice = min(nested, over.saving_ns - 1, sum(one.saving_ns for one in kept) - whole_ns)
        if twice > 0:
            nested -= twice
            kept[kept.index(over)] = over.with_saving(over.saving_ns - twice)
    return sorted(kept, key=lambda finding: (-finding.saving_ns, finding.detector))


def _apart(mine: Sequence[Evidence], others: Sequence[Evidence]) -> float:
    """The share of some windows that others do not cover."""
    whole, left = 0, 0
    for rank in {one.rank for one in mine}:
        own, theirs = (
            Intervals.union_of(
                np.array([e.ts_ns for e in some if e.rank == rank], np.int64),
                np.array([e.ts_ns + e.dur_ns for e in some if e.rank == rank], np.int64),
            )
            for some in (mine, others)
        )
        whole, left = whole + own.total(), left + (own - theirs).total()
    return left / whole if whole else 1.0


def _explains(run: Run, cause: Finding, late: Finding) -> bool:
    """Whether the rank is late because of it."""
    if cause.saving_ns < MOST * late.saving_ns or all(e.rank != late.numbers["peer"] for e in cause.evidence):
        return False
    left = whatif.saved_ns(run, cause.change | late.change) // run.step_count - cause.saving_ns
    return left <= MOST * late.saving_ns
