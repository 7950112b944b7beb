"""The optimiser steps all its parameters in one fused kernel.

What it does: AdamW(fused=True), and the same for Adam, SGD and Adagrad: all the arithmetic of a step for every
parameter in one pass.

Why: the plain way launches about ten small kernels for each parameter, and passes its state through memory as often.

When it would be wrong: for an optimiser with tensors as settings, or with sparse gradients; for a class that is not
PyTorch's. It is compared over several steps with float64. A scaler of mixed precision has to know the fused way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npulens.collectors.lab import optimizing
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

PASTE = "optimizer = torch.optim.AdamW(model.parameters(), ..., fused=True)  # your class and settings"


def apply(program: Any, asked: Asked) -> Rewritten:
    """It leaves the module alone."""
    raise DoesNotApply("optimizer_only")


def optimizer(told: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The job's optimiser, fused."""
    return optimizing.with_way(told, "fused")
