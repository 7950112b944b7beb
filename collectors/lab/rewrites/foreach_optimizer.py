"""The optimiser steps all its parameters in a few kernels over lists of tensors.

What it does: AdamW(foreach=True), and the same for the others: each operation of a step is one call for every
parameter at once.

Why: the plain way launches about ten small kernels for each parameter; the lists launch about ten in all.

When it would be wrong: for an optimiser with tensors as settings, or with sparse gradients; for a class that is not
PyTorch's. It is compared over several steps with float64. It needs as much memory again as the parameters take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npulens.collectors.lab import optimizing
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

PASTE = "optimizer = torch.optim.AdamW(model.parameters(), ..., foreach=True)  # your class and settings"


def apply(program: Any, asked: Asked) -> Rewritten:
    """It leaves the module alone."""
    raise DoesNotApply("optimizer_only")


def optimizer(told: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The job's optimiser, by lists."""
    return optimizing.with_way(told, "foreach")
