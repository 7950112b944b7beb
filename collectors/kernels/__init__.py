"""Fused kernels in Triton: one source for CUDA (triton), Ascend (triton-ascend) and the CPU's interpreter.

What keeps them portable: sums in float32, masks instead of reads beyond the end, exp instead of library functions. Also
blocks that are powers of two, no reliance on warps, and no more than 65,535 programs an axis.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from npulens.collectors.workloads.workload import NotHere

INTERPRET = "TRITON_INTERPRET"
#: The most programs of one launch: an axis of an NPU has no more.
PROGRAMS = 65_535


def load(name: str, device: str) -> Any:
    """The module of kernels of that name, if they can run on the device."""
    if importlib.util.find_spec("triton") is None:
        raise NotHere("triton is not installed: pip install triton (NVIDIA, AMD, CPU) or triton-ascend (NPU)")
    interpreted = os.environ.get(INTERPRET) == "1"
    if device == "cpu" and not interpreted:
        raise NotHere(f"on a CPU triton only interprets, for correctness: set {INTERPRET}=1")
    if device != "cpu" and interpreted:
        raise NotHere(f"{INTERPRET}=1 is set: nothing would run on the device; unset it")
    if device.startswith("mps"):
        raise NotHere("triton has no Apple GPU")
    return importlib.import_module(f"{__name__}.{name}")


def widen(tensor: Any) -> bool:
    """Whether factors are made float32 before a product: the interpreter's tl.dot takes bfloat16 for its bits."""
    return os.environ.get(INTERPRET) == "1" and tensor.element_size() == 2 and "bfloat16" in str(tensor.dtype)
