"""How a training goes: loss, norm of the gradients, scale of the loss, and steps that a scaler left out.

One line of JSON for each step of an optimiser, beside the traces, from the first step to the last. What a step says is
read from the device at once: one synchronisation a step. Nothing of it happens unless somebody asks for it.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

from npulens.collectors.notes import name
from npulens.collectors.overheard import Overheard

#: The first word of the first line, and the version of the lines.
HEAD, VERSION = "npulens_training", 1
_PROBLEMS = (RuntimeError, OSError, ValueError, TypeError, AttributeError, KeyError)


class Training:
    """Listens to backwards, optimisers and scalers of this process, and writes what they did."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._file = directory, None  # type: Path, Any
        self._loss: Any = None
        self._scale: Any = None
        self._stepped = self._over = False
        self._optimizers: dict[int, int] = {}
        self._steps: dict[int, int] = {}
        self._heard: list[Overheard] = []

    def watch(self, optimizer: Any) -> None:
        """``optimizer``: the module torch.optim.optimizer."""
        import torch

        optimizer.register_optimizer_step_pre_hook(self._before_step)
        self._heard.append(Overheard(torch.autograd, "backward", self._backward, [0]))
        amp = getattr(torch, "amp", None)
        scaler = getattr(amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        self._heard.append(Overheard(scaler, "scale", self._scaled, [0]))
        self._heard.append(Overheard(scaler, "update", self._updated, [0]))

    def _backward(self, tensors: Any) -> None:
        one = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        if not self._over and getattr(one, "numel", lambda: 0)() == 1:
            self._loss = one.detach()

    def _scaled(self, scaler: Any) -> None:
        """What goes backwards next is multiplied by this scale, which ``update`` may change."""
        scale = getattr(scaler, "_scale", None) if scaler.is_enabled() else None
        self._scale = None if scale is None else scale.clone()

    def _before_step(self, optimizer: Any, *_: object) -> None:
        if not _cannot_read():
            self._stepped = True
            self._guarded(optimizer, False)

    def _updated(self, scaler: Any) -> None:
        """A scaler goes on; where no optimiser has stepped before that, the step was left out."""
        if not self._stepped and scaler.is_enabled() and not _cannot_read():
            self._guarded(None, True)
        self._stepped = False

    def _guarded(self, optimizer: Any, left_out: bool) -> None:
        if self._over:
            return
        try:
            self._write(optimizer, left_out)
        except _PROBLEMS as error:
            self._over = True
            for each in self._heard:
                each.stop()
            sys.stderr.write(f"npulens: the training is not watched any more: {type(error).__name__}: {error}\n")

    def _write(self, optimizer: Any, left_out: bool) -> None:
        import torch

        told: dict[str, Any] = {}
        if self._loss is not None:
            told["loss"] = self._loss.float().reshape(())
        gradients = [] if optimizer is None else _gradients(optimizer)
        if gradients:
            device = gradients[0].device
            norms = [torch.linalg.vector_norm(each, dtype=torch.float32).to(device) for each in gradients]
            told["norm"] = torch.linalg.vector_norm(torch.stack(norms))
            if (scale := getattr(optimizer, "grad_scale", None)) is not None:
                told["norm"] /= scale.to(device).reshape(())  # a fused step takes the scale off by itself
        if self._scale is not None:
            told["scale"] = self._scale.reshape(())
        if (found := getattr(optimizer, "found_inf", None)) is not None:
            told["left_out"] = found.float().reshape(())  # and leaves itself out
        device = next((each.device for each in told.values()), None)
        values = torch.stack([each.to(device) for each in told.values()]).tolist() if told else []
        said = dict(zip(told, values))
        left_out = left_out or said.pop("left_out", 0.0) > 0
        if said.get("scale") and "loss" in said:
            said["loss"] /= said["scale"]  # what went backwards was the scaled one
        number = self._optimizers.setdefault(id(optimizer), len(self._optimizers)) if optimizer is not None else 0
        self._steps[number] = step = self._steps.get(number, 0) + 1
        finite = {key: value if math.isfinite(value) else None for key, value in said.items()}
        self._line({"step": step, "optimizer": number, "ts_ns": time.time_ns(), **finite, "left_out": int(left_out),
                    "not_finite": int(any(value is None for value in finite.values()))})  # fmt: skip
        self._loss = None

    def _line(self, said: dict[str, Any]) -> None:
        if self._file is None:
            rank = os.environ.get("RANK", "")
            told = f"rank_{rank}" if rank.isdecimal() else "rank_0"
            path = self._directory / f"training_{told}_{name()}.jsonl"
            self._file = path.open("a", encoding="utf-8", buffering=1)
            self._file.write(json.dumps({HEAD: VERSION, "rank": int(rank) if rank.isdecimal() else None}) + "\n")
        self._file.write(json.dumps(said) + "\n")


def _cannot_read() -> bool:
    """While a graph is captured or a compiler reads the step, no value can be asked for."""
    import torch

    asked = getattr(getattr(torch, "compiler", None), "is_compiling", None)  # not in the oldest releases
    if asked is not None and asked():
        return True
    for kind in ("cuda", "npu"):
        device: Any = getattr(torch, kind, None)
        captures = getattr(device, "is_current_stream_capturing", None)
        if captures is not None and device.is_available() and captures():
            return True
    return False


def _gradients(optimizer: Any) -> list[Any]:
    """The gradients of an optimiser's parameters; of those of a table only the rows that there are."""
    found = [each.grad for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
    return [each.coalesce().values() if each.is_sparse else each for each in found]
