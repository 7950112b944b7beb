"""The machine around the devices: memory, quotas, NUMA nodes, containers, and who else is at work."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path("/")


def memory(root: Path = ROOT) -> tuple[int, int] | None:
    """What is available and what there is, in bytes; a container's limit counts where it is lower."""
    told = {
        key: int(kib) * 1024
        for key, kib in re.findall(r"^(MemTotal|MemAvailable):\s*(\d+) kB", text(root / "proc/meminfo"), re.MULTILINE)
    }
    if len(told) != 2:
        return None
    available, total = told["MemAvailable"], told["MemTotal"]
    limit, used = _bytes(memory_limit(root)), _bytes(line(root / "sys/fs/cgroup/memory.current"))
    if limit is not None and limit < total:
        available, total = min(available, max(0, limit - (used or 0))), limit
    return available, total


def memory_limit(root: Path = ROOT) -> str | None:
    """Of the control group; ``max`` is none."""
    return line(root / "sys/fs/cgroup/memory.max") or line(root / "sys/fs/cgroup/memory/memory.limit_in_bytes")


def core_quota(root: Path = ROOT) -> float | None:
    """Cores' worth of time that the control group may use; None: as many as there are."""
    told = (line(root / "sys/fs/cgroup/cpu.max") or "").split()
    if len(told) == 2:
        return int(told[0]) / int(told[1]) if told[0].isdigit() else None
    quota, period = (line(root / f"sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
    return int(quota) / int(period) if quota and period and quota.isdigit() else None


def numa(root: Path = ROOT) -> dict[str, str]:
    """Node -> its cores."""
    places = sorted(root.glob("sys/devices/system/node/node[0-9]*"), key=lambda place: int(place.name[4:]))
    return {place.name: line(place / "cpulist") or "" for place in places}


def container(root: Path = ROOT) -> str | None:
    """What this process is shut in, if it is."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    found = re.search(r"kubepods|docker|containerd|lxc", text(root / "proc/1/cgroup"))
    return found[0] if found else None


def governor(root: Path = ROOT) -> str | None:
    """How the processor chooses its clock."""
    return line(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def load() -> float | None:
    """Processes that ran or waited for a core, on average of the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def line(path: Path) -> str | None:
    """The first line of a file; None where there is none or it may not be read."""
    return next(iter(text(path).splitlines()), "").strip() or None


def text(path: Path) -> str:
    """A file that may be missing."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _bytes(told: str | None) -> int | None:
    return int(told) if told and told.isdigit() else None
