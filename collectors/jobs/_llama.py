"""A small decoder of text as Llama has it: RMSNorm, rotary embeddings, grouped keys and values, SwiGLU, a KV cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Sizes:
    """What a configuration of Llama says."""

    words: int = 512
    width: int = 256
    layers: int = 2
    heads: int = 4
    groups: int = 2  # heads of keys and values
    hidden: int = 704
    longest: int = 160

    @property
    def head(self) -> int:
        return self.width // self.heads


class Norm(nn.Module):
    """RMSNorm, in one operator or written out."""

    def __init__(self, width: int, by_hand: bool = False) -> None:
        super().__init__()
        self.weight, self.by_hand = nn.Parameter(torch.ones(width)), by_hand

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.by_hand:
            return nn.functional.rms_norm(x, x.shape[-1:], self.weight, 1e-6)
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def turned(x: torch.Tensor, places: torch.Tensor, base: float = 10_000.0) -> torch.Tensor:
    """Rotary embedding: pairs of numbers are turned by an angle that grows with the place in the text."""
    half = x.shape[-1] // 2
    speed = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = places[..., None].float() * speed
    cos, sin = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None]
    one, two = x[..., :half], x[..., half:]
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)


def attended(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, seen: torch.Tensor, by_hand: bool
) -> torch.Tensor:
    """Attention where ``seen`` says which keys a query sees, in one operator or in its parts."""
    if not by_hand:
        return nn.functional.scaled_dot_product_attention(query, key, value, seen)
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, -1) @ value


@dataclass(frozen=True)
class Cache:
    """Keys and values of what was read, one place for each text of a batch."""

    keys: torch.Tensor  # layers, texts, groups, places, numbers of a head
    values: torch.Tensor

    @staticmethod
    def of(sizes: Sizes, texts: int, device: str) -> Cache:
        shape = (sizes.layers, texts, sizes.groups, sizes.longest, sizes.head)
        return Cache(torch.zeros(shape, device=device), torch.zeros(shape, device=device))


class Layer(nn.Module):
    """Attention, then SwiGLU."""

    def __init__(self, sizes: Sizes, by_hand: bool) -> None:
        super().__init__()
        self.sizes, self.by_hand = sizes, by_hand
        narrow = sizes.groups * sizes.head
        self.before, self.between = Norm(sizes.width, by_hand), Norm(sizes.width, by_hand)
        self.query = nn.Linear(sizes.width, sizes.width, bias=False)
        self.key, self.value = (nn.Linear(sizes.width, narrow, bias=False) for _ in range(2))
        self.out = nn.Linear(sizes.width, sizes.width, bias=False)
        self.gate, self.up = (nn.Linear(sizes.width, sizes.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(sizes.hidden, sizes.width, bias=False)

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, seen: torch.Tensor, keys: torch.Tensor, values: torch.Tensor,
        rows: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        texts, new, _ = x.shape
        given = self.before(x)
        query = turned(self.query(given).view(texts, new, self.sizes.heads, -1).transpose(1, 2), places)
        key = turned(self.key(given).view(texts, new, self.sizes.groups, -1).transpose(1, 2), places)
        value = self.value(given).view(texts, new, self.sizes.groups, -1).transpose(1, 2)
        # Each text goes on where it is: its new places of the cache are written, then all of it is seen.
        keys[rows[:, None], :, places] = key.transpose(1, 2)
        values[rows[:, None], :, places] = value.transpose(1, 2)
        times = self.sizes.heads // self.sizes.groups
        whole = [kept[rows].repeat_interleave(times, 1) for kept in (keys, values)]
        found = attended(query, whole[0], whole[1], seen, self.by_hand)
        x = x + self.out(found.transpose(1, 2).reshape(texts, new, -1))
        given = self.between(x)
        return x + self.down(nn.functional.silu(self.gate(given)) * self.up(given))


class Llama(nn.Module):
    """Scores of the next word after the last place that is given."""

    def __init__(self, sizes: Sizes, by_hand: bool = False) -> None:
        super().__init__()
        self.sizes = sizes
        self.words = nn.Embedding(sizes.words, sizes.width)
        self.layers = nn.ModuleList(Layer(sizes, by_hand) for _ in range(sizes.layers))
        self.norm, self.head = Norm(sizes.width, by_hand), nn.Linear(sizes.width, sizes.words, bias=False)

    def forward(
        self, words: torch.Tensor, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        """``rows``: which texts of the cache these are."""
        return self.going_on(self.words(words), places, keys, values, rows)

    def going_on(
        self, x: torch.Tensor, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        """The same of words that are vectors already."""
        seen = (torch.arange(keys.shape[3], device=x.device)[None, None] <= places[..., None])[:, None]
        for number, layer in enumerate(self.layers):
            x = layer(x, places, seen, keys[number], values[number], rows)
        return self.head(self.norm(x[:, -1]))
