"""How long one call takes: on the device's own clock, and on the wall as its caller sees it.

Two questions, two series. On the device, pairs of marks made beforehand are recorded back to back and read after one
synchronise. They say what the device needs when it is kept fed. On the host each call is waited for: what a caller
waits. Neither says what the other does; they are never mixed. A processor has the second, and a third: what a call
costs one thread on a core (collectors/harness/cpu_time.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.harness.cpu_time import has_cpu_time, on_one_thread
from npulens.collectors.harness.unprofiled import refuse_profiled
from npulens.collectors.harness.watch import DeviceWatch, collections, evicted

CALLS = 1000
SECONDS = 30.0
#: Between two looks at the device so many calls run, or so many seconds.
CHUNK_CALLS, CHUNK_S = 250, 1.0
#: Calls in a row of one side of a pair, before it is the other's turn.
BITE = 4
#: Nobody has to call this twice in a row.
LONG_NS = 250_000_000


@dataclass
class Load:
    """What is called again and again, in turns where there are several, and what happens untimed before each call."""

    steps: Sequence[Callable[[], Any]]
    prepare: Callable[[], None] | None = None
    calls: int = 0

    def before(self) -> None:
        if self.prepare is not None:
            self.prepare()

    def next(self) -> Callable[[], Any]:
        """The step whose turn it is."""
        self.calls += 1
        return self.steps[self.calls % len(self.steps)]


@dataclass
class Series:
    """Calls in the order they were made; times in ns, ``at_ns`` since 1970. ``events``: what fell into a call."""

    clock: str  # host, device, cpu
    ns: list[int] = field(default_factory=list)
    at_ns: list[int] = field(default_factory=list)
    events: dict[int, list[str]] = field(default_factory=dict)


def clocks(backend: Backend) -> tuple[str, ...]:
    """The clocks that a backend has; the marks of a processor are the host's."""
    return ("host", "cpu") if has_cpu_time(backend) else ("device", "host")


def one(backend: Backend, load: Load) -> int:
    """One call that is waited for, in ns."""
    load.before()
    begun, ended, _ = _waited(backend, load.next())
    return ended - begun


def measure(
    backend: Backend, load: Load, clock: str, watch: DeviceWatch, calls: int = CALLS, seconds: float = SECONDS,
    into: Series | None = None,
) -> Series:  # fmt: skip
    """Calls until there are enough or time is up, whichever is first; what an interrupt leaves is in ``into``."""
    refuse_profiled()
    series = Series(clock) if into is None else into
    until = time.monotonic() + seconds
    while len(series.ns) < calls and time.monotonic() < until:
        watch.look()
        with threads_of(clock):
            one(backend, load)  # the look took milliseconds: the first call after it is not like the others
        most, chunk_until = min(CHUNK_CALLS, calls - len(series.ns)), min(until, time.monotonic() + CHUNK_S)
        with threads_of(clock):
            (_device if clock == "device" else _host)(backend, load, series, most, chunk_until)
    refuse_profiled()
    return series


def bite(backend: Backend, load: Load, clock: str) -> list[int]:
    """A few calls in a row, waited for one by one, after one that is not counted; in ns of a clock.

    A call that takes long is alone: what disturbs the first calls after a change of sides is short beside it.
    """
    calls = BITE if one(backend, load) < LONG_NS else 1
    taken = []
    for _ in range(calls):
        load.before()
        begun, ended, on_core = _waited(backend, load.next())
        taken.append(on_core if clock == "cpu" else ended - begun)
    return taken


def threads_of(clock: str) -> AbstractContextManager[None]:
    """How torch computes while a clock is read: CPU time is of one thread."""
    return on_one_thread() if clock == "cpu" else nullcontext()


def _waited(backend: Backend, step: Callable[[], Any]) -> tuple[int, int, int]:
    """One call: when it began and ended on the wall, and how long this thread was on a core."""
    backend.synchronize()
    before = time.thread_time_ns()
    begun = time.perf_counter_ns()
    step()
    backend.synchronize()
    ended = time.perf_counter_ns()
    return begun, ended, time.thread_time_ns() - before


def _host(backend: Backend, load: Load, series: Series, calls: int, until: float) -> None:
    to_wall = time.time_ns() - time.perf_counter_ns()
    taken: list[tuple[int, int, int, int]] = []  # begin, end, on a core, times the core was taken away so far
    before = evicted()
    with collections() as garbage:
        for _ in range(calls):
            load.before()
            taken.append((*_waited(backend, load.next()), evicted() or 0))
            if time.monotonic() > until:
                break
    first = len(series.ns)
    series.ns += [on_core if series.clock == "cpu" else end - begin for begin, end, on_core, _ in taken]
    series.at_ns += [begin + to_wall for begin, _, _, _ in taken]
    lost = before or 0
    for place, (begin, end, _, so_far) in enumerate(taken, first):
        what = ["garbage collection"] if any(b < end and e > begin for b, e in garbage) else []
        what += ["core taken by another"] if so_far > lost else []
        lost = so_far
        if what:
            series.events[place] = what


def _device(backend: Backend, load: Load, series: Series, calls: int, until: float) -> None:
    marks = backend.marks(2 * calls)
    backend.synchronize()
    issued = []
    for place in range(calls):
        load.before()
        step = load.next()
        issued.append(time.time_ns())
        backend.mark(marks[2 * place])
        step()
        backend.mark(marks[2 * place + 1])
        if time.monotonic() > until:
            break
    backend.synchronize()
    series.ns += [backend.between_ns(marks[2 * i], marks[2 * i + 1]) for i in range(len(issued))]
    series.at_ns += issued
