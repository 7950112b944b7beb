"""An encoder of text learns to fill in words, as BERT does: attention both ways, GELU, batches of unlike lengths."""

from __future__ import annotations

import math

import torch
from torch import nn

from npulens.collectors.jobs import job
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "attention_by_hand": Plant(
        "attention is written out, with its mask added", "scaled_dot_product_attention", ("unfused",), ("sdpa",),
    ),
    "gelu_by_hand": Plant("GELU is written out", "functional.gelu", ("unfused",), ("compile",)),
}  # fmt: skip
_WORDS, _WIDTH, _HEADS, _LAYERS, _LONGEST, _BATCH, _HIDDEN = 256, 128, 4, 2, 256, 4, 1024


def gelu(x: torch.Tensor, by_hand: bool) -> torch.Tensor:
    """GELU by its formula with the hyperbolic tangent, or in one operator."""
    if not by_hand:
        return nn.functional.gelu(x, approximate="tanh")
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


class Layer(nn.Module):
    """Attention, then a small network; each is added to what came in and normalised."""

    def __init__(self, attention_by_hand: bool, gelu_by_hand: bool) -> None:
        super().__init__()
        self.attention_by_hand, self.gelu_by_hand = attention_by_hand, gelu_by_hand
        self.query, self.key, self.value, self.out = (nn.Linear(_WIDTH, _WIDTH) for _ in range(4))
        self.one, self.two = nn.Linear(_WIDTH, _HIDDEN), nn.Linear(_HIDDEN, _WIDTH)
        self.first, self.second = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)

    def forward(self, x: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(x).view(x.shape[0], x.shape[1], _HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if self.attention_by_hand:
            scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + added
            found = torch.softmax(scores, -1) @ value
        else:
            found = nn.functional.scaled_dot_product_attention(query, key, value, added)
        x = self.first(x + self.out(found.transpose(1, 2).reshape(x.shape)))
        return self.second(x + self.two(gelu(self.one(x), self.gelu_by_hand)))


class Bert(nn.Module):
    """Scores of a word for every place."""

    def __init__(self, attention_by_hand: bool = False, gelu_by_hand: bool = False) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(_WORDS, _WIDTH), nn.Embedding(_LONGEST, _WIDTH)
        self.norm, self.head = nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, _WORDS)
        self.layers = nn.ModuleList(Layer(attention_by_hand, gelu_by_hand) for _ in range(_LAYERS))

    def forward(self, words: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        added = torch.zeros(there.shape, device=there.device).masked_fill(~there, -1e4)[:, None, None]
        x = self.norm(self.words(words) + self.places.weight[: words.shape[1]])
        for layer in self.layers:
            x = layer(x, added)
        return self.head(x)


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Words, and which places of each text are there at all."""
    numbers = torch.Generator().manual_seed(seed)
    lengths = torch.randint(_LONGEST // 2, _LONGEST + 1, (_BATCH,), generator=numbers)
    words = torch.randint(2, _WORDS, (_BATCH, _LONGEST), generator=numbers)
    return words, torch.arange(_LONGEST)[None] < lengths[:, None]


def main() -> None:
    told = job.asked("bert", job.parser("bert", __doc__, PLANTS, 16).parse_args())
    model = Bert(told.wrong("attention_by_hand"), told.wrong("gelu_by_hand")).to(told.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=told.device in ("cpu", "cuda"))

    def step(number: int) -> float:
        words, there = (each.to(told.device) for each in batch(told.seed * 1000 + number))
        hidden = torch.rand(words.shape, generator=torch.Generator().manual_seed(number)).to(told.device) < 0.15
        scores = model(words.masked_fill(hidden, 1), there)
        loss = nn.functional.cross_entropy(scores[hidden & there], words[hidden & there])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    job.say(told, *job.run(told, step))


if __name__ == "__main__":
    main()
