"""How long the original and a rewrite take on the job's own batches, and how much memory each needs at most.

The harness of `npulens bench` does it: interleaved rounds of the original, the rewrite and the original again. What
comes out faster is measured a second time on copies that were made anew, and both have to agree. Where batches have
unlike shapes, a sample is a whole pass over them in the job's proportions: calls of unlike shapes take unlike times,
and a middle of them would be that of the common shapes only.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.harness.controlled import AGAIN, BASE, OTHER, Bite, Block, Controlled, blocks, rounds, verdict
from npulens.collectors.harness.cpu_time import has_cpu_time
from npulens.collectors.harness.latency import Load, bite, threads_of
from npulens.collectors.harness.versus import MARGIN
from npulens.collectors.lab.judging import Model, run
from npulens.collectors.lab.subject import Subject

PAIRS = 10
#: How long one comparison takes, in seconds.
SECONDS = 8.0
#: Batches in the mix that is timed.
MIX = 12
#: A ratio beyond this is plain enough, and measured once.
PLAIN = 2.0
FASTER, SLOWER, SAME, CANNOT_TELL = "faster", "slower", "same", "cannot_tell"


@dataclass(frozen=True)
class Speed:
    """What the rounds say; ``ratio`` below 1 means that the rewrite takes less time."""

    said: str  # faster, slower, same, cannot_tell
    why: str | None  # noisy, wide, not_again, small, more_pairs
    ratio: float
    low: float
    high: float
    clock: str
    pairs: int
    pairs_needed: int | None
    control_low: float
    control_high: float
    again: tuple[float, float, float] | None  # ratio and interval of the second time
    by_clock: Mapping[str, tuple[float, float, float]]  # ratio and interval on each clock

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def mix(subject: Subject) -> list[Sequence[Any]]:
    """The batches in the job's own proportions, as near as so few places allow; each at least once."""
    calls = [subject.calls_of(batch) for batch in subject.batches]
    same = [sum(1 for other in calls if other == each) for each in calls]
    total = sum(each / count for each, count in zip(calls, same)) or 1
    shares = [max(1, round(MIX * each / count / total)) for each, count in zip(calls, same)]
    return [batch for batch, share in zip(subject.batches, shares) for _ in range(share)]


def step(model: Model, batch: Sequence[Any], gradients: bool, weights: Any) -> Callable[[], Any]:
    """One call; where gradients were on, also those of the weights."""
    return lambda: run(model, batch, gradients, weights)


def unlike(subject: Subject) -> bool:
    """Whether the batches have more than one shape."""
    return len({tuple(tuple(each.shape) for each in batch) for batch in subject.batches}) > 1


def steps(subject: Subject, model: Model) -> list[Callable[[], Any]]:
    """The calls of one pass."""
    batches: Sequence[Any] = mix(subject) if unlike(subject) else subject.batches
    return [step(model, batch, subject.about.gradients, model) for batch in batches]


def passes(backend: Backend, made: Sequence[Callable[[], Any]]) -> Bite:
    """One pass on a clock, after a call that is not counted."""

    def taken(clock: str) -> list[int]:
        made[-1]()
        backend.synchronize()
        begun, on_core = time.perf_counter_ns(), time.thread_time_ns()
        for each in made:
            each()
            backend.synchronize()
        ended, core = time.perf_counter_ns(), time.thread_time_ns()
        return [max(1, core - on_core if clock == "cpu" else ended - begun)]

    return taken


def measured(
    subject: Subject, backend: Backend, original: Callable[[], Any], rewritten: Callable[[], Any], pairs: int = PAIRS,
    seconds: float = SECONDS, wall_only: bool = False,
) -> Speed:  # fmt: skip
    """``original`` and ``rewritten`` make a fresh copy each time they are called.

    ``wall_only``: where the rewrite computes on another number of threads the CPU time of one thread says nothing.
    """
    found = _rounds(subject, backend, original, rewritten, pairs, seconds, wall_only)
    first = said(found)
    again = None
    level = found.found[found.clock].ratio
    if first[0] in (FASTER, SLOWER) and 1 / PLAIN < level < PLAIN:
        second = _rounds(subject, backend, original, rewritten, pairs, seconds, wall_only)
        told = second.found[second.clock]
        again = (told.ratio, told.low, told.high)
        first = first if said(second)[0] == first[0] else (CANNOT_TELL, "not_again")
    other, control = found.found[found.clock], found.control[found.clock]
    return Speed(
        first[0], first[1], other.ratio, other.low, other.high, found.clock, other.pairs, other.pairs_needed,
        control.low, control.high, again,
        {clock: (told.ratio, told.low, told.high) for clock, told in found.found.items()},
    )  # fmt: skip


def said(found: Controlled) -> tuple[str, str | None]:
    """The verdict, and why it is none where it is none."""
    told = found.found[found.clock]
    if found.withheld:
        return CANNOT_TELL, found.withheld
    if told.said == "different" and abs(math.log(told.ratio)) <= math.log(1 + MARGIN):
        return CANNOT_TELL, "small"
    if told.said == "different":
        return (FASTER if told.ratio < 1 else SLOWER), None
    return (SAME, None) if told.said == "same" else (CANNOT_TELL, "more_pairs")


def _rounds(
    subject: Subject, backend: Backend, original: Callable[[], Any], rewritten: Callable[[], Any], pairs: int,
    seconds: float, wall_only: bool,
) -> Controlled:  # fmt: skip
    made = {BASE: steps(subject, original()), OTHER: steps(subject, rewritten()), AGAIN: steps(subject, original())}
    whole = unlike(subject)
    sides: dict[str, Bite] = {
        side: passes(backend, its) if whole else partial(bite, backend, Load(its)) for side, its in made.items()
    }
    clocks = ("host", "cpu") if has_cpu_time(backend) and not wall_only else ("host",)
    each, taken = seconds / (pairs * len(clocks)), list[Block]()
    for clock in clocks:
        with threads_of(clock):
            for its in made.values():  # compilers may begin anew for another number of threads
                for call in its:
                    call()
            list(blocks(sides, clock, "".join(sides), each))
    for order in rounds(pairs):
        for clock in clocks:
            with threads_of(clock):
                taken += blocks(sides, clock, order, each)
    return verdict(taken)


def peak_bytes(backend: Backend, call: Callable[[], Any]) -> int | None:
    """What a call needs at most besides what was there before it; None where nobody counts."""
    backend.synchronize()
    held = backend.memory()
    if held is None:
        return _peak_on_a_processor(call)
    backend.forget_peak()
    call()
    backend.synchronize()
    after = backend.memory()
    return None if after is None else max(0, after.peak - held.allocated)


@contextmanager
def _without_words() -> Iterator[None]:
    """The profiler writes to the channel itself that it starts and stops."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _peak_on_a_processor(call: Callable[[], Any]) -> int | None:
    """From what torch's own allocator tells its profiler, in the order it happened."""
    import torch

    with _without_words():
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        with profile as found:
            call()
    results = found.profiler.kineto_results
    told = [event for event in results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(told, key=lambda one: int(one.start_ns())):
        now += int(event.nbytes())
        most = max(most, now)
    return most if told else None
