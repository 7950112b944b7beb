"""The profiler of each backend behind one function: settings in, an object with start, step and stop out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from npulens.collectors.settings import Settings


def make(backend: str, settings: Settings, directory: Path, ready: Callable[[], None]) -> Any:
    """A profiler that writes into ``directory`` and calls ``ready`` when the recorded steps are on disk."""
    if backend == "npu":
        from npulens.collectors.profilers import torch_npu_profiler

        return torch_npu_profiler.make(settings, directory, ready)
    from npulens.collectors.profilers import torch_profiler

    return torch_profiler.make(backend, settings, directory, ready)
