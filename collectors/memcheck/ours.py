"""The project's own kernels at sizes that fill no block evenly: what a mask forgets shows there."""

from __future__ import annotations

from typing import Any

from npulens.collectors import kernels


def run() -> None:
    """Every kernel of ours, each at a few awkward sizes."""
    for heads, queries, keys, size in ((4, 70, 33, 17), (1, 1, 1, 16)):
        query, key, value = _drawn(1, heads, queries, size), _drawn(1, heads, keys, size), _drawn(1, heads, keys, size)
        kernels.load("cross_attention", "cpu").cross_attention(query, key, value, 0.5)
    for rows, inner, width in ((17, 33, 65), (3, 100, 30), (1, 1, 1)):
        norm = kernels.load("layernorm_gelu", "cpu")
        rest = (_drawn(width), _drawn(width), _drawn(width), 1e-5)
        norm.epilogue(_drawn(rows, width), *rest)
        norm.whole(_drawn(rows, inner), _drawn(inner, width), *rest)
    for batch, channels, high, wide in ((2, 3, 5, 7), (1, 2, 40, 33), (1, 1, 1, 1)):
        convolution = kernels.load("depthwise_conv_relu", "cpu")
        convolution.depthwise_conv_relu(
            _drawn(batch, channels, high, wide), _drawn(channels, 1, 3, 3), _drawn(channels)
        )
    _sums()


def _sums() -> None:
    import torch

    tokens = torch.tensor([4, 0, 4, 2, 4, 1, 0, 4])
    for sums in ("atomic", "by_row"):
        getattr(kernels.load("embedding_grad", "cpu"), sums)(_drawn(8, 5), tokens, 6, 2)


def _drawn(*sizes: int) -> Any:
    import torch

    return torch.randn(*sizes, generator=torch.Generator().manual_seed(5))
