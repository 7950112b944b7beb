"""The clock, load and heat of an NVIDIA GPU, as ``nvidia-smi`` tells them."""

from __future__ import annotations

import csv

from npulens.collectors.backends.backend import Telemetry
from npulens.collectors.telemetry.tool_answer import ask

_FIELDS = ("clocks.sm", "clocks.max.sm", "utilization.gpu", "temperature.gpu", "power.draw")
#: The last field was renamed with driver 535; the old name went away later.
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
#: nvml.h, nvmlClocksEventReasons: those that hold a busy clock down. An idle one is slow by choice (bit 0).
_HELD_BY = {
    0x2: "applications clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip


def telemetry(device: str) -> Telemetry:
    """Of one GPU, by its index or UUID; nothing where the tool does not answer."""
    for reasons in _REASONS:
        query = ",".join((*_FIELDS, reasons))
        asked = ask(["nvidia-smi", "-i", device, f"--query-gpu={query}", "--format=csv,noheader,nounits"])
        if asked.answered:
            return parsed(asked.text)
    return Telemetry()


def parsed(text: str) -> Telemetry:
    """One line of comma separated values; ``[N/A]`` and ``[Not Supported]`` are not told."""
    row = next((row for row in csv.reader(text.splitlines(), skipinitialspace=True) if len(row) == 6), None)
    if row is None:
        return Telemetry()
    clock, rated, busy, heat, power = (_number(cell) for cell in row[:5])
    try:
        bits = int(row[5], 16)
    except ValueError:
        held = None
    else:
        held = tuple(why for bit, why in _HELD_BY.items() if bits & bit)
    return Telemetry(clock, rated, None if busy is None else busy / 100, heat, power, held)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
