"""Two sides of a comparison: the verdict, the change and what it is made of, and which steps stand beside which.

A side is one run or several. What is repeated decides how it is judged (analysis/regression/verdict.py). Two ranks of
one run are judged by their common steps, one run a side by its steps. Several runs a side are judged as pairs, where
base and head were recorded in turns, else as sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npulens.analysis.look.compare import Side
from npulens.analysis.regression import verdict as judging
from npulens.analysis.regression.change import Change, change
from npulens.analysis.regression.matching import LEVELS
from npulens.analysis.regression.pieces import Measured
from npulens.analysis.regression.spread import Design
from npulens.analysis.regression.verdict import RULE, Rule, Verdict

#: A leading step longer than the median of the steps after it by this factor is warm-up: compiling, tuning, allocating.
WARM = 1.2
#: So many steps must be left.
_STEPS_LEFT = 3


@dataclass(frozen=True)
class StepPair:
    """A step of base beside one of head; None where a side has no more."""

    base: int | None
    head: int | None
    base_ns: int | None
    head_ns: int | None


@dataclass(frozen=True)
class Compared:
    """Everything that is said of head against base."""

    base: tuple[Measured, ...]
    head: tuple[Measured, ...]
    verdict: Verdict
    change: Change
    steps: tuple[StepPair, ...]  # of the first run of each side
    by_number: bool  # steps stand beside those of their number, else in order
    batches: bool  # several runs, and all of one side were recorded before any of the other

    @property
    def metric(self) -> str:
        """What is compared: the mean step, or whole captures where no steps were recorded."""
        return "capture_ns" if self.base[0].side.whole else "step_ns"


def compared(
    base: Sequence[Measured], head: Sequence[Measured], level: str = LEVELS[0], rule: Rule = RULE, drift: float = 0.0,
    in_turns: bool = False,
) -> Compared:  # fmt: skip
    """Head against base. ``in_turns``: the n-th runs of both sides were recorded next to each other."""
    by_number, steps = aligned(base[0].side, head[0].side)
    order = _order(base, head, in_turns)
    said = _verdict(base, head, steps, rule, drift, order)
    made_of = change(base, head, level, _design(base, head, said, order, rule))
    return Compared(tuple(base), tuple(head), said, made_of, steps, by_number, _batches(base, head))


def _order(base: Sequence[Measured], head: Sequence[Measured], in_turns: bool) -> list[tuple[int, int]]:
    """Which runs of both sides belong together, if they do."""
    if in_turns and len(base) == len(head):
        return [(place, place) for place in range(len(base))]
    return _turns(base, head)


def _design(
    base: Sequence[Measured], head: Sequence[Measured], said: Verdict, order: list[tuple[int, int]], rule: Rule
) -> Design:
    """What is repeated for a contribution: what is for the verdict."""
    if len(base) > 1 or len(head) > 1:
        return Design(False, tuple(order), rule.alpha)
    blocks = len(base[0].blocks)
    together = said.method == "ranks" and blocks == len(head[0].blocks)
    return Design(True, tuple((place, place) for place in range(blocks)) if together else (), rule.alpha)


def _verdict(
    base: Sequence[Measured], head: Sequence[Measured], steps: Sequence[StepPair], rule: Rule, drift: float,
    order: Sequence[tuple[int, int]],
) -> Verdict:  # fmt: skip
    if len(base) == len(head) == 1:
        ours, theirs = base[0].side, head[0].side
        if ours.about.run_id == theirs.about.run_id and ours.ranks != theirs.ranks and ours.steps == theirs.steps:
            both = [(pair.base_ns, pair.head_ns) for pair in steps if pair.base_ns and pair.head_ns]
            return judging.judge_steps([math.log(b / a) for a, b in both], rule)
        said = judging.judge_captures(list(series(ours).values()), list(series(theirs).values()), rule, drift)
        return replace(said, method="steps") if ours.about.run_id == theirs.about.run_id else said
    lengths = [[_mean(one.side) for one in side] for side in (base, head)]
    if order:
        return judging.judge([math.log(lengths[1][b] / lengths[0][a]) for a, b in order
                              if lengths[0][a] and lengths[1][b]], rule)  # fmt: skip
    return judging.judge_sets(lengths[0], lengths[1], rule)


def series(side: Side) -> dict[int, float]:
    """Step -> its length, the mean of its ranks, in order of time; whole captures count as step 0."""
    found: dict[int, list[int]] = {}
    for window in sorted(side.windows, key=lambda one: one.start_ns):
        found.setdefault(window.step or 0, []).append(window.dur_ns)
    return {step: float(np.mean(lengths)) for step, lengths in found.items()}


def _mean(side: Side) -> float:
    return side.dur_ns / len(side.windows) if side.windows else 0.0


def apart(base: Side, head: Side) -> tuple[int, int]:
    """By how much head begins and ends after base in the mean of their common steps, both parts of one capture."""
    ends = [_ends(side) for side in (base, head)]
    common = ends[0].keys() & ends[1].keys()
    begin, end = (
        sum(ends[1][step][at] - ends[0][step][at] for step in common) / max(1, len(common)) for at in (0, 1)
    )
    return round(begin), round(end)


def _ends(side: Side) -> dict[int | None, tuple[float, float]]:
    """Step -> when it begins and ends, in the mean of the ranks."""
    found: dict[int | None, list[tuple[int, int]]] = {}
    for window in side.windows:
        found.setdefault(window.step, []).append((window.start_ns, window.start_ns + window.dur_ns))
    return {step: (float(np.mean([begin for begin, _ in mine])), float(np.mean([end for _, end in mine])))
            for step, mine in found.items()}  # fmt: skip


def warm_up(side: Side) -> tuple[int, ...]:
    """The leading steps that are warm-up; none where that would leave fewer than three."""
    found: Mapping[int, float] = {} if side.whole else series(side)
    steps, lengths = list(found), list(found.values())
    cold = 0
    while len(lengths) - cold > _STEPS_LEFT and lengths[cold] > WARM * float(np.median(lengths[cold + 1 :])):
        cold += 1
    return tuple(steps[:cold])


def aligned(base: Side, head: Side) -> tuple[bool, tuple[StepPair, ...]]:
    """Steps side by side: by number where at least half of the fewer have the same, else in order."""
    ours, theirs = series(base), series(head)
    common = ours.keys() & theirs.keys()
    by_number = bool(common) and 2 * len(common) >= min(len(ours), len(theirs))
    if by_number:
        pairs = [(step if step in ours else None, step if step in theirs else None)
                 for step in sorted(ours.keys() | theirs.keys())]  # fmt: skip
    else:
        most = max(len(ours), len(theirs))
        left, right = ([*found, *[None] * (most - len(found))] for found in (ours, theirs))
        pairs = list(zip(left, right, strict=True))
    return by_number, tuple(
        StepPair(a, b, None if a is None else round(ours[a]), None if b is None else round(theirs[b]))
        for a, b in pairs
    )


def _turns(base: Sequence[Measured], head: Sequence[Measured]) -> list[tuple[int, int]]:
    """Runs next to each other in time, one of each side, two by two; empty where they were not recorded in turns."""
    if len(base) != len(head):
        return []
    order = _by_time(base, head)
    found = []
    for first, second in zip(order[::2], order[1::2], strict=True):
        if first[1] == second[1]:
            return []
        found.append((first[2], second[2]) if first[1] == 0 else (second[2], first[2]))
    return found


def _by_time(base: Sequence[Measured], head: Sequence[Measured]) -> list[tuple[int, int, int]]:
    """When, side and place of every run; empty where a clock is not known."""
    found = [(one.origin_ns, side, place) for side, runs in enumerate((base, head)) for place, one in enumerate(runs)]
    return sorted((when, side, place) for when, side, place in found if when is not None) if all(
        when is not None for when, _, _ in found) else []  # fmt: skip


def _batches(base: Sequence[Measured], head: Sequence[Measured]) -> bool:
    sides = [side for _, side, _ in _by_time(base, head)]
    return len(sides) > 2 and sum(a != b for a, b in zip(sides, sides[1:], strict=False)) == 1
