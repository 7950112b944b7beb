"""Whether B is slower than A: interleaved blocks, the ratio of each pair, and what the pairs say together.

A machine drifts: its clock, its neighbours, its temperature. Blocks of A and B taken in turns (A B B A ...) meet the
same drift, and only the ratio within a pair counts. The unit of replication is the pair, never the single call. Calls
of one block share everything that may go wrong with it.

The verdict comes from the ratios alone: a Student interval of the mean log-ratio, and Wilcoxon's signed-rank test. The
test is exact, because ratios have tails. "different" needs both. "same" needs an interval within the margin. Everything
else is "cannot tell", with the number of pairs that would decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npulens.collectors.harness.steady import midmean

PAIRS = 10
#: Nobody takes more pairs than this to tell two things apart.
MOST_PAIRS = 1000
#: How often "different" may be said of the same thing.
ALPHA = 0.01
#: Two things within this share of each other are the same for anybody who asks.
MARGIN = 0.01


@dataclass(frozen=True)
class Verdict:
    """What the pairs say of B against A; ``ratio`` above 1 means that B takes longer."""

    said: str  # different, same, cannot_tell
    ratio: float
    low: float
    high: float
    p: float
    pairs: int
    pairs_needed: int | None  # where it cannot tell: for an interval within the margin, or for the test to speak
    ratios: tuple[float, ...]


def order(pairs: int) -> str:
    """The blocks in turns: ABBAABBA..., so that whoever comes first comes first as often as second."""
    return "".join("AB" if i % 2 == 0 else "BA" for i in range(pairs))


def versus(a: Callable[[], Sequence[int]], b: Callable[[], Sequence[int]], pairs: int = PAIRS) -> Verdict:
    """Measures both in turns; each call is one block of samples in ns."""
    blocks: dict[str, list[float]] = {"A": [], "B": []}
    for which in order(pairs):
        blocks[which].append(midmean((a if which == "A" else b)()))
    return judge([y / x for x, y in zip(blocks["A"], blocks["B"])])


def judge(ratios: Sequence[float], margin: float = MARGIN, alpha: float = ALPHA) -> Verdict:
    """The verdict of pairs that were measured, B over A each."""
    n = len(ratios)
    if n < 2 or any(not ratio > 0 for ratio in ratios):
        raise ValueError("a verdict needs two pairs of positive times")
    logs = [math.log(ratio) for ratio in ratios]
    mean = sum(logs) / n
    spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1))
    reach = student(n - 1, alpha) * spread / math.sqrt(n)
    low, high, p = math.exp(mean - reach), math.exp(mean + reach), signed_rank(logs)
    if p <= alpha and not low <= 1.0 <= high:
        said = "different"
    elif low >= 1 / (1 + margin) and high <= 1 + margin:
        said = "same"
    else:
        said = "cannot_tell"
    # Fewer pairs than this cannot reach alpha however they come out: all ratios on one side have p = 2 / 2^n.
    apart = not low <= 1.0 <= high
    enough = math.log2(2 / alpha) if apart else (student(n - 1, alpha) * spread / margin) ** 2
    wanted = None if said != "cannot_tell" else max(n + 1, math.ceil(enough))
    return Verdict(said, math.exp(mean), low, high, p, n, wanted, tuple(ratios))


def signed_rank(values: Sequence[float]) -> float:
    """The two-sided p of Wilcoxon's signed-rank test: exact for every n, ties by their mean rank, zeros left out.

    The sum of the ranks of the positive ones is compared with all 2^n ways to choose signs. They are counted by adding
    one rank after the other (ranks doubled, so that mean ranks stay whole).
    """
    kept = sorted((value for value in values if value), key=abs)
    if not kept:
        return 1.0
    ranks = _double_ranks([abs(value) for value in kept])
    ways = {0: 1}
    for rank in ranks:
        more = dict(ways)
        for total, count in ways.items():
            more[total + rank] = more.get(total + rank, 0) + count
        ways = more
    seen = sum(rank for rank, value in zip(ranks, kept) if value > 0)
    tail = min(seen, sum(ranks) - seen)
    few = sum(count for total, count in ways.items() if total <= tail)
    return min(1.0, 2.0 * few / float(2 ** len(kept)))


def _double_ranks(ordered: Sequence[float]) -> list[int]:
    """Twice the rank of each of ordered values; equal ones share theirs."""
    ranks: list[int] = []
    while len(ranks) < len(ordered):
        first = len(ranks)
        last = first
        while last + 1 < len(ordered) and ordered[last + 1] == ordered[first]:
            last += 1
        ranks += [first + last + 2] * (last - first + 1)
    return ranks


def student(freedom: int, alpha: float) -> float:
    """The two-sided quantile of Student's t: where the density's integral from 0 reaches (1 - alpha) / 2."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        if 2 * _upper_tail(middle, freedom) > alpha:
            low = middle
        else:
            high = middle
    return high


def _upper_tail(t: float, freedom: int) -> float:
    """P(T > t), exactly: the finite sums for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan2(t, math.sqrt(freedom))
    cos2, term, total = math.cos(angle) ** 2, 1.0, 1.0
    if freedom % 2:
        for k in range(3, freedom - 1, 2):
            term *= cos2 * (k - 1) / k
            total += term
        inner = angle + (math.sin(angle) * math.cos(angle) * total if freedom > 1 else 0.0)
        return 0.5 - inner / math.pi
    for k in range(2, freedom - 1, 2):
        term *= cos2 * (k - 1) / k
        total += term
    return 0.5 - math.sin(angle) * total / 2
