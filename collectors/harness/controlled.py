"""B against A beside A against itself: the control is measured in the same rounds, so it meets the same machine.

A round is a block of A, one of B and one of A again. Blocks are taken in bites of a few calls, in turns, so that what
changes within milliseconds meets all three alike. On a processor a round is measured by the wall clock and by CPU time.
The verdict is taken from the clock on which the ratios vary less, those of the control and those of B. The control
decides whether there is a verdict at all: a difference is withheld that is no wider than the control reaches.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from npulens.collectors.harness.steady import midmean
from npulens.collectors.harness.versus import Verdict, judge

#: Each second round is the one before it backwards: whoever comes first comes last as often.
_ROUNDS = ("ABC", "CBA", "BCA", "ACB", "CAB", "BAC")
#: Calls of a block are enough then.
MOST = 200
#: The sides of a round: the baseline, the variant, the baseline again.
BASE, OTHER, AGAIN = "ABC"


#: A side: a few calls on a clock, in ns.
Bite = Callable[[str], "list[int]"]


@dataclass(frozen=True)
class Block:
    """One side of one round by one clock."""

    side: str
    clock: str
    ns: tuple[int, ...]


@dataclass(frozen=True)
class Controlled:
    """The verdicts by clock, the one that counts, and why nothing is said where nothing is."""

    found: Mapping[str, Verdict]
    control: Mapping[str, Verdict]
    clock: str
    withheld: str | None  # noisy: the control is different from itself; wide: it reaches as far as the difference


def rounds(count: int) -> Iterator[str]:
    """The order of the sides in each of so many rounds."""
    return islice(cycle(_ROUNDS), count)


def blocks(sides: Mapping[str, Bite], clock: str, order: str, seconds: float) -> Iterator[Block]:
    """One round by one clock: bites in turns until time is up or there are enough calls."""
    taken: dict[str, list[int]] = {side: [] for side in order}
    until = time.monotonic() + seconds
    for turn in cycle((order, order[::-1])):
        for side in turn:
            taken[side] += sides[side](clock)
        if time.monotonic() > until or len(taken[BASE]) >= MOST:
            break
    return (Block(side, clock, tuple(ns)) for side, ns in taken.items())


def verdict(taken: Sequence[Block]) -> Controlled:
    """What the blocks of all rounds say."""
    levels: dict[tuple[str, str], list[float]] = {}
    for block in taken:
        levels.setdefault((block.clock, block.side), []).append(midmean(block.ns))
    # Some clocks tick only every few milliseconds: one that stood still for a block is none.
    clocks = [clock for clock in ("host", "cpu") if all(min(levels.get((clock, side), [0])) > 0 for side in "ABC")]
    ratios = {
        side: {clock: [y / x for x, y in zip(levels[clock, BASE], levels[clock, side])] for clock in clocks}
        for side in (OTHER, AGAIN)
    }
    return judged(ratios[OTHER], ratios[AGAIN])


def judged(other: Mapping[str, list[float]], again: Mapping[str, list[float]]) -> Controlled:
    """The verdict of ratios that were measured, by clock: of the variant, and of the baseline against itself."""
    found = {clock: judge(ratios) for clock, ratios in other.items()}
    control = {clock: judge(ratios) for clock, ratios in again.items()}
    clock = _clock(found, control)
    withheld = None
    if control[clock].said == "different":
        withheld = "noisy"
    elif found[clock].said == "different" and abs(math.log(found[clock].ratio)) <= _reach(control[clock]):
        withheld = "wide"
    return Controlled(found, control, clock, withheld)


def _clock(found: Mapping[str, Verdict], control: Mapping[str, Verdict]) -> str:
    """The steadier one. Where the two contradict each other, the wall: only it sees waiting, and threads at once."""
    if "cpu" not in found or _apart(found["host"], found["cpu"]):
        return "host"
    return min(control, key=lambda clock: max(_spread(control[clock]), _spread(found[clock])))


def _apart(one: Verdict, two: Verdict) -> bool:
    return one.low > two.high or two.low > one.high


def _spread(verdict: Verdict) -> float:
    return statistics.stdev(math.log(ratio) for ratio in verdict.ratios)


def _reach(control: Verdict) -> float:
    """How far from 1 the control's interval goes, as a logarithm."""
    return max(abs(math.log(control.low)), abs(math.log(control.high)))
