"""What the workloads share: the numbers they work on, and what must be there to run them one way or another."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from npulens.collectors.workloads.workload import NotHere


class Numbers:
    """Random tensors of one seed: drawn on the CPU in float64, then converted, so that every variant gets the same."""

    def __init__(self, seed: int, dtype: str, device: str) -> None:
        import torch

        self.torch, self.device = torch, device
        self.dtype = getattr(torch, dtype)
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *sizes: int, scale: float = 1.0) -> Any:
        drawn = self.torch.randn(sizes, generator=self._generator, dtype=self.torch.float64)
        return self.given(drawn * scale)

    def between(self, low: float, high: float, *sizes: int) -> Any:
        drawn = self.torch.rand(sizes, generator=self._generator, dtype=self.torch.float64)
        return self.given(drawn * (high - low) + low)

    def integers(self, below: int, *sizes: int) -> Any:
        return self.torch.randint(below, sizes, generator=self._generator).to(self.device)

    def chosen(self, weights: Any, *sizes: int) -> Any:
        """Indices into ``weights``, each as often as its weight says."""
        count = 1
        for size in sizes:
            count *= size
        drawn = self.torch.multinomial(weights, count, replacement=True, generator=self._generator)
        return drawn.reshape(sizes).to(self.device)

    def given(self, tensor: Any) -> Any:
        return tensor.to(self.dtype).to(self.device)


def item_bytes(dtype: str) -> int:
    """Of one number of that type."""
    return {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}[dtype]


def kind(device: str) -> str:
    """cuda:0 is cuda."""
    return device.partition(":")[0]


def without_gradients(step: Callable[[], Any]) -> Callable[[], Any]:
    """A step of inference: nothing is kept for a backward pass."""
    import torch

    def quiet() -> Any:
        with torch.no_grad():
            return step()

    return quiet


def compiled(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """The function through ``torch.compile``: inductor, on an NPU torchair. The first call compiles."""
    import torch

    if not hasattr(torch, "compile"):
        raise NotHere("torch.compile came with torch 2.0")
    if kind(device) == "npu":
        try:
            import torchair

            backend = torchair.get_npu_backend()  # torch_npu imports it only now, and what it needs with it
        except ImportError as error:
            why = str(error).partition("\n")[0]
            raise NotHere(f"torch.compile needs torchair on an NPU, and it cannot be imported: {why}") from error
        compiled: Callable[..., Any] = torch.compile(function, dynamic=False, backend=backend)
        return compiled
    if kind(device) == "mps":
        raise NotHere("torch.compile is not measured on an Apple GPU")
    if kind(device) == "cpu":
        compiler = os.environ.get("CXX", "g++")
        if not (shutil.which(compiler) or shutil.which("clang++")):
            raise NotHere("torch.compile needs a C++ compiler on a CPU: install g++, or name one in CXX")
        if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
            raise NotHere("torch.compile needs Python.h on a CPU: install the headers of this Python (python3-dev)")
    made: Callable[..., Any] = torch.compile(function, dynamic=False)
    return made
