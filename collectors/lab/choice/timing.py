"""How long plans take: passes over the job's batches in its own proportions, in turns with the original."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from npulens.collectors.backends.backend import Backend
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


class Passes:
    """Measures plans in rounds, each beside the original, by one clock.

    On a processor it is the wall, or the CPU time of one thread where other work on the machine makes the wall useless.
    """

    def __init__(self, backend: Backend, subject: Subject, original: Any) -> None:
        self._backend, self._subject = backend, subject
        self.clock = _steadier(backend, measuring.steps(subject, original)) if has_cpu_time(backend) else "host"
        self._original = measuring.steps(subject, original)
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
        made = measuring.steps(self._subject, model)
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
            return sum(measuring.passes(self._backend, made)(self.clock)[0] for _ in range(repeats))


def _steadier(backend: Backend, made: Sequence[Step]) -> str:
    """The clock for the search: the wall, unless the same passes vary far more on it."""
    taken: dict[str, list[float]] = {"host": [], "cpu": []}
    bite = measuring.passes(backend, made)
    for _ in range(LOOKS + 1):
        for clock, found in taken.items():
            with threads_of(clock):
                found.append(math.log(max(1, bite(clock)[0])))
    spread = {clock: statistics.stdev(found[1:]) for clock, found in taken.items()}
    return "cpu" if spread["host"] > max(QUIET, TIMES * spread["cpu"]) else "host"
