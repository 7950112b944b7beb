"""The detectors of serving against planted truth: `python -m tests.serving.score [--runs 440] [--jobs 2]`.

A run has one fault or none. Its truth is the same run without the fault. Faults that change no measure by the limit of
the detectors are not scored. A saving is compared in the measure that the finding leads with.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np

from npulens.analysis.engine import check
from npulens.analysis.serving.replay import Measures, measures
from npulens.analysis.serving.served import TIMES
from npulens.analysis.serving.slo import Slo
from npulens.collectors.serving.engine import Recorded, run
from npulens.collectors.serving.plants import PLANTS, plan
from npulens.collectors.serving.reinforcement import JOB_PLANTS, job, stages, step_ns
from tests.serving import rows

#: One of so many runs has no fault.
CLEAN_EACH = 5
#: One of so many of these is a job of reinforcement learning.
STEPS_EACH = 4
CAUSES = (*PLANTS, *JOB_PLANTS)
#: A fault that changes every measure by less is not scored: the limit of the detectors.
SCORED = 0.05


@dataclass(frozen=True)
class Case:
    """What was planted in a run, and what was said of it."""

    seed: int
    cause: str | None
    gain: float  # the greatest share of a measure that the fault costs
    found: tuple[str, ...]  # causes, the first finding first
    told: bool  # the outcome of its detector says that time is lost
    measure: str | None = None
    saving_ns: float = 0.0
    true_ns: float = 0.0

    @property
    def error(self) -> float:
        return abs(self.saving_ns - self.true_ns) / self.true_ns if self.true_ns > 0 else 1.0


def truth(recorded: Recorded) -> Measures:
    """The measures of a run, by its own times."""
    front = recorded.setup.front_ns - recorded.setup.front_ns // 2
    ttft = np.array([one.tokens_ns[0] + front - one.asked.send_ns for one in recorded.requests], np.float64)
    output = np.array([len(one.tokens_ns) for one in recorded.requests], np.int64)
    decode = np.array([one.tokens_ns[-1] - one.tokens_ns[0] for one in recorded.requests], np.float64)
    return measures(ttft, np.where(output > 1, decode / np.maximum(1, output - 1), 0.0), output, Slo())


def planted(seed: int) -> str | None:
    """What a seed plants: every cause in turn, or nothing."""
    number, place = divmod(seed, CLEAN_EACH)
    return CAUSES[(number * (CLEAN_EACH - 1) + place - 1) % len(CAUSES)] if place else None


def judged(seed: int) -> Case:
    cause = planted(seed)
    steps = cause in JOB_PLANTS if cause else seed // CLEAN_EACH % STEPS_EACH == 0
    return _steps(seed, cause) if steps else _requests(seed, cause)


def _steps(seed: int, cause: str | None) -> Case:
    """A job of reinforcement learning, by its mean step."""
    draw = random.Random(seed)
    clean = job(draw)
    faulty, without = JOB_PLANTS[cause](draw, clean) if cause else (clean, clean)
    bad, good = stages(faulty, seed), stages(without, seed)
    with rows.job(bad) as con:
        said = check(con)
    cost = step_ns(bad) - step_ns(good)
    found = [one for one in said.findings if one.measure == "rl_step"]
    mine = next((one for one in found if one.cause == cause), None)
    return Case(
        seed, cause, cost / step_ns(bad), tuple(one.cause for one in found), mine is not None,
        "rl_step" if mine else None, mine.saving_ns if mine else 0.0, cost if mine else 0.0,
    )  # fmt: skip


def _requests(seed: int, cause: str | None) -> Case:
    draw = random.Random(seed)
    clean = plan(draw)
    faulty, without = PLANTS[cause](draw, clean) if cause else (clean, clean)
    bad, good = run(list(faulty.asked), faulty.setup, seed), run(list(without.asked), without.setup, seed)
    before, after = truth(bad), truth(good)
    with rows.connection(bad) as con:
        said = check(con)
    costs = {name: getattr(before, f"{name}_ns") - getattr(after, f"{name}_ns") for name in TIMES}
    gain = max(cost / getattr(before, f"{name}_ns") for name, cost in costs.items())
    serving = [one for one in said.findings if one.measure in TIMES]
    mine = next((one for one in serving if one.cause == cause), None)
    told = any(one.detector == cause and one.outcome in ("found", "masked") for one in said.outcomes)
    return Case(
        seed, cause, gain if cause else 0.0, tuple(one.cause for one in serving), told,
        mine.measure if mine else None, mine.saving_ns if mine else 0.0, costs[mine.measure] if mine else 0.0,
    )  # fmt: skip


def summary(cases: Sequence[Case]) -> dict[str, float]:
    """The figures of some cases."""
    faults = [case for case in cases if case.cause and case.gain >= SCORED]
    clean = [case for case in cases if case.cause is None]
    hit = [case for case in faults if case.cause in case.found]
    errors = [case.error for case in hit]
    return {
        "faults": len(faults), "recall": len(hit) / max(1, len(faults)),
        "first": sum(case.found[:1] == (case.cause,) for case in faults) / max(1, len(faults)),
        "clean": len(clean), "quiet": sum(not case.found for case in clean) / max(1, len(clean)),
        "error": float(np.median(errors)) if errors else 0.0,
        "error_p90": float(np.percentile(errors, 90)) if errors else 0.0,
    }  # fmt: skip


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.serving.score")
    asked.add_argument("--runs", type=int, default=440)
    asked.add_argument("--first", type=int, default=1000, help="the first seed")
    asked.add_argument("--jobs", type=int, default=2)
    asked.add_argument("--json", action="store_true")
    options = asked.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        cases = list(pool.map(judged, range(options.first, options.first + options.runs), chunksize=4))
    if options.json:
        print(json.dumps({"all": summary(cases), "cases": [asdict(case) for case in cases]}))
        return
    names = ["faults", "recall", "first", "clean", "quiet", "error", "error_p90"]
    print(f"{'cause':22}" + "".join(f"{name:>10}" for name in names))
    for cause in ["all", *CAUSES]:
        some = summary(cases if cause == "all" else [case for case in cases if case.cause == cause])
        print(f"{cause:22}" + "".join(f"{some[name]:>10.3f}" for name in names))
    for case in cases:
        if (case.cause and case.gain >= SCORED and case.found[:1] != (case.cause,)) or (not case.cause and case.found):
            print(f"seed {case.seed}: {case.cause} ({case.gain:.2f}), said {', '.join(case.found) or '-'}")


if __name__ == "__main__":
    main()
