"""A small service that answers requests with a transformer; its attention is written out.

`python serve.py 200` answers 200 requests. Where a night asks for a result, it says how long one took.
"""

import json
import os
import statistics
import sys
import time

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, rows, width = x.shape
        split = (batch, rows, self.heads, width // self.heads)
        q = self.query(x).view(split).transpose(1, 2)
        k = self.key(x).view(split).transpose(1, 2)
        v = self.value(x).view(split).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        mixed = torch.softmax(scores, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, rows, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.wide = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.wide(self.after(x))


class Model(nn.Module):
    def __init__(self, width: int = 64, heads: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def main() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    took, answers = [], 0.0
    with torch.no_grad():
        for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 60):
            request = torch.randn(2, 384, 64)
            begun = time.perf_counter()
            answer = model(request)
            took.append(time.perf_counter() - begun)
            answers += float(answer.sum())
    one = {"value": 1000 * statistics.median(took), "unit": "ms"}
    print(f"{len(took)} requests, {one['value']:.2f} ms each; the answers add up to {answers:.4f}")
    if "NPULENS_RESULT" in os.environ:
        with open(os.environ["NPULENS_RESULT"], "w", encoding="utf-8") as file:
            json.dump({"metrics": {"request": one}}, file)


if __name__ == "__main__":
    main()
