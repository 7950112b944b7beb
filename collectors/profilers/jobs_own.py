"""A profiler that the job has itself. Two at a time spoil each other's traces, so whoever begins is told of."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class JobsOwn:
    """Hears when the job begins a profiler of its own and when that ends, and where its traces lie."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before  # called before the job's own begins
        self._ours = threading.local()
        self._open: set[int] = set()
        self.seen = False
        self.traces: list[str] = []

    @property
    def is_on(self) -> bool:
        """Whether one is recording now."""
        return bool(self._open)

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Within this what begins is our own profiler."""
        depth = getattr(self._ours, "depth", 0)
        self._ours.depth = depth + 1
        try:
            yield
        finally:
            self._ours.depth = depth

    def watch(self) -> None:
        """From now on in this process. torch.profiler begins and ends through these two functions, as does autograd."""
        from torch.autograd.profiler import profile
        from torch.profiler import profiler

        prepare, leave = profile._prepare_trace, profile.__exit__
        export = profiler._KinetoProfile.export_chrome_trace

        def begins(own: Any) -> Any:
            if not self._is_ours():
                self.seen = True
                self._before()
                self._open.add(id(own))
            return prepare(own)

        def ends(own: Any, kind: Any, error: Any, trace: Any) -> Any:
            try:
                return leave(own, kind, error, trace)
            finally:
                self._open.discard(id(own))

        def exported(own: Any, path: str) -> Any:
            found = export(own, path)
            if not self._is_ours():
                self.traces.append(os.path.abspath(path))
            return found

        setattr(profile, "_prepare_trace", begins)  # noqa: B010  a method that mypy knows is not assigned to
        setattr(profile, "__exit__", ends)  # noqa: B010
        setattr(profiler._KinetoProfile, "export_chrome_trace", exported)  # noqa: B010

    def forget(self) -> None:
        """In a child that forked off: what its parent records is not recorded there."""
        self._open.clear()
        self.seen = False
        self.traces = []

    def _is_ours(self) -> bool:
        return bool(getattr(self._ours, "depth", 0))
