"""Whether the clocks of a device can be believed: against the wall, against twice the work, against itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.doctor.check import FAIL, PASS, SKIP, WARN, Check
from npulens.collectors.harness.versus import judge, versus
from npulens.collectors.workloads.workload import workload

WIDTH = 512  # of the square matrices that are multiplied; kernels long enough not to be all launch
ENOUGH_NS = 20_000_000
REPEATS = 9
#: Between the device's clock and the wall around it lie one launch and one synchronise.
WALL = (0.90, 1.02)
TWICE = (1.8, 2.2)
#: An interval so many times as high as low hides anything worth measuring.
NOISY = 1.2
HELD_BACK = 0.97
BUSY = 0.5


def work(backend: Backend) -> tuple[Callable[[int], None], int]:
    """Something to do in rounds, each needing the result of the one before, and rounds that last long enough."""
    import torch

    torch.manual_seed(0)
    weight = torch.randn(WIDTH, WIDTH, device=backend.device)
    held = [torch.randn(WIDTH, WIDTH, device=backend.device)]

    def run(rounds: int) -> None:
        for _ in range(rounds):
            held[0] = (held[0] @ weight) * WIDTH**-0.5  # scaled, so that it neither grows nor vanishes

    run(3)
    rounds = 1
    while _wall(backend, run, rounds) < ENOUGH_NS and rounds < 1 << 16:
        rounds *= 2
    return run, rounds


def event_and_wall(backend: Backend) -> Check:
    """The device's clock runs as fast as the wall's."""
    run, rounds = work(backend)
    shares = []
    for _ in range(REPEATS):
        first, last = backend.marks(2)
        backend.synchronize()
        begun = time.time_ns()
        backend.mark(first)
        run(rounds)
        backend.mark(last)
        backend.synchronize()
        ended = time.time_ns()
        shares.append(backend.between_ns(first, last) / (ended - begun))
    share = median(shares)
    seen = {"share": round(share, 4), "repeats": REPEATS, "low": WALL[0], "high": WALL[1]}
    return Check("event_and_wall", PASS if WALL[0] <= share <= WALL[1] else FAIL, "ratio", seen)


def twice_the_work(backend: Backend) -> Check:
    """Twice the work takes twice the time; taken in turns, because machines drift."""
    run, rounds = work(backend)
    ratios = [_event(backend, run, 2 * rounds) / _event(backend, run, rounds) for _ in range(REPEATS)]
    ratio, verdict = median(ratios), judge(ratios)
    seen = {"ratio": round(ratio, 3), "repeats": REPEATS, "low": round(verdict.low, 3), "high": round(verdict.high, 3)}
    if TWICE[0] <= ratio <= TWICE[1]:
        return Check("twice_the_work", PASS, "ratio", seen)
    if verdict.low <= 2 <= verdict.high or verdict.high / verdict.low > NOISY:
        return Check("twice_the_work", WARN, "noisy", seen)
    return Check("twice_the_work", FAIL, "ratio", seen)


def same_twice(backend: Backend) -> Check:
    """The same step against itself is not called different."""
    found = workload("train_step")
    case = found.build("unfused", found.SHAPES["small"], "float32", backend.device)
    for _ in range(30):
        case.step()

    def block() -> list[int]:
        return [_wall(backend, lambda _: case.step(), 1) for _ in range(40)]

    verdict = versus(block, block)
    seen = {"said": verdict.said, "ratio": round(verdict.ratio, 4), "low": round(verdict.low, 4),
            "high": round(verdict.high, 4), "pairs": verdict.pairs}  # fmt: skip
    if verdict.said == "different":
        return Check("same_twice", FAIL, "different", seen)
    noisy = verdict.high / verdict.low > NOISY
    return Check("same_twice", WARN if noisy else PASS, "noisy" if noisy else "alike", seen)


def clocks_under_load(backend: Backend) -> Check:
    """A busy device keeps its rated clock."""
    run, rounds = work(backend)
    backend.telemetry()
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        run(rounds)
    told = backend.telemetry()  # queued work still runs while it is asked
    backend.synchronize()
    seen: dict[str, Any] = {
        "clock_mhz": told.clock_mhz, "rated_mhz": told.rated_mhz, "busy": told.busy_share,
        "temperature_c": told.temperature_c, "held_by": list(told.throttled_by or ()),
    }  # fmt: skip
    if told.throttled_by:
        return Check("clocks_under_load", WARN, "held_by", seen)
    if told.clock_mhz is None or told.rated_mhz is None:
        return Check("clocks_under_load", SKIP, "untold", seen)
    if told.clock_mhz < HELD_BACK * told.rated_mhz and (told.busy_share or 0) > BUSY:
        return Check("clocks_under_load", WARN, "slow", seen)
    return Check("clocks_under_load", PASS, "rated", seen)


def _event(backend: Backend, run: Callable[[int], None], rounds: int) -> int:
    first, last = backend.marks(2)
    backend.mark(first)
    run(rounds)
    backend.mark(last)
    backend.synchronize()
    return backend.between_ns(first, last)


def _wall(backend: Backend, run: Callable[[int], None], rounds: int) -> int:
    backend.synchronize()
    begun = time.perf_counter_ns()
    run(rounds)
    backend.synchronize()
    return time.perf_counter_ns() - begun
