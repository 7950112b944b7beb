"""An NVIDIA or AMD GPU, as torch.cuda drives it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from npulens.collectors.backends._queued import Queued
from npulens.collectors.backends.backend import Telemetry
from npulens.collectors.telemetry import nvidia_smi


class Cuda(Queued):
    """Marks are CUDA events."""

    def properties(self) -> Mapping[str, Any]:
        import torch

        precision, conv_tf32 = torch.get_float32_matmul_precision(), bool(torch.backends.cudnn.allow_tf32)
        told = self.module.get_device_properties(self.module.current_device())
        return {
            "name": told.name,
            "cores": told.multi_processor_count,
            "memory_bytes": told.total_memory,
            "cache_bytes": self.cache_bytes(),
            "capability": f"{told.major}.{told.minor}",
            "matmul_precision": precision,
            "conv_tf32": conv_tf32,
            "short_products": conv_tf32 or precision != "highest",
        }

    def telemetry(self) -> Telemetry:
        """ROCm is not asked: its tool names its values anew in every release."""
        import torch

        return Telemetry() if torch.version.hip else nvidia_smi.telemetry(self._number())

    def _number(self) -> str:
        """What nvidia-smi calls it: it counts the devices of the machine, torch those that are visible."""
        index = int(self.module.current_device())
        uuid = getattr(self.module.get_device_properties(index), "uuid", None)
        if uuid is not None:
            return f"GPU-{uuid}"
        visible = [each.strip() for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
        return visible[index] if index < len(visible) else str(index)


def make() -> Cuda:
    """The current GPU of this process."""
    import torch

    return Cuda("cuda", torch.cuda)
