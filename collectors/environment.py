"""What a measurement was made on: everything that may explain why tomorrow's is different."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npulens.collectors.telemetry import cann, machine, npu_smi
from npulens.collectors.telemetry.processor import Processor, our_cores
from npulens.collectors.telemetry.tool_answer import ask

#: Variables that change how fast a job runs; others are nobody's business.
_PREFIXES = (
    "ASCEND_", "HCCL_", "NCCL_", "CUDA_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "GLOO_", "TASK_QUEUE", "CPU_AFFINITY",
    "TRITON_", "ACL_", "INF_NAN_MODE", "COMBINED_ENABLE", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "PROF", "KINETO_",
)  # fmt: skip
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def environment(versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The machine and its settings; what cannot be read is None."""
    home = cann.home()
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": dict(versions or {}),
        "cann": cann.version(home) if home else None,
        "driver": cann.part(cann.DRIVER) or machine.line(Path("/proc/driver/nvidia/version")),
        "firmware": cann.part(cann.FIRMWARE),
        **devices(),
        "cpu": _cpu(),
        "container": machine.container(),
        "variables": variables(),
        "commit": _commit(Path.cwd()),
        "argv0": Path(sys.argv[0]).name,
    }


def devices() -> dict[str, Any]:
    """What npu-smi tells of every NPU: the chips, their clocks, who holds them and how they reach each other."""
    asked = ask(["npu-smi", "info"])
    if not asked.answered:
        return {"soc": None, "devices": None, "processes": None, "topology": None}
    told = npu_smi.info(asked.text)
    cards = {
        card: ask(["npu-smi", "info", "-t", "common", "-i", str(card)]).text for card in {c.npu for c in told.chips}
    }
    common = {card: npu_smi.chips(text) for card, text in cards.items()}
    return {
        "soc": ", ".join(sorted({chip.name for chip in told.chips})) or None,
        "devices": [{**asdict(chip), **_clocks(common[chip.npu].get(chip.chip, {}))} for chip in told.chips],
        "processes": [asdict(process) for process in told.processes],
        "topology": {
            name: asdict(near) for name, near in npu_smi.topology(ask(["npu-smi", "info", "-t", "topo"]).text).items()
        },
    }


def _clocks(block: Mapping[str, str]) -> dict[str, float | None]:
    told = dict(block)
    return {
        "clock_mhz": npu_smi.value(told, "Aicore curFreq(MHZ)"),
        "rated_mhz": npu_smi.value(told, "Aicore Freq(MHZ)"),
    }


def _cpu() -> dict[str, Any]:
    processor = Processor()
    told, memory = processor.telemetry(), machine.memory()
    return {
        "model": processor.name() or platform.processor() or None,
        "cores": len(our_cores()),
        "quota_cores": machine.core_quota(),
        "numa": machine.numa(),
        "governor": machine.governor(),
        "clock_mhz": told.clock_mhz,
        "rated_mhz": told.rated_mhz,
        "temperature_c": told.temperature_c,
        "load": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "memory_limit": machine.memory_limit(),
        "memory_available_bytes": memory[0] if memory else None,
        "memory_bytes": memory[1] if memory else None,
    }


def variables() -> dict[str, str]:
    """The environment variables that matter here, without anything that looks like a secret."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_PREFIXES) and not any(word in name for word in _SECRET)
    }


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
