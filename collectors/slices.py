"""Slices of time as steps, for a job that has no others: the clock ends them, and the main thread is told.

A profiler must be driven from the thread that works. So a thread of ours only keeps the time, and asks the interpreter
to call us in the main thread at its next chance, as it does for signals.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable

_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
#: Programs that start ranks and compute nothing themselves.
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")


class Slices:
    """Calls ``step`` in the main thread again and again, as long as it is wanted."""

    def __init__(self, every_ns: int, step: Callable[[], None], wanted: Callable[[], bool]) -> None:
        self._every_s, self._step, self._wanted = every_ns / 1e9, step, wanted
        self._told = _CALL(self._call)  # kept: the interpreter calls it later
        self._called = threading.Event()

    def start(self) -> None:
        """Begins with the first slice once torch is imported."""
        threading.Thread(target=self._keep_time, name="npulens slices", daemon=True).start()

    def _keep_time(self) -> None:
        while getattr(sys.modules.get("torch"), "__spec__", None) is None or _importing():
            time.sleep(0.01)
        while self._wanted() and not helper():
            self._called.clear()
            if ctypes.pythonapi.Py_AddPendingCall(self._told, None) == 0:  # otherwise too many wait already
                self._called.wait()  # a long call of the main thread delays the end of a slice
            time.sleep(self._every_s)

    def _call(self, _: object) -> int:
        self._step()
        self._called.set()
        return 0


def _importing() -> bool:
    return bool(getattr(sys.modules["torch"].__spec__, "_initializing", False))


def helper() -> bool:
    """Whether this process starts others or loads data, and so has nothing to record."""
    program = os.path.basename(sys.argv[0] if sys.argv else "")
    started = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", "") or ""
    if program in _LAUNCHERS or started.startswith(("torch.distributed.run", "torch.distributed.launch")):
        return True
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
