"""A model of pictures and words, built as InternVL is: a vision transformer, a small network, a decoder of text.

Each step looks at a picture with a question and makes the first words of an answer.
"""

from __future__ import annotations

import gc

import torch
from torch import nn

from npulens.collectors.jobs import job
from npulens.collectors.jobs._llama import Cache, Llama, Sizes
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "collects_garbage": Plant(
        "garbage is collected after each answer, to save memory; all answers so far are scanned",
        "Python collects it when it is due", ("gc",),
    ),
    "looks_again": Plant("the picture goes through the vision transformer for every word", "it is looked at once", ()),
}  # fmt: skip
_SIDE, _PATCH, _WIDTH, _HEADS, _LAYERS, _QUESTION, _ANSWER, _ANSWERS = 64, 8, 128, 4, 2, 12, 4, 60_000
SIZES = Sizes(width=192, layers=2, heads=4, groups=2, hidden=512, longest=64)


class Seen(nn.Module):
    """One layer of the vision transformer: every patch sees all patches."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.all, self.out = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.layers = nn.Sequential(nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.all(self.first(x)).view(*x.shape[:2], 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*parts.unbind(0))
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return x + self.layers(self.second(x))


class Eye(nn.Module):
    """A picture becomes a few words: four neighbouring patches together are one."""

    def __init__(self) -> None:
        super().__init__()
        patches = (_SIDE // _PATCH) ** 2
        self.cut = nn.Conv2d(3, _WIDTH, _PATCH, _PATCH)
        self.places = nn.Parameter(torch.randn(1, patches, _WIDTH) * 0.02)
        self.layers = nn.Sequential(*(Seen() for _ in range(_LAYERS)))
        self.between = nn.Sequential(
            nn.LayerNorm(4 * _WIDTH), nn.Linear(4 * _WIDTH, SIZES.width), nn.GELU(), nn.Linear(SIZES.width, SIZES.width)
        )

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.cut(picture).flatten(2).transpose(1, 2) + self.places)
        side = _SIDE // _PATCH // 2
        four = x.view(len(x), side, 2, side, 2, _WIDTH).permute(0, 1, 3, 2, 4, 5)
        return self.between(four.reshape(len(x), side * side, 4 * _WIDTH))


class VisionLanguage(nn.Module):
    """The scores of the next word after a picture, a question and what was said."""

    def __init__(self, looks_again: bool = False) -> None:
        super().__init__()
        self.looks_again = looks_again
        self.eye, self.text = Eye(), Llama(SIZES)

    def forward(self, picture: torch.Tensor, question: torch.Tensor) -> torch.Tensor:
        cache = Cache.of(SIZES, len(question), str(question.device))
        rows = torch.arange(len(question), device=question.device)
        seen, said = self.eye(picture), list[torch.Tensor]()
        x = torch.cat((seen, self.text.words(question)), 1)
        at = torch.arange(x.shape[1], device=question.device)[None].expand(len(question), -1)
        for _ in range(_ANSWER):
            said.append(self.text.going_on(x, at, cache.keys, cache.values, rows).argmax(-1, keepdim=True))
            if self.looks_again:
                seen = self.eye(picture)
            x, at = self.text.words(said[-1]), at[:, -1:] + 1
        return torch.cat(said, 1)


def main() -> None:
    told = job.asked("vision_language", job.parser("vision_language", __doc__, PLANTS, 16).parse_args())
    model = VisionLanguage(told.wrong("looks_again")).to(told.device).eval()
    pictures = [torch.randn(2, 3, _SIDE, _SIDE) for _ in range(4)]
    answers: list[dict[str, object]] = [{"picture": number, "words": [number]} for number in range(_ANSWERS)]

    def step(number: int) -> float:
        question = torch.randint(0, SIZES.words, (2, _QUESTION), generator=torch.Generator().manual_seed(number))
        with torch.no_grad():
            said = model(pictures[number % 4].to(told.device), question.to(told.device))
        answers.append({"picture": number, "words": said.tolist()})
        if told.wrong("collects_garbage"):
            gc.collect()
        return float(said.sum())

    job.say(told, *job.run(told, step))


if __name__ == "__main__":
    main()
