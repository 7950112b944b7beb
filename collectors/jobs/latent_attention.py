"""Attention over keys and values that are kept small: the prolog of multi-head latent attention, then the attention.

What comes in is made narrow, normalised and made wide again: once for the queries, once for keys and values together.
Only the narrow form would be kept for later words. A part of each head is turned by its place.
"""

from __future__ import annotations

import torch
from torch import nn

from npulens.collectors.jobs import job
from npulens.collectors.jobs._llama import Norm, attended, turned
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "norms_by_hand": Plant(
        "RMSNorm is written out", "functional.rms_norm", ("unfused",), ("compile",),
    ),
    "heads_are_copied": Plant(
        "heads are copied to other layouts and back", "heads are views of the product",
        ("layout_conversion", "device_copies"),
    ),
}  # fmt: skip
_WIDTH, _HEADS, _PLAIN, _TURNED, _NARROW_QUERY, _NARROW, _LENGTH, _BATCH, _LAYERS = 512, 8, 32, 16, 384, 256, 96, 16, 2


class Prolog(nn.Module):
    """Queries, keys and values of all heads."""

    def __init__(self, by_hand: bool, copied: bool) -> None:
        super().__init__()
        self.copied, head = copied, _PLAIN + _TURNED
        self.query_down, self.query_up = nn.Linear(_WIDTH, _NARROW_QUERY), nn.Linear(_NARROW_QUERY, _HEADS * head)
        self.down, self.up = nn.Linear(_WIDTH, _NARROW + _TURNED), nn.Linear(_NARROW, _HEADS * 2 * _PLAIN)
        self.query_norm, self.norm = Norm(_NARROW_QUERY, by_hand), Norm(_NARROW, by_hand)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        """One head after another."""
        if self.copied:
            for _ in range(4):
                x = x.transpose(1, 2).contiguous().transpose(1, 2).contiguous()
        return x.view(x.shape[0], x.shape[1], _HEADS, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        query = self._heads(self.query_up(self.query_norm(self.query_down(x))))
        narrow, angle = self.down(x).split((_NARROW, _TURNED), -1)
        key, value = self._heads(self.up(self.norm(narrow))).split(_PLAIN, -1)
        plain, rest = query.split((_PLAIN, _TURNED), -1)
        shared = turned(angle[:, None], places).expand(-1, _HEADS, -1, -1)
        return torch.cat((plain, turned(rest, places)), -1), torch.cat((key, shared), -1), value


class Latent(nn.Module):
    """Layers of it, each added to what came in."""

    def __init__(self, by_hand: bool = False, copied: bool = False) -> None:
        super().__init__()
        self.by_hand = by_hand
        self.norms = nn.ModuleList(Norm(_WIDTH, by_hand) for _ in range(_LAYERS))
        self.prologs = nn.ModuleList(Prolog(by_hand, copied) for _ in range(_LAYERS))
        self.outs = nn.ModuleList(nn.Linear(_HEADS * _PLAIN, _WIDTH) for _ in range(_LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)[None]
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        for norm, prolog, out in zip(self.norms, self.prologs, self.outs):
            query, key, value = prolog(norm(x), places)
            found = attended(query, key, value, seen, False)
            x = x + out(found.transpose(1, 2).flatten(2))
        return x


def main() -> None:
    told = job.asked("latent_attention", job.parser("latent_attention", __doc__, PLANTS, 20).parse_args())
    model = Latent(told.wrong("norms_by_hand"), told.wrong("heads_are_copied")).to(told.device).eval()
    texts = [torch.randn(_BATCH, _LENGTH, _WIDTH) for _ in range(4)]

    def step(number: int) -> float:
        with torch.no_grad():
            return float(model(texts[number % 4].to(told.device)).abs().sum())

    job.say(told, *job.run(told, step))


if __name__ == "__main__":
    main()
