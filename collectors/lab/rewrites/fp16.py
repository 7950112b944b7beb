"""Weights and activations are float16.

What it does: as `bf16`, with float16.

Why: half of the memory traffic; ten bits of mantissa instead of seven.

When it would be wrong: beyond 65,504 it is infinite, and below 6e-8 it is zero. An infinity or NaN that float64 does
not have is refused at once.
"""

from __future__ import annotations

from typing import Any

from npulens.collectors.lab.rewrites.bf16 import in_short_type
from npulens.collectors.lab.rewrites.rewrite import Asked, Rewritten


def apply(program: Any, asked: Asked) -> Rewritten:
    """Converts the program."""
    return in_short_type(program, asked, "float16")
