"""What a measurement was made on: everything that may explain why tomorrow's is different."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Variables that change how fast a job runs; others are nobody's business.
_PREFIXES = (
    "ASCEND_", "HCCL_", "NCCL_", "CUDA_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "GLOO_", "TASK_QUEUE", "CPU_AFFINITY",
    "TRITON_", "ACL_", "INF_NAN_MODE", "COMBINED_ENABLE", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
)  # fmt: skip
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def environment(versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The machine and its settings; what cannot be read is None."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": dict(versions or {}),
        "cann": _cann(),
        "driver": _first_line("/usr/local/Ascend/driver/version.info") or _first_line("/proc/driver/nvidia/version"),
        "cpu": {
            "model": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "load": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None,
            "memory_limit": _memory_limit(),
        },
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_PREFIXES) and not any(word in name for word in _SECRET)
        },
        "commit": _commit(Path.cwd()),
        "argv0": Path(sys.argv[0]).name,
    }


def _cann() -> str | None:
    """The version of CANN that ASCEND_HOME_PATH names; searching for it elsewhere would find another one."""
    home = os.environ.get("ASCEND_HOME_PATH")
    if not home:
        return None
    for path in sorted(Path(home).glob("**/ascend_*_install.info"))[:1] + sorted(Path(home).glob("version.*"))[:1]:
        for line in path.read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip().lower() == "version":
                return value.strip()
    return None


def _cpu_model() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            return next((line.partition(":")[2].strip() for line in stream if line.startswith("model name")), None)
    except OSError:
        return platform.processor() or None


def _memory_limit() -> str | None:
    return _first_line("/sys/fs/cgroup/memory.max") or _first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes")


def _first_line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.readline().strip() or None
    except OSError:
        return None


def _commit(place: Path) -> str | None:
    """The commit of the code that was measured, with a + where files differ from it."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty=+"], cwd=place, capture_output=True, text=True,
            timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
