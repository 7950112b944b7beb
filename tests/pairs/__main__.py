"""How often compare is right about planted changes, and about none.

    python -m tests.pairs [--pairs 500] [--seed 1] [--jobs 2]
    python -m tests.pairs --together [--pairs 200] [--seed 7]

Each pair is a capture before and a capture after, of a job drawn at random, with one change of 0.5 to 10 % of its step
(log-uniform): half of them make it slower, half faster. Beside each stands a pair of two captures without any change.
Captures of a pair do not drift apart: one capture a side could not tell that from a change.

`--together` also plants what changes several things at once (tests/pairs/together.py).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from npulens.analysis.regression.compared import Compared, compared
from npulens.analysis.regression.pieces import Measured, measure
from tests.pairs import together
from tests.pairs.job import WHAT, Job, Planted, drawn, fill, planted
from tests.random_runs import empty_connection

LEAST, MOST = 0.005, 0.10
#: What the figures must reach.
LIMITS = {"right_or_ambiguous": 0.99, "first": 0.95, "residual": 1.0, "false_regressed": 0.01}


@dataclass(frozen=True)
class Tried:
    """One pair: what was planted, what was said of it, and what was said of a pair without a change."""

    planted: Planted
    said: str
    first: bool
    residual_ok: bool
    error: float  # of the main contribution, as a share of what was planted
    unchanged: str


def tries(numbers: Iterable[int], seed: int) -> Iterator[Tried]:
    """Pair after pair."""
    con = empty_connection()
    for number in numbers:
        rng = np.random.default_rng((seed, number))
        job = drawn(rng)
        share = float(np.exp(rng.uniform(np.log(LEAST), np.log(MOST))))
        before, after, truth = planted(job, WHAT[number % len(WHAT)], share, rng)
        if rng.random() < 0.5:
            before, after = after, before
            truth = replace(truth, delta_ns=-truth.delta_ns)

        def capture(one: Job, name: str, noise: np.random.Generator) -> Measured:
            fill(con, one, name, noise)
            return measure(con)

        base, again, head = (capture(one, name, rng) for one, name in ((before, "a"), (before, "b"), (after, "c")))
        yield _tried(truth, compared([base], [head]), compared([base], [again]))


def _share(numbers: Iterable[int], seed: int) -> list[Tried]:
    return list(tries(numbers, seed))


def _tried(truth: Planted, found: Compared, quiet: Compared) -> Tried:
    top, change = found.change.contributions[0], found.change
    first = top.kind == truth.kind and (top.what in truth.names or top.before in truth.names)
    assert sum(one.delta_ns for one in change.contributions) + change.residual_ns == change.delta_ns
    return Tried(
        truth, found.verdict.said, first, abs(change.residual_ns) <= 0.01 * abs(change.delta_ns),
        top.delta_ns / truth.delta_ns - 1 if first else float("nan"), quiet.verdict.said,
    )  # fmt: skip


def right(one: Tried) -> bool:
    """The verdict says which way the step changed, or that it cannot tell."""
    return one.said in ("ambiguous", "regressed" if one.planted.delta_ns > 0 else "improved")


def figures(found: list[Tried]) -> dict[str, float]:
    """The shares that the limits speak of."""
    count = len(found)
    return {
        "right_or_ambiguous": sum(map(right, found)) / count, "first": sum(one.first for one in found) / count,
        "residual": sum(one.residual_ok for one in found) / count,
        "false_regressed": sum(one.unchanged == "regressed" for one in found) / count,
    }  # fmt: skip


def held(got: dict[str, float]) -> bool:
    """Whether every limit is kept."""
    return got["false_regressed"] <= LIMITS["false_regressed"] and all(
        got[name] >= LIMITS[name] for name in ("right_or_ambiguous", "first", "residual"))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--together", action="store_true", help="200 pairs with fusions, splits, clocks, late ranks")
    asked = parser.parse_args()
    if asked.together:
        return together.show(min(asked.pairs, 200), asked.seed)
    found = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        shares = [range(first, min(first + 25, asked.pairs)) for first in range(0, asked.pairs, 25)]
        for share in pool.map(_share, shares, [asked.seed] * len(shares)):
            found += share
            print(f"{len(found)} pairs", file=sys.stderr)
    got = figures(found)
    decided = sum(one.said != "ambiguous" for one in found)
    errors = np.array([abs(one.error) for one in found if one.first])
    print(f"{len(found)} changed pairs: verdict right {sum(right(one) for one in found) - len(found) + decided}, "
          f"ambiguous {len(found) - decided}, wrong {sum(not right(one) for one in found)}")  # fmt: skip
    print(f"right or ambiguous     {got['right_or_ambiguous']:7.1%}   (at least {LIMITS['right_or_ambiguous']:.0%})")
    print(f"main contributor first {got['first']:7.1%}   (at least {LIMITS['first']:.0%}); "
          f"its size is off by {np.median(errors):.1%} (median)")  # fmt: skip
    print(f"residual within 1 %    {got['residual']:7.1%}   (all)")
    print(f"unchanged: regressed   {got['false_regressed']:7.1%}   (at most {LIMITS['false_regressed']:.0%}); "
          f"{dict(Counter(one.unchanged for one in found))}")  # fmt: skip
    for what in WHAT:
        mine = [one for one in found if one.planted.what == what]
        print(f"  {what:<10} {len(mine):4} pairs, first in {sum(one.first for one in mine):4}, "
              f"{dict(Counter(one.said for one in mine))}")  # fmt: skip
    return 0 if held(got) else 1


if __name__ == "__main__":
    sys.exit(main())
