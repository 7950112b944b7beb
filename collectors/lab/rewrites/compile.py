"""The program goes through torch.compile, which writes kernels for it.

What it does: Inductor fuses what reads and writes the same elements, and generates C++ on a processor or Triton on a
device.

Why: fewer passes through memory and fewer launches.

When it would be wrong: it may add in another order, which is rounding. It costs seconds before the first call and again
for shapes that it has not seen; small modules can become slower, because each call checks what was assumed. A module
that was kept whole is compiled in the parts that the compiler takes.
"""

from __future__ import annotations

from typing import Any

import torch

from npulens.collectors.lab.rewrites.rewrite import Asked, Rewritten


def apply(program: Any, asked: Asked) -> Rewritten:
    """Compiles at the first call."""
    if not asked.graph:  # copies of a module share their code, and what was compiled of it; those of a graph do not
        torch.compiler.reset()
    return Rewritten(torch.compile(program, dynamic=asked.dynamic, fullgraph=asked.graph), 1)
