"""What the harness says of series whose truth is known: ``python -m tests.bench.harness`` prints it.

Six kinds of series, a hundred seeds each: flat, cold start, drift, throttled, bimodal, stalls. Then the percentile that
removing outliers gives beside the true one, and how often a comparison is wrong.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from pathlib import Path

from npulens.collectors.bench.times import outliers
from npulens.collectors.harness.quantiles import needed, quantiles, rank
from npulens.collectors.harness.steady import steadiness
from npulens.collectors.harness.versus import versus

LEVEL_NS = 100_000  # of one call
CALLS, SEEDS, DUELS = 1000, 100, 200


def series(kind: str, seed: int, calls: int = CALLS) -> list[int]:
    """Calls with 3 % noise and one thing wrong with them."""
    dice, found = random.Random(seed), []
    for i in range(calls):
        scale = 1 + dice.gauss(0, 0.03)
        if kind == "cold start":
            scale *= 1 + 1.5 * math.exp(-i / 15)
        if kind == "cold block" and i < 0.1 * calls:
            scale *= 1.4
        if kind == "drift":
            scale *= 1 + 0.1 * i / calls
        if kind == "throttled" and i >= 0.6 * calls:
            scale *= 1.25
        if kind == "faster later" and i >= 0.6 * calls:
            scale *= 0.8
        if kind == "bimodal" and dice.random() < 0.5:
            scale *= 1.6
        if kind == "stalls" and dice.random() < 0.02:
            scale *= 10
        found.append(round(LEVEL_NS * scale))
    return found


def filtered(samples: list[int]) -> list[int]:
    """Without what lies beyond Tukey's fences, as one of the guides does before it takes P99."""
    fences = outliers(samples)
    return [each for each in samples if fences.low_fence <= each <= fences.high_fence]


def duel(seed: int, slower: float) -> str:
    """Ten pairs on a machine whose speed wanders by 2 % from pair to pair, 0.5 % within one."""
    dice, calls, wander = random.Random(seed), iter(range(100)), list[float]()

    def block(factor: float) -> list[int]:
        if next(calls) % 2 == 0:
            wander.append(1 + dice.gauss(0, 0.02))
        drift = wander[-1] * (1 + dice.gauss(0, 0.005))
        return [round(LEVEL_NS * drift * factor * (1 + dice.gauss(0, 0.03))) for _ in range(50)]

    return versus(lambda: block(1.0), lambda: block(slower)).said


def main() -> None:
    """Prints the tables."""
    print(f"{SEEDS} series of {CALLS:,} calls a kind\n{'series':<12} verdicts")
    for kind in ("flat", "cold start", "drift", "throttled", "bimodal", "stalls"):
        said = Counter(steadiness(series(kind, seed)).state for seed in range(SEEDS))
        print(f"{kind:<12} {', '.join(f'{state} {count}' for state, count in said.most_common())}")
    print("\n2 % of calls take ten times as long: P99 of 500 calls, in us")
    print(f"{'seed':<6} {'true P99':>9} {'bounded':>22} {'filtered P99':>13} {'true mean':>10} {'filtered':>9}")
    for seed in range(5):
        drawn = series("stalls", seed, 500)
        kept = filtered(drawn)
        (found,) = quantiles(drawn, (0.99,))
        bound = "yes" if found.high else f"needs n >= {needed(0.99)}"
        low = sorted(kept)[rank(0.99, len(kept)) - 1]
        means = sum(drawn) / len(drawn), sum(kept) / len(kept)
        print(f"{seed:<6} {found.value / 1e3:>9.1f} {bound:>22} {low / 1e3:>13.1f} "
              f"{means[0] / 1e3:>10.1f} {means[1] / 1e3:>9.1f}")  # fmt: skip
    print(f"\nten interleaved pairs, {DUELS} times")
    for name, slower in (("A against A", 1.0), ("3 % slower", 1.03)):
        said = Counter(duel(seed, slower) for seed in range(DUELS))
        print(f"{name:<12} {', '.join(f'{verdict} {count / DUELS:.1%}' for verdict, count in said.most_common())}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
