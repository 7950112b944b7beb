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

import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npulens.collectors import profilers
from npulens.collectors.settings import Settings

#: One small file a process, beside what its profiler wrote: what it did, for whoever started it.
NOTES = ".recordings"


class Recorder:
    """Starts a profiler, passes steps on to it and stops it once."""

    def __init__(
        self, directory: str | os.PathLike[str], settings: Settings | None = None, backend: str = "cpu"
    ) -> None:
        self.directory, self.settings, self.backend = Path(directory), settings or Settings(), backend
        self.steps = 0
        self.state = "idle"  # idle, recording, written, cut_short, failed
        self.reason: str | None = None
        self.stepping: dict[str, object] = {}  # what whoever finds the steps says of them
        self._profiler: Any = None
        self._wrote = False
        self._begun_ns = 0

    def start(self) -> None:
        """Begins; a second start is an error of the caller."""
        if self.state != "idle":
            raise RuntimeError(f"this recording is {self.state}; make another one")
        self._begun_ns = time.time_ns()
        self._profiler = profilers.make(self.backend, self.settings, self.directory, self._written)
        self._profiler.start()
        self.state = "recording"
        self._note()

    def step(self) -> None:
        """Says that a step of the job has ended."""
        if self.state != "recording":
            return
        self.steps += 1
        self._profiler.step()
        if self.steps >= self.settings.steps:
            self.stop()

    def stop(self) -> None:
        """Ends the recording; with fewer steps than wanted it keeps what there is and says so."""
        if self.state != "recording":
            return
        ending, self._profiler = self._profiler, None
        ending.stop()
        if self.steps < self.settings.steps:
            self.reason = f"the job ended after {self.steps} of {self.settings.steps} steps"
        elif not self._wrote:
            self.reason = "the profiler ended without writing a trace"
        self.state = "failed" if not self._wrote else "cut_short" if self.reason else "written"
        self._note()

    def fail(self, error: BaseException) -> None:
        """Lets the job go on without a profiler, and says why."""
        self.state, self._profiler = "failed", None
        self.reason = traceback.format_exception_only(type(error), error)[-1].strip()
        self._note()

    def _written(self) -> None:
        self._wrote = True

    def _note(self) -> None:
        place = self.directory / NOTES
        place.mkdir(parents=True, exist_ok=True)
        rank = os.environ.get("RANK", "")
        said = {
            "pid": os.getpid(), "rank": int(rank) if rank.isdecimal() else None, "state": self.state,
            "reason": self.reason, "steps": self.steps, "wanted": self.settings.steps, "backend": self.backend,
            "begun_ns": self._begun_ns, **self.stepping,
        }  # fmt: skip
        half = place / f".{os.getpid()}.json"
        half.write_text(json.dumps(said), encoding="utf-8")
        half.replace(place / f"{os.getpid()}.json")


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
        recorder.stop()
    if recorder.state == "failed":
        raise RuntimeError(f"nothing was recorded: {recorder.reason}")


def default_backend() -> str:
    """The backend of a process that runs already: what it has imported decides."""
    import sys

    import torch

    if "torch_npu" in sys.modules and torch.npu.is_available():
        return "npu"
    return "cuda" if torch.cuda.is_available() else "cpu"
