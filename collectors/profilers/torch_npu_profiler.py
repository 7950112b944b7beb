"""torch_npu.profiler: one ``*_ascend_pt`` directory a process.

Its schedule takes its arguments in another order than torch's. Its default level switches the AI core counters off.
Without a handler the data stays raw in the current directory. Errors are printed, not raised. So every argument is
named, the handler is always given, and what it wrote is looked at afterwards (collectors/collected.py).

Its releases take different settings. Each of its functions is asked what it takes, and gets nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from npulens.collectors.profilers.asked import asked
from npulens.collectors.settings import Settings


def make(settings: Settings, directory: Path, ready: Callable[[], None], left_out: list[str]) -> Any:
    """The profiler; it records host and device. ``left_out`` gets what was asked for and this release cannot do."""
    if settings.native:
        return _native(settings, directory, ready)
    from torch_npu import profiler

    directory.mkdir(parents=True, exist_ok=True)
    analysed = not settings.defer
    handler = {"dir_name": str(directory), "analyse_flag": analysed, "async_mode": settings.asynchronous or None}
    # Releases without analyse_flag always analyse: nothing is lost but the time that it was to save.
    without = () if settings.defer else ("analyse_flag",)
    write = asked(profiler.tensorboard_trace_handler, handler, left_out, without=without)

    def handle(profile: Any) -> None:
        write(profile)
        ready()

    return profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
        schedule=profiler.schedule(
            wait=settings.wait, warmup=settings.warmup, active=settings.active, repeat=1, skip_first=0
        ),
        on_trace_ready=handle,
        record_shapes=settings.shapes,
        profile_memory=settings.memory,
        with_stack=settings.stacks,
        with_flops=settings.flops,
        with_modules=settings.modules,
        experimental_config=experimental(profiler, settings, left_out),
    )


def _native(settings: Settings, directory: Path, ready: Callable[[], None]) -> Any:
    """torch's own profiler: MSPTI delivers the kernels, and the trace is a Kineto one."""
    from torch.profiler import ProfilerActivity

    from npulens.collectors.profilers import torch_profiler

    if not hasattr(ProfilerActivity, "NPU"):
        raise RuntimeError("this torch_npu cannot record into torch's own profiler: that came with 2.12.0.post3")
    return torch_profiler.make("npu", settings, directory, ready)


def experimental(profiler: Any, settings: Settings, left_out: list[str]) -> Any:
    """torch_npu's own settings; counters of the AI core exist from Level1 on. None: left as the release has it."""
    counted = settings.level in ("Level1", "Level2")
    wanted = {
        "profiler_level": _member(profiler, "ProfilerLevel", settings.level, left_out),
        "aic_metrics": _member(profiler, "AiCMetrics", settings.metrics, left_out) if counted else _none(profiler),
        "l2_cache": settings.l2_cache or None,
        "mstx": settings.mstx or None,
        "mstx_domain_include": list(settings.mstx_only) or None,
        "mstx_domain_exclude": list(settings.mstx_without) or None,
        "op_attr": settings.op_attr or None,
        "data_simplification": settings.simplify,
        "gc_detect_threshold": settings.gc_threshold_ms,
        "export_type": _exports(profiler, settings, left_out),
        "host_sys": _members(profiler, "HostSystem", settings.host_system, left_out),
        "sys_io": settings.system_io or None,
        "sys_interconnection": settings.interconnection or None,
    }
    return asked(profiler._ExperimentalConfig, wanted, left_out)


def _member(profiler: Any, scope: str, name: str, left_out: list[str]) -> Any:
    """A level, a group of counters or a part of the host; None where this release has no such thing."""
    found = getattr(getattr(profiler, scope, None), name, None)
    if found is None:
        left_out.append(f"{scope}.{name}")
    return found


def _members(profiler: Any, scope: str, names: tuple[str, ...], left_out: list[str]) -> list[Any] | None:
    found = [_member(profiler, scope, name, left_out) for name in names]
    return [each for each in found if each is not None] or None


def _none(profiler: Any) -> Any:
    """No counters: before CANN 8.0.RC2 there was no word for it, and a level below 1 counts nothing anyway."""
    return getattr(profiler.AiCMetrics, "AiCoreNone", None)


def _exports(profiler: Any, settings: Settings, left_out: list[str]) -> Any:
    """What is written: a word, or a list of two. Until CANN 8.0 a list would quietly become text."""
    if getattr(profiler, "ExportType", None) is None:  # releases without a choice write text
        left_out.extend(f"ExportType.{kind.capitalize()}" for kind in settings.export if kind != "text")
        return None
    kinds = [getattr(profiler.ExportType, {"text": "Text", "db": "Db"}[kind]) for kind in settings.export]
    if len(kinds) > 1 and _takes_one(profiler._ExperimentalConfig, "export_type"):
        left_out.extend(f"ExportType.{kind.capitalize()}" for kind in settings.export[1:])
        return kinds[0]
    return kinds[0] if len(kinds) == 1 else kinds


def _takes_one(function: Callable[..., Any], name: str) -> bool:
    """Whether an argument is one word: its default is one, where later releases have None and take a list."""
    argument = inspect.signature(function).parameters.get(name)
    return argument is not None and isinstance(argument.default, str)
