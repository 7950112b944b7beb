"""torch.profiler for CUDA, ROCm and the CPU: one Kineto trace a process."""

from __future__ import annotations

import ctypes
import gc
import gzip
import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from npulens.collectors.environment import variables
from npulens.collectors.settings import Settings

#: Gloo's threads, as Linux names them. They wake who waits for a collective first and end its record after that.
_GLOO = b"(pt_gloo_runloop) R"
_PATIENCE_S = 0.2
#: Of gzip: 31 MB become 2.5 in 0.1 s; at 9 they become 1.7 in 1.0 s.
_FAST = 3


def make(backend: str, settings: Settings, directory: Path, ready: Callable[[], None], everywhere: bool = False) -> Any:
    """The profiler; Apple GPUs have none, so theirs records the host."""
    from torch import profiler

    activities = [profiler.ProfilerActivity.CPU]
    if backend == "cuda":
        activities.append(profiler.ProfilerActivity.CUDA)
    elif backend == "npu":
        activities.append(getattr(profiler.ProfilerActivity, "NPU"))  # noqa: B009  torch itself knows no such name

    def recorded(profile: Any) -> None:
        if settings.defer:
            made.kept = profile
        else:
            write(profile)
        ready()

    def write(profile: Any) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        final = directory / trace_name()
        # Under a name of its own until it is whole: whoever watches the directory never meets half a trace.
        half = final.with_name("." + final.name)
        try:
            _pack(profile, half)
            half.replace(final)
        finally:
            half.unlink(missing_ok=True)  # a full disk leaves no half of a trace either

    profile = profiler.profile(
        activities=activities,
        schedule=_schedule(settings),
        on_trace_ready=recorded,
        record_shapes=settings.shapes,
        profile_memory=settings.memory,
        with_stack=settings.stacks,
        with_flops=settings.flops,
        experimental_config=_all_threads() if everywhere else None,
    )
    if hasattr(profile, "preset_metadata_json"):  # not in the oldest releases of torch
        profile.preset_metadata_json("environment", json.dumps(variables()))
        profile.preset_metadata_json("python_gc", "true")
    made = _WithCollections(profile, write)
    return made


def _schedule(settings: Settings) -> Callable[[int], Any]:
    """Which steps are recorded. It is asked between the end of a step and the stop that follows the last of them."""
    from torch import profiler

    planned = profiler.schedule(wait=settings.wait, warmup=settings.warmup, active=settings.active, repeat=1)

    def action(step: int) -> Any:
        if step == settings.steps:
            _let_gloo_end()
        return planned(step)

    return action


def _let_gloo_end() -> None:
    """Waits until no thread of Gloo runs.

    One that runs may have a record open. torch's stop gives that record an end of its own and frees its memory, and
    the thread then writes the true end there: now and then that ends the job.
    """
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and _gloo_runs():
        time.sleep(0.0005)


def _gloo_runs() -> bool:
    for each in Path("/proc/self/task").glob("*/stat"):
        with suppress(OSError):  # it has ended
            if _GLOO in each.read_bytes():
                return True
    return False


def _pack(profile: Any, place: Path) -> None:
    """The trace, packed. The job waits meanwhile, and torch's own packing takes ten times as long for a third less."""
    with tempfile.TemporaryDirectory(prefix="npulens-") as scratch:
        trace = Path(scratch) / "trace.json"
        profile.export_chrome_trace(str(trace))
        with trace.open("rb") as whole, gzip.open(place, "wb", compresslevel=_FAST) as packed:
            shutil.copyfileobj(whole, packed, 1 << 20)


class _WithCollections:
    """The profiler, and each garbage collection as a span of its own: no setting records them without Python stacks."""

    def __init__(self, profile: Any, write: Callable[[Any], None]) -> None:
        self._profile, self._write = profile, write
        self._open: list[Any] = []
        self.kept: Any = None  # what was recorded and is written at the end of the job

    def write_out(self) -> None:
        """Writes what was deferred."""
        kept, self.kept = self.kept, None
        if kept is not None:
            self._write(kept)

    def start(self) -> None:
        self._profile.start()
        gc.callbacks.append(self._collected)

    def step(self) -> None:
        self._profile.step()

    def stop(self) -> None:
        if self._collected in gc.callbacks:  # the job may have emptied the list
            gc.callbacks.remove(self._collected)
        _let_gloo_end()
        self._profile.stop()

    def _collected(self, phase: str, _: object) -> None:
        import torch

        if phase == "start":
            span = torch.autograd.profiler.record_function("Python GC")
            self._open.append(span)
            span.__enter__()
        elif self._open:
            self._open.pop().__exit__(None, None, None)


def hears_all_threads() -> bool:
    """Whether this torch can record other threads than the one that starts it."""
    try:
        _all_threads()
    except (AttributeError, TypeError):
        return False
    return True


def _all_threads() -> Any:
    import torch

    return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)


def warm_up(backend: str) -> None:
    """Starts and stops a profiler around nothing."""
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU]
    if backend == "cuda" and torch.cuda.is_initialized():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    profile = torch.profiler.profile(activities=activities)
    profile.start()
    profile.stop()


def end_plainly(recording: bool) -> None:
    """Lets a process end without the profiler that it cannot stop: in a child that forked off, or without its thread.

    The child lacks Kineto's thread, and a destructor of Kineto's would wait for it for ever. So once Python has ended
    and C has written its buffers, the child ends without destructors. ``on_exit`` is glibc's.
    """
    import torch

    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # what is registered last comes first
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
        libc.__cxa_atexit(ctypes.cast(libc.fflush, ctypes.c_void_p), None, None)
    if recording:
        torch._C._autograd._disable_profiler()


def trace_name() -> str:
    """As torch's own handler names them: host, process and time; the rank stands inside."""
    return f"{socket.gethostname()}_{os.getpid()}.{time.time_ns() // 1_000_000}.pt.trace.json.gz"
