"""torch_npu.profiler: one ``*_ascend_pt`` directory a process.

Its schedule takes its arguments in another order than torch's. Its default level switches the AI core counters off.
Without a handler the data stays raw in the current directory. Errors are printed, not raised. So every argument is
named, the handler is always given, and what it wrote is looked at afterwards (collectors/collected.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from npulens.collectors.settings import Settings


def make(settings: Settings, directory: Path, ready: Callable[[], None]) -> Any:
    """The profiler; it records host and device."""
    if settings.native:
        return _native(settings, directory, ready)
    from torch_npu import profiler

    directory.mkdir(parents=True, exist_ok=True)
    write = profiler.tensorboard_trace_handler(
        dir_name=str(directory), analyse_flag=True, async_mode=settings.asynchronous
    )

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
        experimental_config=experimental(profiler, settings),
    )


def _native(settings: Settings, directory: Path, ready: Callable[[], None]) -> Any:
    """torch's own profiler: MSPTI delivers the kernels, and the trace is a Kineto one."""
    from torch.profiler import ProfilerActivity

    from npulens.collectors.profilers import torch_profiler

    if not hasattr(ProfilerActivity, "NPU"):
        raise RuntimeError("this torch_npu cannot record into torch's own profiler: that came with 2.12.0.post3")
    return torch_profiler.make("npu", settings, directory, ready)


def experimental(profiler: Any, settings: Settings) -> Any:
    """torch_npu's own settings; counters of the AI core exist from Level1 on."""
    counted = settings.level in ("Level1", "Level2")
    return profiler._ExperimentalConfig(
        profiler_level=getattr(profiler.ProfilerLevel, settings.level),
        aic_metrics=getattr(profiler.AiCMetrics, settings.metrics if counted else "AiCoreNone"),
        l2_cache=settings.l2_cache,
        mstx=settings.mstx,
        mstx_domain_include=list(settings.mstx_only) or None,
        mstx_domain_exclude=list(settings.mstx_without) or None,
        op_attr=settings.op_attr,
        data_simplification=settings.simplify,
        gc_detect_threshold=settings.gc_threshold_ms,
        export_type=[getattr(profiler.ExportType, {"text": "Text", "db": "Db"}[kind]) for kind in settings.export],
        host_sys=[getattr(profiler.HostSystem, name) for name in settings.host_system],
        sys_io=settings.system_io,
        sys_interconnection=settings.interconnection,
    )
