"""The beginning of an attention layer as a plain function: a projection, layer normalisation and GELU.

Nothing here says how it is computed: `npulens compile mla_prolog --tune -o DIR` makes a kernel of it. The sizes are one
image of a vision transformer, narrow enough for a processor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

TOKENS, INNER, WIDTH = 197, 256, 256


def mla_prolog(x: Any, weight: Any, bias: Any, gain: Any, shift: Any) -> Any:
    """gelu(layer_norm(x @ weight + bias))."""
    product = x @ weight + bias
    return functional.gelu(functional.layer_norm(product, gain.shape, gain, shift), approximate="tanh")


def inputs() -> tuple[Any, ...]:
    """Example inputs: the same numbers every time."""
    numbers = torch.Generator().manual_seed(0)

    def drawn(*sizes: int) -> Any:
        return torch.randn(*sizes, generator=numbers)

    return drawn(TOKENS, INNER), drawn(INNER, WIDTH) / INNER**0.5, drawn(WIDTH), drawn(WIDTH), drawn(WIDTH)
