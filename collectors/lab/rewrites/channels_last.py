"""Pictures and weights of convolutions lie in memory with the channels last.

What it does: every 4-D weight and every 4-D input becomes channels_last. Results get the order back that they had.

Why: convolutions of most libraries compute in that order and convert to and from it otherwise.

When it would be wrong: never in its numbers. Where the code looks at strides (a view of a whole activation) it fails,
and is refused.
"""

from __future__ import annotations

from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten


def apply(program: Any, asked: Asked) -> Rewritten:
    """Converts weights once and inputs at each call."""
    convolutions = sum(graph.operator(node) == "conv2d" for _, node in graph.every(program)) if asked.graph else sum(
        isinstance(module, torch.nn.Conv2d) for module in program.modules()
    )  # fmt: skip
    if not convolutions:
        raise DoesNotApply("no_convolutions")
    return Rewritten(_Last(program.to(memory_format=torch.channels_last)), convolutions)


class _Last(torch.nn.Module):  # type: ignore[misc]  # mypy does not look into torch
    """The program between two changes of the order."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.program = program

    def forward(self, tensors: Any) -> Any:
        last = torch.channels_last
        given = tuple(each.contiguous(memory_format=last) if each.dim() == 4 else each for each in tensors)
        return tuple(each.contiguous() if each.dim() == 4 else each for each in self.program(given))
