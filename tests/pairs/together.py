"""How often compare is right where one change moves several things: and what it calls them.

Each pair has one change: one of those of one thing (tests/pairs/job.py), two kernels fused, one split, all kernels
slower alike, or one rank late. Changes take 2 to 10 % of the step; half of those of one thing make it faster. 20 pairs
more are fusions and splits alone, in turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from npulens.analysis.regression.change import Contribution
from npulens.analysis.regression.compared import Compared, compared
from npulens.analysis.regression.pieces import measure
from tests.pairs.job import TOGETHER, WHAT, Planted, drawn, fill, planted, planted_together
from tests.random_runs import empty_connection

LEAST, MOST = 0.02, 0.10
#: Of all pairs, those whose verdict, first contribution and rank must be right.
RIGHT = 0.98
GROUPS = 20


@dataclass(frozen=True)
class Told:
    """One pair: what was planted, and whether what was said of it is right."""

    planted: Planted
    said: str
    verdict: bool
    first: bool
    rank: bool
    residual_ns: int
    top: str

    @property
    def right(self) -> bool:
        return self.verdict and self.first and self.rank


def pairs(count: int, seed: int, kinds: tuple[str, ...]) -> Iterator[Told]:
    """Pair after pair, the kinds in turns."""
    con = empty_connection()
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        job, what = drawn(rng), kinds[number % len(kinds)]
        share = float(np.exp(rng.uniform(np.log(LEAST), np.log(MOST))))
        plant = planted_together if what in TOGETHER else planted
        before, after, truth = plant(job, what, share, rng)
        if what in WHAT and rng.random() < 0.5:
            before, after, truth = after, before, replace(truth, delta_ns=-truth.delta_ns)
        sides = []
        for name, one in (("base", before), ("head", after)):
            fill(con, one, name, rng)
            sides.append(measure(con))
        yield told(truth, compared([sides[0]], [sides[1]]))


def told(truth: Planted, found: Compared) -> Told:
    """What was said, held against what was planted."""
    change = found.change
    top = change.contributions[0]
    assert sum(one.delta_ns for one in change.contributions) + change.residual_ns == change.delta_ns
    assert all(sum(part.delta_ns for part in one.parts) == one.delta_ns for one in change.contributions if one.parts)
    rank = change.late.rank if change.late else None
    return Told(
        truth, found.verdict.said, found.verdict.said == ("regressed" if truth.delta_ns > 0 else "improved"),
        _is(truth, top), rank == truth.late_rank, change.residual_ns, f"{top.kind} {top.state} {top.what}",
    )  # fmt: skip


def _is(truth: Planted, top: Contribution) -> bool:
    """Whether a contribution is what was planted."""
    if truth.what in ("fused", "split"):
        return top.state == truth.what and top.members is not None and (
            top.members.base == truth.names_before and top.members.head == truth.names)  # fmt: skip
    if truth.what == "late":
        return top.kind == "communication" or (top.kind == truth.kind and top.what in truth.names)
    return top.kind == truth.kind and (top.what in truth.names or top.before in truth.names)


def show(count: int, seed: int) -> int:
    """Prints the figures; 0 where all are kept."""
    found = list(pairs(count, seed, (*WHAT, *TOGETHER)))
    right = sum(one.right for one in found)
    exact = sum(one.residual_ns == 0 for one in found)
    print(f"seed {seed}: {len(found)} planted pairs, all right in {right} ({right / len(found):.1%}); verdict right in "
          f"{sum(one.verdict for one in found)}, ambiguous {sum(one.said == 'ambiguous' for one in found)}; first "
          f"contribution in {sum(one.first for one in found)}; rank in {sum(one.rank for one in found)}; residual 0 in "
          f"{exact}")  # fmt: skip
    for what in (*WHAT, *TOGETHER):
        mine = [one for one in found if one.planted.what == what]
        print(f"  {what:<10} {len(mine):4} pairs, all right in {sum(one.right for one in mine):4}")
    groups = list(pairs(GROUPS, seed + 1, ("fused", "split")))
    known = sum(one.first for one in groups)
    print(f"seed {seed + 1}: fusions and splits told as such in {known} of {len(groups)}; residual 0 in "
          f"{sum(one.residual_ns == 0 for one in groups)}")  # fmt: skip
    for one in (one for one in [*found, *groups] if not one.right):
        print(f"  not right: {one.planted}: said {one.said}, first {one.top}, rank {one.rank}")
    kept = right >= RIGHT * len(found) and exact == len(found) and known == len(groups)
    return 0 if kept and all(one.residual_ns == 0 for one in groups) else 1
