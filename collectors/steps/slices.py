"""Slices of time as steps, for a job that has no others: a thread of ours keeps the time.

A profiler that hears one thread only must be driven from that one. Then the interpreter is asked to call us in the main
thread at its next chance, as it does for signals. One that hears all threads is driven from ours.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable

_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
#: Programs that start ranks and compute nothing themselves.
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_TICK_S = 0.01
#: What the interpreter was asked to call stays, until long after it has been called.
_ASKED: list[InMain] = []


class InMain:
    """Calls an action in the main thread, as soon as that runs Python."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._told = _CALL(self._call)
        self._called = threading.Event()

    def __call__(self, patience_s: float | None = None) -> bool:
        """Whether it has been called: a long call of the main thread delays it."""
        self._called.clear()
        _ASKED.append(self)
        if ctypes.pythonapi.Py_AddPendingCall(self._told, None) != 0:  # too many wait already
            return False
        return self._called.wait(patience_s)

    def _call(self, _: object) -> int:
        try:
            self._action()
        finally:
            self._called.set()
        return 0


class Slices:
    """Calls ``step`` again and again, as long as it is wanted."""

    def __init__(self, every_ns: int, step: Callable[[], object], wanted: Callable[[], bool]) -> None:
        self._every_s, self._step, self._wanted = every_ns / 1e9, step, wanted

    def start(self) -> None:
        """Begins with the first slice once torch is imported."""
        apart(self._begin)

    def run(self) -> None:
        """Keeps the time in this thread."""
        while self._wanted():
            self._step()
            time.sleep(self._every_s)

    def _begin(self) -> None:
        wait_for_torch()
        if not helper():
            self.run()


def apart(action: Callable[[], None]) -> None:
    """Runs an action in a thread that the job finds in no list of its threads, and that keeps nobody from ending."""
    _thread.start_new_thread(action, ())


def wait_for_torch() -> None:
    """Until torch is imported."""
    while getattr(sys.modules.get("torch"), "__spec__", None) is None or _importing():
        time.sleep(_TICK_S)


def _importing() -> bool:
    return bool(getattr(sys.modules["torch"].__spec__, "_initializing", False))


def helper() -> bool:
    """Whether this process starts others, loads data or compiles, and so has nothing to record."""
    program = sys.argv[0] if sys.argv else ""
    started = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", "") or ""
    if os.path.basename(program) in _LAUNCHERS or started.startswith("torch.") or _within_torch(program):
        return True
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _within_torch(program: str) -> bool:
    """Whether a program is a file of torch's own: its compiler starts workers that way."""
    home = getattr(sys.modules.get("torch"), "__file__", None)
    return home is not None and os.path.abspath(program).startswith(os.path.dirname(home) + os.sep)
