"""A compiled function gets matrices of three classes: small, tall and narrow, and general; no two of the same height.

The seeds choose another kernel for each class. A compiler makes one for each shape that it has not seen.
"""

from __future__ import annotations

import random

import torch

from npulens.collectors.jobs import job
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "compiles_each_shape": Plant(
        "every new height is compiled again", "heights are filled up to the next of a few", ("compile",), active=6,
    ),
}  # fmt: skip
#: Of each class: its name, its heights, its width.
CLASSES = (("small", 8, 64, 64), ("tall", 1024, 2048, 64), ("general", 128, 512, 256))
_TIMES = 2


def heights(seed: int, steps: int) -> list[tuple[int, int]]:
    """Height and width of every step."""
    numbers, found = random.Random(seed), list[tuple[int, int]]()
    for number in range(steps):
        _, low, high, width = CLASSES[number % len(CLASSES)]
        found.append((numbers.randint(low, high), width))
    return found


def filled(rows: int) -> int:
    """The next power of two."""
    return 1 << (rows - 1).bit_length()


class Normed(torch.nn.Module):
    """A product, normalised by row, through GELU; each width has a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterDict(
            {str(width): torch.nn.Parameter(torch.randn(width, width) * width**-0.5) for width in (64, 256)}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = x @ self.weights[str(x.shape[1])]
        return torch.nn.functional.gelu(torch.nn.functional.layer_norm(product, product.shape[-1:]))


def main() -> None:
    told = job.asked("shapes", job.parser("shapes", __doc__, PLANTS, 12).parse_args())
    torch._inductor.config.force_disable_caches = True  # every run is like the first
    torch._dynamo.config.recompile_limit = 64
    model = Normed().to(told.device)
    compiled = torch.compile(model, dynamic=False)
    given = heights(told.seed, told.steps)
    by_shape = told.wrong("compiles_each_shape")
    if not by_shape:
        with torch.no_grad():  # what there is to compile is compiled before anybody waits for it
            for rows, width in sorted({(filled(rows), width) for rows, width in given}):
                compiled(torch.zeros(rows, width, device=told.device))

    def step(number: int) -> float:
        rows, width = given[number]
        x = torch.randn(rows, width, generator=torch.Generator().manual_seed(number)).to(told.device)
        if not by_shape:
            x = torch.nn.functional.pad(x, (0, 0, 0, filled(rows) - rows))
        with torch.no_grad():
            return float(compiled(x)[:rows].sum())

    job.say(told, *job.run(told, step))


if __name__ == "__main__":
    main()
