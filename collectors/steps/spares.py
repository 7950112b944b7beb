"""Slices of time that nobody asked for: recorded where a job computes and nothing tells its steps.

They are a spare. Steps that show up later are recorded in their place, and then the files of the spare go away.
"""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

from npulens.collectors import profilers
from npulens.collectors.recorder import Recorder
from npulens.collectors.steps.slices import InMain

#: So long is a slice.
SLICE_NS = 200_000_000
#: A job has to compute so long without a sign of a step, until slices begin. A forward on a CPU is shorter; a job of
#: some seconds still gets its slices.
PATIENCE_S = 2.0
#: The same while modules exist and none has run: what loads their parameters will run them. A compiler may take long
#: too, so slices take over from a forward that stays away only after this time.
LOADING_S = 30.0
#: Later slices show a job that has settled: the next are due at so many times the age, and those before them go away.
LATER = 4
#: So many recordings of slices are kept one after the other, then there are no more.
MOST = 3
_TRACE = b'"cpu_op"'


def automatic() -> dict[str, object]:
    """What a recording says whose slices nobody asked for."""
    return {"automatic": True, "slice_ns": SLICE_NS}


class Spare:
    """One recording of slices, and the files that it left."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._files: list[Path] = []
        self._begun_ns = time.time_ns()
        recorder.stepping.update({"steps_by": "time", "every": 1, **automatic()})

    def record(self, drive: Callable[[Callable[[], None]], object], wanted: Callable[[], bool]) -> None:
        """Records until the slices are there or nobody wants them any more."""

        def begin() -> None:
            if wanted():
                self.recorder.start()

        drive(begin)
        spans: list[int] = []
        while self.recorder.state == "recording":
            resumed = time.perf_counter_ns()
            time.sleep(SLICE_NS / 1e9)
            spans.append(time.perf_counter_ns() - resumed)
            self.recorder.stepping["steps_ns"] = list(spans)
            drive(self.recorder.step if wanted() else self.recorder.make_way)
        self.look()

    def look(self) -> bool:
        """Whether it wrote a trace in which something of torch's ran; remembers its files."""
        self._files = self._files or list(self._found())
        return self.recorder.state in ("written", "cut_short") and any(map(_holds_work, self._files))

    def drop(self) -> None:
        """What it left goes away, as if it had never been."""
        self.recorder.withdraw()
        for path in self._files:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()
        self._files = []

    def _found(self) -> Iterator[Path]:
        """The traces of this process, known by their names, that are not older than this."""
        for name in (f"*_{os.getpid()}.*.pt.trace.json*", f"*_{os.getpid()}_*_ascend_pt"):
            for path in self.recorder.directory.glob(name):
                if path.stat().st_mtime_ns >= self._begun_ns and not path.name.startswith("."):
                    yield path


class Spares:
    """The spare of a process: the last one that was good for something."""

    def __init__(self, recorder: Recorder, turn: AbstractContextManager[object]) -> None:
        self._recorder, self._turn = recorder, turn  # whom they stand in for; who has the turn drives a profiler
        self._kept: Spare | None = None
        self._now: Spare | None = None
        self._over = False
        self.good = 0  # how many held work

    @property
    def is_recording(self) -> bool:
        return self._now is not None and self._now.recorder.state == "recording"

    def record(self, wanted: Callable[[], bool], guarded: Callable[[Callable[[], None], Recorder], None]) -> None:
        """Records slices. As soon as they are not wanted any more, nothing stays of them."""
        recorder = self._recorder.another()
        recorder.own, recorder.first_start_ns = self._recorder.own, self._recorder.first_start_ns
        recorder.everywhere = profilers.hears_all_threads(recorder.backend)
        if recorder.backend != "npu":
            recorder.settings = replace(recorder.settings, defer=False)  # or nobody could look into it

        def locked(action: Callable[[], None]) -> None:
            with self._turn:
                if not self._over:
                    guarded(action, recorder)

        def drive(action: Callable[[], None]) -> None:
            if recorder.everywhere:
                locked(action)
            else:
                InMain(lambda: locked(action))()

        self._now = Spare(recorder)
        self._now.record(drive, wanted)
        with self._turn:
            if not self._over:
                self._take(self._now, wanted())
                self._now = None

    def _take(self, fresh: Spare, wanted: bool) -> None:
        if not wanted or not fresh.look():
            fresh.drop()
            return
        if self._kept is not None:
            self._kept.drop()
        self._kept = fresh
        self.good += 1

    def make_way(self) -> None:
        """The job begins a profiler of its own."""
        if self._now is not None:
            self._now.recorder.make_way()

    def drop(self) -> None:
        """The job's own steps are recorded."""
        if self._kept is not None:
            self._kept.drop()
            self._kept = None

    def end(self, steps_recorded: bool) -> None:
        """The end of the process. What stands in for the recording says so, and what is not needed goes away."""
        self._over = True
        last, self._now = self._now, None
        if last is not None:
            last.recorder.end()
            if steps_recorded or self._kept is not None or not (last.look() or last.recorder.state == "failed"):
                last.drop()
            else:
                self._kept = last
        if steps_recorded:
            self.drop()
        elif self._kept is not None:
            self._recorder.withdraw()

    def forget(self, turn: AbstractContextManager[object]) -> None:
        """In a child that forked off: they are its parent's."""
        self._turn, self._kept, self._now = turn, None, None


def _holds_work(path: Path) -> bool:
    """Whether a trace holds an operator; a directory of torch_npu's is not looked into while the job runs."""
    if path.is_dir():
        return True
    rest = b""
    with gzip.open(path, "rb") as stream:
        while chunk := stream.read(1 << 20):
            if _TRACE in rest + chunk:
                return True
            rest = chunk[-len(_TRACE) :]
    return False
