"""One recording in the process of a job: a profiler around its steps, told when each has ended.

    from npulens.collectors.recorder import recording

    with recording("profile") as step:
        for batch in loader:
            train(batch)
            step()

The profiler lives around the loop, never inside it: made anew in every step it would never get beyond its warm-up and
record nothing. When the wanted steps are recorded, ``step`` does nothing any more and costs nothing.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npulens.collectors import launchers, notes, profilers
from npulens.collectors.limits import Limits, Reached
from npulens.collectors.module_ranges import ModuleRanges
from npulens.collectors.profilers.jobs_own import JobsOwn
from npulens.collectors.settings import Settings

#: Of the traces that the job's own profiler wrote, so many are named.
_OWN_TRACES = 8
#: Profilers that this thread or process may not end: what goes away would end them.
_KEPT: list[Any] = []


class Recorder:
    """Starts a profiler, passes steps on to it and stops it once.

    A profiler sees the thread that started it, and only there it can be stopped: steps of other threads are not its.
    """

    def __init__(
        self, directory: str | os.PathLike[str], settings: Settings | None = None, backend: str = "cpu",
        session: str | None = None, since_ns: int | None = None,
    ) -> None:  # fmt: skip
        self.directory, self.settings, self._backend = Path(directory), settings or Settings(), backend
        self._session, self._since_ns = session, since_ns or time.time_ns()  # of the collect that began this job
        self.steps = 0
        self.everywhere = False  # whether all threads are recorded, and any of them may make steps
        self.state = "idle"  # idle, recording, written, cut_short, failed, aside
        self.reason: str | None = None
        self.stepping: dict[str, object] = {}  # what whoever finds the steps says of them
        self.left_out: list[str] = []  # settings that this release of the profiler does not have
        self.first_start_ns: int | None = None  # None: nothing was warmed up, so nobody measured it
        self.own: JobsOwn | None = None  # told of the job's own profiler by whoever listens for one
        self._profiler: Any = None
        self._modules = ModuleRanges()
        self._deferred: Any = None  # a profiler whose trace is written at the end of the job
        self._thread = threading.local()  # marks the recorded thread; the number of one that ended is used again
        self._wrote = False
        self._begun_ns = 0
        self._notes = notes.Notes(self.directory)
        self._limits = self._its_limits()
        self.reached: Reached | None = None  # the limit that ended the recording
        self._held: int | None = None
        self._rank: int | None = None
        self._started = False
        os.register_at_fork(after_in_child=self._forked)

    @property
    def backend(self) -> str:
        """What is recorded; ``auto`` becomes what the process computes on when it begins."""
        return in_use() if self._backend == "auto" else self._backend

    def warm_up(self) -> None:
        """Takes the profiler's first start, which may last seconds, before the job's first step."""
        begun, self._started = time.perf_counter_ns(), True
        with self._ours():
            warmed = profilers.warm_up(self.backend)
        self.first_start_ns = time.perf_counter_ns() - begun if warmed else None

    def start(self) -> None:
        """Begins; a second start is an error of the caller."""
        if self.state != "idle":
            raise RuntimeError(f"this recording is {self.state}; make another one")
        self._begun_ns, self._thread, self.steps = time.time_ns(), threading.local(), 0
        self._thread.recorded = True
        self.left_out = []
        self._backend = self.backend
        self._limits = self._its_limits()
        self.reached = self._limits.before()
        if self.reached is not None:
            self.state, self.reason = "failed", f"{self.reached}: the recording did not begin"
            with suppress(OSError):
                self._note()
            return
        self._profiler = profilers.make(
            self.backend, self.settings, self.directory, self._written, self.left_out, self.everywhere
        )
        self.state, self._started = "recording", True
        self._note()
        with self._ours():
            self._profiler.start()
        if self.settings.modules:
            self._modules.start()

    def step(self) -> None:
        """Says that a step of the job has ended."""
        if self.state != "recording" or not self._is_here():
            return
        self.steps += 1
        if self.steps < self.settings.steps and self._is_over_a_limit():
            self._end(f"{self.reached}: it ended after {self.steps} of {self.settings.steps} steps")
            return
        with self._ours():
            self._profiler.step()
        if self.steps >= self.settings.steps:
            self.stop()

    def stop(self) -> None:
        """Ends the recording; with fewer steps than wanted it keeps what there is and says so."""
        if self.state != "recording":
            return
        if self._is_here():
            self._end(f"the job ended after {self.steps} of {self.settings.steps} steps")
            return
        self._modules.stop()
        _KEPT.append(self._profiler)  # stopped from another thread it would take the process with it
        profilers.end_plainly(self.backend, False)  # and so would its destructors, where its thread has ended
        self.state, self._profiler = "failed", None
        self.reason = f"the recorded thread made {self.steps} of {self.settings.steps} steps before the job ended"
        self._note()

    def make_way(self) -> None:
        """Ends the recording because the job begins a profiler of its own; without a trace it may begin again later."""
        if self.state != "recording":
            return
        if not self._is_here():  # it cannot be stopped from here, and the job's own ends it anyway
            self._modules.stop()
            _KEPT.append(self._profiler)
            self.state, self._profiler = "aside", None
            self._note()
            return
        self._end(f"the job began a profiler of its own after {self.steps} of {self.settings.steps} steps")
        if self.state == "failed":
            self.state, self.reason = "idle", None
            self._note()

    def end(self) -> None:
        """The end of the job's process: stops, writes what was deferred, or says what kept this from recording."""
        self.stop()
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            try:
                with self._ours():
                    deferred.write_out()
            except (OSError, RuntimeError) as error:  # a full disk
                self.fail(error)
                return
        if self.own is None or not self.own.seen:
            return
        if self.state in ("idle", "aside"):
            self.state, self.reason = "aside", "the job's own profiler was on, and this one stood aside"
        self._note()

    def another(self) -> Recorder:
        """A second one of this process, as idle as this one was."""
        return Recorder(self.directory, self.settings, self.backend, self._session, self._since_ns)

    def withdraw(self) -> None:
        """Takes back what it has noted: another recorder of this process says what became of it."""
        self._notes.withdraw()

    def fail(self, error: BaseException) -> None:
        """Lets the job go on without a profiler, and says why."""
        self._modules.stop()
        self.state, self._profiler = "failed", None
        self.reason = traceback.format_exception_only(type(error), error)[-1].strip()
        with suppress(OSError):  # a full disk is what it may have failed of
            self._note()

    def _its_limits(self) -> Limits:
        wanted = self.settings
        in_memory = self.backend != "npu" or wanted.native
        return Limits(self.directory, wanted.max_disk, wanted.keep_free, in_memory, self._since_ns)

    def _is_over_a_limit(self) -> bool:
        """Looks at the end of a step; what this process holds is noted first, for those that look at the same time."""
        if self.steps <= self.settings.wait + self.settings.warmup:
            self._limits.recorded_from_here()
        if not self._limits.is_due():
            return False
        self._held = self._limits.held()
        if self._held is not None:
            self._note()
        self.reached = self._limits.look(notes.read(self.directory / notes.PLACE, self._since_ns))
        return self.reached is not None

    def _end(self, short: str) -> None:
        self._modules.stop()
        ending, self._profiler = self._profiler, None
        with self._ours():
            ending.stop()
        if self.settings.defer and self.backend != "npu":
            self._deferred = ending
        self.reason = None
        if self.steps < self.settings.steps:
            self.reason = short
        elif not self._wrote:
            self.reason = "the profiler ended without writing a trace"
        self.state = "failed" if not self._wrote else "cut_short" if self.reason else "written"
        self._note()

    def _is_here(self) -> bool:
        return self.everywhere or bool(getattr(self._thread, "recorded", False))

    def _ours(self) -> AbstractContextManager[None]:
        return self.own.ours() if self.own is not None else nullcontext()

    def _forked(self) -> None:
        """In a child that forked off. A recording that runs is its parent's: here it is neither stopped nor written."""
        self._notes.forget()
        if self._deferred is not None:  # its parent writes it
            _KEPT.append(self._deferred)
            self._deferred = None
        recording = self.state == "recording"
        if recording:
            self.state = "parents"
            self._modules.stop()
            _KEPT.append(self._profiler)  # its own destructor would write
        if self.own is not None:
            self.own.forget()
        if self._started:
            profilers.end_plainly(self.backend, recording and self._is_here())

    def _written(self) -> None:
        self._wrote = True

    def _note(self) -> None:
        self._rank = launchers.rank() if self._rank is None else self._rank
        said = {
            "pid": os.getpid(), "host": notes.host(), "session": self._session, "rank": self._rank, "state": self.state,
            "reason": self.reason, "steps": self.steps, "wanted": self.settings.steps, "backend": self.backend,
            "active": self.settings.active, "begun_ns": self._begun_ns or time.time_ns(), "left_out": self.left_out,
            "first_start_ns": self.first_start_ns, "own_profiler": bool(self.own and self.own.seen),
            "own_traces": self.own.traces[:_OWN_TRACES] if self.own else [],
            "held_bytes": self._held, "limit": None if self.reached is None else asdict(self.reached), **self.stepping,
        }  # fmt: skip
        self._notes.write(said)


@contextmanager
def recording(
    directory: str | os.PathLike[str], settings: Settings | None = None, backend: str | None = None
) -> Iterator[Callable[[], None]]:
    """A recording around a loop; yields what the loop calls after every step. Raises if nothing was recorded."""
    recorder = Recorder(directory, settings, backend or default_backend())
    recorder.start()
    try:
        yield recorder.step
    finally:
        recorder.end()
    if recorder.state == "failed":
        raise RuntimeError(f"nothing was recorded: {recorder.reason}")


def in_use() -> str:
    """What this process computes on; a device that it has not touched yet is not touched."""
    import torch

    npu = getattr(torch, "npu", None)
    if npu is not None and npu.is_initialized():
        return "npu"
    return "cuda" if torch.cuda.is_initialized() else "cpu"


def default_backend() -> str:
    """The backend of a process that runs already: what it has imported decides."""
    import sys

    import torch

    if "torch_npu" in sys.modules and torch.npu.is_available():
        return "npu"
    return "cuda" if torch.cuda.is_available() else "cpu"
