"""Weights and activations are bfloat16.

What it does: the whole program computes in bfloat16; what comes in is converted, and what goes out is converted back.

Why: half of the memory traffic, and matrix units that are faster in it where there are such.

When it would be wrong: eight bits of mantissa lose what depends on small differences. The error is shown beside the
speed, and what exceeds the rounding of the type is refused. Whether your accuracy holds only your own data tells.
"""

from __future__ import annotations

from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

_TYPE = "bfloat16"


def apply(program: Any, asked: Asked) -> Rewritten:
    """Converts the program."""
    return in_short_type(program, asked, _TYPE)


def in_short_type(program: Any, asked: Asked, name: str) -> Rewritten:
    """The program in a shorter type, with conversions around it."""
    dtype = getattr(torch, name)
    if asked.training or asked.gradients:
        raise DoesNotApply("short_training", {"dtype": name})
    kinds = {str(weight.dtype) for weight in program.parameters() if weight.is_floating_point()}
    if "torch.float32" not in kinds:
        raise DoesNotApply("short_already", {"dtype": name})
    short = graph.in_type(program, dtype) if asked.graph else program.to(dtype)
    return Rewritten(_Short(short, dtype), 1, dtype=name)


class _Short(torch.nn.Module):  # type: ignore[misc]  # mypy does not look into torch
    """The program between two conversions."""

    def __init__(self, program: Any, dtype: Any) -> None:
        super().__init__()
        self.program, self._dtype = program, dtype

    def forward(self, tensors: Any) -> Any:
        found = self.program(graph.cast(tensors, self._dtype))
        return tuple(each.float() if each.dtype == self._dtype else each for each in found)
