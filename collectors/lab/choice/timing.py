"""How long plans take: passes over the job's batches in its own proportions, in turns with the original.

A pass is one call of every batch of the mix, and it is the sum that counts. Calls of unlike shapes take unlike times,
and a middle of them would be that of the common shapes only.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.harness.controlled import AGAIN, BASE, OTHER, Bite, Block, Controlled, blocks, rounds, verdict
from npulens.collectors.harness.cpu_time import has_cpu_time
from npulens.collectors.harness.latency import threads_of
from npulens.collectors.harness.unprofiled import refuse_profiled
from npulens.collectors.lab import measuring
from npulens.collectors.lab.choice.plan import Plan
from npulens.collectors.lab.subject import Subject

#: Passes are repeated until they take so long: a shorter time is mostly that of the clock and the caches.
LEAST_NS = 4_000_000
MOST_REPEATS = 64
#: Plans between two passes of the original.
CHUNK = 4
#: Passes of the original that are looked at; how far the wall may vary; and how many times as far as the CPU time.
LOOKS, QUIET, TIMES = 8, 0.05, 2.0
Step = Callable[[], Any]


@dataclass(frozen=True)
class Speed:
    """What fresh pairs say of a plan; ``ratio`` below 1 means that it takes less time."""

    said: str  # faster, slower, same, cannot_tell
    why: str | None
    ratio: float
    low: float
    high: float
    clock: str
    pairs: int
    pairs_needed: int | None
    control_low: float
    control_high: float
    again: tuple[float, float, float] | None  # ratio and interval of the second time

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def steps(subject: Subject, model: Any) -> list[Step]:
    """The calls of one pass."""
    kinds = {tuple(tuple(each.shape) for each in batch) for batch in subject.batches}
    batches: Sequence[Any] = measuring.mix(subject) if len(kinds) > 1 else subject.batches
    return [measuring.step(model, batch, subject.about.gradients, model) for batch in batches]


class Passes:
    """Measures plans in rounds, each beside the original, by one clock.

    On a processor it is the wall, or the CPU time of one thread where other work on the machine makes the wall useless.
    """

    def __init__(self, backend: Backend, subject: Subject, original: Any) -> None:
        self._backend, self._subject = backend, subject
        self.clock = _steadier(backend, steps(subject, original)) if has_cpu_time(backend) else "host"
        self._original = steps(subject, original)
        self._of: dict[Plan, list[Step]] = {}
        self._turn = 0
        self.first_ns: dict[Plan, int] = {}
        with threads_of(self.clock):
            for step in self._original:
                step()
        self.first_of_original = self._pass(self._original, 1)
        self._repeats = max(1, min(MOST_REPEATS, math.ceil(LEAST_NS / max(1, self.first_of_original))))

    def add(self, plan: Plan, model: Any) -> float:
        """Takes a plan in; how many seconds its first calls took, compilers included."""
        made = steps(self._subject, model)
        begun = time.perf_counter()
        with threads_of(self.clock):
            for step in made:
                step()
        self._backend.synchronize()
        taken = time.perf_counter() - begun
        self.first_ns[plan] = self._pass(made, 1)
        self._of[plan] = made
        return taken

    def forget(self, plan: Plan) -> None:
        """Lets a plan's program go."""
        self._of.pop(plan, None)

    def measure(
        self, plans: Sequence[Plan], count: int, enough: Callable[[], bool] = lambda: False
    ) -> dict[Plan, list[float]]:
        """So many rounds: the logarithm of each plan's time as a share of the original's beside it.

        ``enough`` ends it after a round.
        """
        refuse_profiled()
        found: dict[Plan, list[float]] = {plan: [] for plan in plans}
        for done in range(count):
            if done and enough():
                break
            self._turn += 1
            cut = self._turn % len(plans)
            order = [*plans[cut:], *plans[:cut]][:: 1 if self._turn % 2 else -1]
            before = self._pass(self._original, self._repeats)
            for start in range(0, len(order), CHUNK):
                some = order[start : start + CHUNK]
                taken = {plan: self._pass(self._of[plan], self._repeats) for plan in some}
                after = self._pass(self._original, self._repeats)
                for plan, ns in taken.items():
                    found[plan].append(math.log(ns) - 0.5 * (math.log(before) + math.log(after)))
                before = after
        return found

    def _pass(self, made: Sequence[Step], repeats: int) -> int:
        with threads_of(self.clock):
            return sum(_bite(self._backend, made)(self.clock)[0] for _ in range(repeats))


def _steadier(backend: Backend, made: Sequence[Step]) -> str:
    """The clock for the search: the wall, unless the same passes vary far more on it."""
    taken: dict[str, list[float]] = {"host": [], "cpu": []}
    bite = _bite(backend, made)
    for _ in range(LOOKS + 1):
        for clock, found in taken.items():
            with threads_of(clock):
                found.append(math.log(max(1, bite(clock)[0])))
    spread = {clock: statistics.stdev(found[1:]) for clock, found in taken.items()}
    return "cpu" if spread["host"] > max(QUIET, TIMES * spread["cpu"]) else "host"


def compared(
    subject: Subject, backend: Backend, original: Callable[[], Any], other: Callable[[], Any], pairs: int,
    seconds: float, wall_only: bool,
) -> Speed:  # fmt: skip
    """A plan on fresh pairs of fresh copies; what comes out different is measured a second time, and both must agree.

    ``wall_only``: where a plan computes on another number of threads the CPU time of one thread says nothing.
    """
    found = _rounds(subject, backend, original, other, pairs, seconds, wall_only)
    said, why = measuring.said(found)
    again, told = None, found.found[found.clock]
    if said in (measuring.FASTER, measuring.SLOWER) and 1 / measuring.PLAIN < told.ratio < measuring.PLAIN:
        second = _rounds(subject, backend, original, other, pairs, seconds, wall_only)
        its = second.found[second.clock]
        again = (its.ratio, its.low, its.high)
        if measuring.said(second)[0] != said:
            said, why = measuring.CANNOT_TELL, "not_again"
    control = found.control[found.clock]
    return Speed(
        said,
        why,
        told.ratio,
        told.low,
        told.high,
        found.clock,
        told.pairs,
        told.pairs_needed,
        control.low,
        control.high,
        again,
    )


def _rounds(
    subject: Subject, backend: Backend, original: Callable[[], Any], other: Callable[[], Any], pairs: int,
    seconds: float, wall_only: bool,
) -> Controlled:  # fmt: skip
    sides = {side: steps(subject, make()) for side, make in ((BASE, original), (OTHER, other), (AGAIN, original))}
    bites: Mapping[str, Bite] = {side: _bite(backend, made) for side, made in sides.items()}
    clocks = ("host", "cpu") if has_cpu_time(backend) and not wall_only else ("host",)
    each, taken = seconds / (pairs * len(clocks)), list[Block]()
    for clock in clocks:
        with threads_of(clock):
            for made in sides.values():  # compilers may begin anew for another number of threads
                for step in made:
                    step()
            list(blocks(bites, clock, "".join(sides), each))
    for order in rounds(pairs):
        for clock in clocks:
            with threads_of(clock):
                taken += blocks(bites, clock, order, each)
    return verdict(taken)


def _bite(backend: Backend, made: Sequence[Step]) -> Bite:
    """One pass on a clock, after a call that is not counted."""

    def taken(clock: str) -> list[int]:
        made[-1]()
        backend.synchronize()
        begun, on_core = time.perf_counter_ns(), time.thread_time_ns()
        for step in made:
            step()
            backend.synchronize()
        ended, core = time.perf_counter_ns(), time.thread_time_ns()
        return [max(1, core - on_core if clock == "cpu" else ended - begun)]

    return taken
