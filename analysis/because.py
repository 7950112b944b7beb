"""A late rank and what makes it late are one finding: the cause says what to do, and carries what mending it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npulens.analysis.finding import Evidence, Finding
from npulens.analysis.intervals import Intervals
from npulens.analysis.replay import whatif
from npulens.analysis.run import Run

#: What ranks do together makes none of them late.
_SHARED = frozenset({
    "late_rank", "comm_exposed", "pipeline_bubble", "slow_link", "retransmission", "small_packets", "contention",
})  # fmt: skip
#: Why transfers that are exposed take as long as they do.
_OF_EXPOSED = frozenset({"slow_link", "retransmission", "small_packets", "contention"})
#: Work that is moved to the other ranks makes those longer: to come with the second last is more than it can give back.
_MOVED = frozenset({"expert_imbalance", "stage_balance"})
#: A cause explains a late rank if it gives back at least this share of what the rank's lateness costs, and without the
#: cause no more than this share of it is left.
MOST = 0.5


def joined(run: Run, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each captured late rank told once: by its own cause where another finding is that."""
    kept = list(findings)
    for late in [one for one in findings if one.cause == "late_rank" and one.numbers.get("peer") in run.ranks]:
        own = [one for one in kept if one.cause not in _SHARED and _explains(run, one, late)]
        if not own:
            continue
        cause = max(own, key=lambda one: one.saving_ns)
        kept.remove(late)
        if cause.saving_ns < late.saving_ns and cause.cause not in _MOVED:
            share = cause.saving_share * late.saving_ns / cause.saving_ns  # of the same whole as before
            kept[kept.index(cause)] = replace(
                cause, saving_ns=late.saving_ns, saving_share=share, severity=late.severity,
                numbers={**cause.numbers, "saving_ns": late.saving_ns, "saving_share": share},
                change=cause.change | late.change,
            )  # fmt: skip
    return sorted(kept, key=lambda finding: (-finding.saving_ns, finding.detector))


def said_once(findings: Sequence[Finding]) -> list[Finding]:
    """Without idle time that nothing explains where a slow step's finding says that of the same moments."""
    told = [e for one in findings if one.cause == "step_jitter" for e in one.evidence]
    return [one for one in findings if one.cause != "idle_unexplained" or _apart(one.evidence, told) > 1 - MOST]


def umbrella(findings: Sequence[Finding], whole_ns: int) -> list[Finding]:
    """Exposed communication without what its own causes give back, as far as all together were more than the whole:
    the same time is not saved twice, and no cause is lost for it."""
    kept = list(findings)
    nested = sum(one.saving_ns for one in findings if one.cause in _OF_EXPOSED)
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
