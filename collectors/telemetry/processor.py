"""The processor's clock, load, temperature and throttling, as Linux tells them below /proc and /sys.

Where a file is missing its value is None: a virtual machine hides clocks and counters, other systems have no /proc.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from npulens.collectors.backends.backend import Telemetry
from npulens.collectors.telemetry.machine import line, text

_CORE = "sys/devices/system/cpu/cpu{}"
#: Names that the thermal drivers of x86-64 and aarch64 give the sensor of the whole processor.
_SENSORS = ("x86_pkg_temp", "coretemp", "k10temp", "cpu-thermal", "cpu_thermal", "soc_thermal", "acpitz")


class Processor:
    """Reads the state; load and throttling are those since the reading before."""

    def __init__(self, root: Path = Path("/"), cores: Iterable[int] | None = None) -> None:
        self._root = root
        self._cores = sorted(our_cores() if cores is None else cores)
        self._ticks, self._throttles = self._busy_and_all(), self._throttle_counters()

    def telemetry(self) -> Telemetry:
        """The state now."""
        clocks = self._clocks()
        return Telemetry(
            clock_mhz=sum(clocks) / len(clocks) if clocks else None,
            rated_mhz=self._rated(),
            busy_share=self._busy_share(),
            temperature_c=self._temperature(),
            throttled_by=self._throttled_by(),
        )

    def cache_bytes(self) -> int | None:
        """The last cache before memory: every one that a core of ours can reach."""
        found: dict[tuple[int, str], int] = {}
        for core in self._cores:
            for index in self._root.glob(_CORE.format(core) + "/cache/index*"):
                level, kind, size = (line(index / name) for name in ("level", "type", "size"))
                if level and size and kind != "Instruction":
                    found[int(level), line(index / "shared_cpu_list") or str(core)] = _bytes(size)
        last = max((level for level, _ in found), default=None)
        return sum(size for (level, _), size in found.items() if level == last) or None

    def name(self) -> str | None:
        """What the processor calls itself."""
        return self._described("model name") or self._described("Hardware") or self._described("CPU part")

    def _clocks(self) -> list[float]:
        told = [line(self._root / _CORE.format(core) / "cpufreq/scaling_cur_freq") for core in self._cores]
        if any(told):
            return [int(khz) / 1000 for khz in told if khz]
        return [float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", self._cpuinfo(), re.MULTILINE)]

    def _rated(self) -> float | None:
        """The clock that every core holds at once. The highest one is for a single core, and no rating."""
        base = line(self._root / _CORE.format(self._cores[0]) / "cpufreq/base_frequency")
        if base:
            return int(base) / 1000
        named = re.search(r"@\s*([\d.]+)\s*GHz", self._described("model name") or "")
        return float(named[1]) * 1000 if named else None

    def _busy_share(self) -> float | None:
        before, self._ticks = self._ticks, self._busy_and_all()
        if before is None or self._ticks is None or self._ticks[1] == before[1]:
            return None
        return (self._ticks[0] - before[0]) / (self._ticks[1] - before[1])

    def _busy_and_all(self) -> tuple[int, int] | None:
        """Ticks of our cores since the start of the machine: at work, and altogether (proc(5))."""
        ours = {f"cpu{core}" for core in self._cores}
        rows = [row.split() for row in text(self._root / "proc/stat").splitlines()]
        counted = [[int(value) for value in row[1:9]] for row in rows if row and row[0] in ours]
        if not counted:
            return None
        everything = sum(map(sum, counted))
        return everything - sum(row[3] + row[4] for row in counted), everything  # idle and iowait

    def _temperature(self) -> float | None:
        for name in _SENSORS:
            for zone in sorted(self._root.glob("sys/class/thermal/thermal_zone*")):
                if line(zone / "type") == name and (value := line(zone / "temp")):
                    return int(value) / 1000
            for sensor in sorted(self._root.glob("sys/class/hwmon/hwmon*")):
                if line(sensor / "name") == name and (value := line(sensor / "temp1_input")):
                    return int(value) / 1000
        return None

    def _throttled_by(self) -> tuple[str, ...] | None:
        before, self._throttles = self._throttles, self._throttle_counters()
        if not self._throttles:
            return None
        return tuple(why for why, count in self._throttles.items() if count > before.get(why, 0))

    def _throttle_counters(self) -> dict[str, int]:
        """How often heat and the quota of the control group held our cores back."""
        counters: dict[str, int] = {}
        for core in self._cores:
            for why in ("core", "package"):
                told = line(self._root / _CORE.format(core) / f"thermal_throttle/{why}_throttle_count")
                if told:
                    counters[f"heat of the {why}"] = counters.get(f"heat of the {why}", 0) + int(told)
        for place in ("sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/cpu/cpu.stat"):
            held = re.search(r"^nr_throttled (\d+)", text(self._root / place), re.MULTILINE)
            if held:
                counters["quota of the control group"] = int(held[1])
        return counters

    def _described(self, key: str) -> str | None:
        found = re.search(rf"^{key}\s*:\s*(.+)$", self._cpuinfo(), re.MULTILINE)
        return found[1].strip() if found else None

    def _cpuinfo(self) -> str:
        return text(self._root / "proc/cpuinfo")


def our_cores() -> list[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _bytes(size: str) -> int:
    return int(size.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1], 1)
