"""The program is compiled with its weights as constants.

What it does: as `compile`, and besides Inductor lays the weights out once as its kernels want them, and computes
beforehand what depends on nothing but them.

Why: layout changes and small computations on weights go away from every call.

When it would be wrong: where weights change later, as in training; the frozen program does not hear of it. It is
refused where gradients are on.
"""

from __future__ import annotations

from typing import Any

import torch

from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten


def apply(program: Any, asked: Asked) -> Rewritten:
    """Compiles at the first call."""
    if asked.training or asked.gradients:
        raise DoesNotApply("gradients")
    if not asked.graph:  # copies of a module share their code, and what was compiled of it; those of a graph do not
        torch.compiler.reset()
    for weight in program.parameters():
        weight.requires_grad_(False)
    frozen = torch.compile(program, dynamic=asked.dynamic, fullgraph=asked.graph, options={"freezing": True})
    return Rewritten(frozen, 1)
