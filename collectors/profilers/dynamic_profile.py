"""A job that runs already: torch_npu begins a recording in it when a file appears.

The job was started with ``PROF_CONFIG_PATH=DIR`` or calls ``torch_npu.profiler.dynamic_profile.init(DIR)`` and
``step()``. It looks at ``DIR/profiler_config.json`` again and again and records when its time of change, in whole
seconds, is another one. Read from torch_npu/profiler/_dynamic_profiler of 2.1.0.post17 to 2.14.0.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from npulens.collectors.settings import Settings

NAME = "profiler_config.json"
AT_ONCE = -1  # as torch_npu says it: at the next step


def configuration(settings: Settings, directory: Path, ranks: tuple[int, ...] = ()) -> dict[str, Any]:
    """The settings in the words of that file; torch_npu leaves warm-up steps before the first to us."""
    counted = settings.level in ("Level1", "Level2")
    return {
        "activities": ["CPU", "NPU"],
        "prof_dir": str(directory.resolve()),
        "analyse": True,
        # With a list of ranks it analyses only in the background; otherwise it would leave the data raw.
        "async_mode": settings.asynchronous or bool(ranks),
        "start_step": AT_ONCE,
        "warmup": settings.warmup,
        "active": settings.active,
        "is_rank": bool(ranks),
        "rank_list": list(ranks),
        "record_shapes": settings.shapes,
        "profile_memory": settings.memory,
        "with_stack": settings.stacks,
        "with_flops": settings.flops,
        "with_modules": settings.modules,
        "experimental_config": {
            "profiler_level": settings.level,
            "aic_metrics": settings.metrics if counted else "AiCoreNone",
            "l2_cache": settings.l2_cache,
            "op_attr": settings.op_attr,
            "gc_detect_threshold": settings.gc_threshold_ms,
            "data_simplification": settings.simplify,
            "export_type": list(settings.export),
            "mstx": settings.mstx,
            "mstx_domain_include": list(settings.mstx_only) or None,
            "mstx_domain_exclude": list(settings.mstx_without) or None,
            "host_sys": [name.lower() for name in settings.host_system],
            "sys_io": settings.system_io,
            "sys_interconnection": settings.interconnection,
        },
    }


def begin(watched: Path, settings: Settings, directory: Path, ranks: tuple[int, ...] = ()) -> Path:
    """Puts the file where the job looks, whole and younger than the one before, so that the job sees a change."""
    if not watched.is_dir():
        raise FileNotFoundError(
            f"{watched} is no directory that a job watches: start it with PROF_CONFIG_PATH={watched}"
        )
    directory.mkdir(parents=True, exist_ok=True)
    path, half = watched / NAME, watched / f".{NAME}"
    before = int(path.stat().st_mtime) if path.exists() else 0
    half.write_text(json.dumps(configuration(settings, directory, ranks), indent=2), encoding="utf-8")
    moment = max(int(time.time()), before + 1)
    os.utime(half, (moment, moment))
    half.replace(path)
    return path
