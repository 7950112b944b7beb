"""An Ascend NPU, as torch_npu drives it through ``torch.npu``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from npulens.collectors.backends._queued import Queued
from npulens.collectors.backends.backend import Telemetry
from npulens.collectors.telemetry import npu_smi
from npulens.collectors.telemetry.tool_answer import ask

#: What a device says of itself, by its name in torch_npu; a release that lacks one says nothing.
_PROPERTIES = {
    "name": "name", "memory_bytes": "total_memory", "cube_cores": "cube_core_num", "vector_cores": "vector_core_num",
    "cache_bytes": "L2_cache_size",
}  # fmt: skip


class Npu(Queued):
    """Marks are NPU events."""

    def properties(self) -> Mapping[str, Any]:
        """HF32 is read live: convolutions use it by default, and it decides how exact float32 is."""
        told = self.module.get_device_properties(self.module.current_device())
        found = {ours: getattr(told, theirs, None) for ours, theirs in _PROPERTIES.items()}
        return {
            **found,
            "conv_hf32": self.module.conv.allow_hf32,
            "matmul_hf32": self.module.matmul.allow_hf32,
            "short_products": bool(self.module.conv.allow_hf32 or self.module.matmul.allow_hf32),
            "task_queue": os.environ.get("TASK_QUEUE_ENABLE"),
        }

    def telemetry(self) -> Telemetry:
        """From npu-smi, which takes seconds. It names no cause of a low clock: clock and rating stand side by side."""
        card, chip = self._place()
        block = npu_smi.chips(ask(["npu-smi", "info", "-t", "common", "-i", str(card)]).text).get(chip, {})
        busy = npu_smi.value(block, "Aicore Usage Rate(%)", "NPU Utilization(%)")
        return Telemetry(
            clock_mhz=npu_smi.value(block, "Aicore curFreq(MHZ)"),
            rated_mhz=npu_smi.value(block, "Aicore Freq(MHZ)"),
            busy_share=None if busy is None else busy / 100,
            temperature_c=npu_smi.value(block, "Temperature(C)", "NPU Temperature (C)"),
            power_w=npu_smi.value(block, "NPU Real-time Power(W)", "Power Dissipation(W)"),
        )

    def _place(self) -> tuple[int, int]:
        """Card and chip, as npu-smi counts them: torch counts the devices that are visible."""
        index = int(self.module.current_device())
        visible = [each.strip() for each in os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "").split(",")]
        if index < len(visible) and visible[index].isdigit():
            index = int(visible[index])
        return npu_smi.logical(ask(["npu-smi", "info", "-m"]).text).get(index, (index, 0))


def make() -> Npu:
    """The current NPU of this process."""
    import torch
    import torch_npu  # noqa: F401  registers torch.npu

    return Npu("npu", torch.npu)
