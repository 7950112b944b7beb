"""What workers that run at once cost each other: streams, threads or processes that begin together.

Efficiency is their common throughput over N times that of one worker alone. 1 is no interference; 1/N is a device that
one worker fills. Every worker counts what it completed before the common end.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.harness.quantiles import rank
from npulens.collectors.harness.unprofiled import refuse_profiled
from npulens.collectors.workloads.workload import workload

KINDS = ("streams", "threads", "processes")
PATIENCE_S = 180.0  # a process imports torch and opens its device


@dataclass(frozen=True)
class Together:
    """N workers at once, against one alone."""

    kind: str
    workers: int
    seconds: float
    solo_per_second: float
    per_second: float  # of all of them
    p50_ns: tuple[int, ...]  # of each
    p99_ns: tuple[int, ...]
    solo_p50_ns: int

    @property
    def efficiency(self) -> float:
        return self.per_second / (self.workers * self.solo_per_second)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "efficiency": self.efficiency}


@dataclass(frozen=True)
class Asked:
    """What a worker runs, so that a process of its own can build it again."""

    backend: str
    workload: str
    variant: str
    shape: Mapping[str, int]
    dtype: str

    def build(self, device: str) -> Callable[[], Any]:
        return workload(self.workload).build(self.variant, self.shape, self.dtype, device, 0).step


def together(asked: Asked, backend: Backend, kind: str, workers: int, seconds: float) -> Together:
    """Measures one alone, then all at once."""
    refuse_profiled()
    step = asked.build(backend.device)
    alone = _work(backend, step, seconds, lambda: None)
    run = _processes if kind == "processes" else _threads
    taken = run(asked, backend, kind, workers, seconds)
    rates = [len(each) / seconds for each in taken]
    return Together(
        kind, workers, seconds, len(alone) / seconds, sum(rates), tuple(_at(each, 0.5) for each in taken),
        tuple(_at(each, 0.99) for each in taken), _at(alone, 0.5),
    )  # fmt: skip


def _at(samples: list[int], level: float) -> int:
    return sorted(samples)[rank(level, len(samples)) - 1]


def _work(backend: Backend, step: Callable[[], Any], seconds: float, ready: Callable[[], object]) -> list[int]:
    """Calls that end within the window, one by one; at least one. Each waits for its own mark, not for the others."""
    mark, taken = backend.marks(1)[0], list[int]()

    def call() -> int:
        begun = time.perf_counter_ns()
        step()
        backend.mark(mark)
        backend.wait(mark)
        return time.perf_counter_ns() - begun

    for _ in range(3):
        call()
    ready()
    until = time.monotonic() + seconds
    while True:
        ns = call()
        if taken and time.monotonic() > until:
            return taken
        taken.append(ns)


def _threads(asked: Asked, backend: Backend, kind: str, workers: int, seconds: float) -> list[list[int]]:
    """Threads, or streams with a thread each that fills it: one thread cannot wait for two streams at a time."""
    barrier, taken, failed = threading.Barrier(workers), list[list[int]](), list[BaseException]()

    def work() -> None:
        try:
            with backend.stream() if kind == "streams" else nullcontext():
                taken.append(_work(backend, asked.build(backend.device), seconds, barrier.wait))
        except (RuntimeError, MemoryError, ValueError) as error:
            failed.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise next((each for each in failed if not isinstance(each, threading.BrokenBarrierError)), failed[0])
    return taken


def _processes(asked: Asked, backend: Backend, kind: str, workers: int, seconds: float) -> list[list[int]]:
    """Processes of their own that begin at the same moment."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(workers), context.SimpleQueue()
    children = [context.Process(target=_child, args=(asked, seconds, barrier, answers)) for _ in range(workers)]
    for child in children:
        child.start()
    try:
        return _answers(answers, children)
    finally:
        for child in children:
            child.terminate()
            child.join()


def _answers(answers: Any, children: list[Any]) -> list[list[int]]:
    found: list[list[int]] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < len(children):
        if answers.empty():
            if time.monotonic() > until or any(child.exitcode for child in children):
                raise RuntimeError("a process of several ended before it was done")
            time.sleep(0.01)
            continue
        said = answers.get()
        if isinstance(said, str):
            raise RuntimeError(said)
        found.append(said)
    return found


def _child(asked: Asked, seconds: float, barrier: Any, answers: Any) -> None:
    try:
        backend = open_backend(asked.backend)
        answers.put(_work(backend, asked.build(backend.device), seconds, barrier.wait))
    except (RuntimeError, MemoryError, ValueError) as error:
        answers.put(f"a process of several failed: {error}")
        barrier.abort()
