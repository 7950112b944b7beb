"""The profiler of each backend behind one function: settings in, an object with start, step and stop out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from npulens.collectors.settings import Settings


def make(
    backend: str, settings: Settings, directory: Path, ready: Callable[[], None], left_out: list[str],
    everywhere: bool = False,
) -> Any:  # fmt: skip
    """A profiler that writes into ``directory`` and calls ``ready`` when the recorded steps are on disk.

    ``left_out`` gets the settings that were asked for and that the installed release does not have. ``everywhere``:
    the operators of all threads are recorded, and any thread may drive it, where ``hears_all_threads`` says so.
    """
    if backend == "npu":
        from npulens.collectors.profilers import torch_npu_profiler

        return torch_npu_profiler.make(settings, directory, ready, left_out)
    from npulens.collectors.profilers import torch_profiler

    return torch_profiler.make(backend, settings, directory, ready, everywhere)


def hears_all_threads(backend: str) -> bool:
    """Whether the profiler can record other threads than the one that starts it."""
    if backend == "npu":
        return False
    from npulens.collectors.profilers import torch_profiler

    return torch_profiler.hears_all_threads()


def device_is_on(backend: str) -> bool:
    """Whether the job has begun to use its device: before that nobody else may, or it could not fork any more."""
    import torch

    device = getattr(torch, backend, None) if backend in ("npu", "cuda") else None
    return backend not in ("npu", "cuda") or (device is not None and bool(device.is_initialized()))


def warm_up(backend: str) -> bool:
    """Starts and stops the profiler once, whose first start takes long; False where that is left alone.

    A device that the job has not touched is not touched either: a job may still fork. What the first start of
    torch_npu's profiler costs was never measured.
    """
    if backend == "npu":
        return False
    from npulens.collectors.profilers import torch_profiler

    torch_profiler.warm_up(backend)
    return True


def end_plainly(backend: str, recording: bool) -> None:
    """Where the profiler's threads are gone: in a child that forked off, or when the recorded thread has ended.

    ``recording``: this thread is the recorded one, and stops being it.
    """
    if backend != "npu":
        from npulens.collectors.profilers import torch_profiler

        torch_profiler.end_plainly(recording)
