"""A recommender learns from clicks: bags of categories are summed from a table, a small network scores them.

Each sample is a line of text as a log has it: a label, measured numbers, and a bag of categories for each field.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from npulens.collectors.jobs import job
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "parses": Plant("every sample is parsed when it is needed", "the log is parsed once, before", ("dataloader",)),
    "looks_up_by_sample": Plant(
        "the table is asked once for every sample of a batch", "one look-up of all bags with their offsets",
        ("launch_overhead", "host_late"),
    ),
}  # fmt: skip
_FIELDS, _CATEGORIES, _WIDTH, _NUMBERS, _BATCH, _LINES = 8, 5_000, 32, 13, 256, 2048
Sample = tuple[float, list[float], list[list[int]]]
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def lines(seed: int) -> list[str]:
    """A log of clicks; who clicks depends on what was shown."""
    numbers = random.Random(seed)
    made = []
    for _ in range(_LINES):
        shown = [[int(numbers.paretovariate(1.1)) % _CATEGORIES for _ in range(numbers.randint(1, 12))]
                 for _ in range(_FIELDS)]  # fmt: skip
        measured = [numbers.gauss(0, 1) for _ in range(_NUMBERS)]
        clicked = int(measured[0] + 0.3 * (shown[0][0] % 3 - 1) > 0)
        bags = "\t".join(",".join(f"{each:08x}" for each in bag) for bag in shown)
        made.append(f"{clicked}\t" + "\t".join(f"{each:.6f}" for each in measured) + "\t" + bags)
    return made


def parsed(line: str) -> Sample:
    """One line of the log."""
    label, *rest = line.split("\t")
    bags = [[int(each, 16) for each in bag.split(",")] for bag in rest[_NUMBERS:]]
    return float(label), [float(each) for each in rest[:_NUMBERS]], bags


def together(samples: Sequence[Sample]) -> Batch:
    """Labels, numbers, the categories of all bags one after another, and where each bag begins."""
    categories, begins = list[int](), list[int]()
    for _, _, bags in samples:
        for field, bag in enumerate(bags):
            begins.append(len(categories))
            categories += [field * _CATEGORIES + each for each in bag]
    labels = torch.tensor([[sample[0]] for sample in samples])
    return labels, torch.tensor([sample[1] for sample in samples]), torch.tensor(categories), torch.tensor(begins)


class Log(Dataset[Any]):
    """The log as text, parsed by whoever asks."""

    def __init__(self, kept: Sequence[str]) -> None:
        self._kept = kept

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, index: int) -> Sample:
        return parsed(self._kept[index])


class Recommender(nn.Module):
    """One table for all fields, then layers with ReLU."""

    def __init__(self, by_sample: bool = False) -> None:
        super().__init__()
        self.by_sample = by_sample
        self.table = nn.EmbeddingBag(_FIELDS * _CATEGORIES, _WIDTH, mode="sum", sparse=True)
        self.layers = nn.Sequential(
            nn.Linear(_FIELDS * _WIDTH + _NUMBERS, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        found = self._one_by_one(categories, begins) if self.by_sample else self.table(categories, begins)
        return self.layers(torch.cat((numbers, found.view(len(numbers), _FIELDS * _WIDTH)), 1))

    def _one_by_one(self, categories: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        edges = [*begins[::_FIELDS].tolist(), len(categories)]
        bags = [begins[at : at + _FIELDS] - begins[at] for at in range(0, len(begins), _FIELDS)]
        return torch.cat([self.table(categories[a:b], bag) for a, b, bag in zip(edges, edges[1:], bags)])


def batches(told: job.Asked) -> Iterator[Batch]:
    """The batches, again and again."""
    kept = lines(told.seed)
    if told.wrong("parses"):
        loader: Any = DataLoader(Log(kept), _BATCH, collate_fn=together)
    else:
        samples = [parsed(line) for line in kept]
        ready = [together(samples[begin : begin + _BATCH]) for begin in range(0, _LINES, _BATCH)]
        loader = DataLoader(ready, batch_size=None)
    while True:
        yield from loader


def main() -> None:
    told = job.asked("recommender", job.parser("recommender", __doc__, PLANTS, 24).parse_args())
    model = Recommender(told.wrong("looks_up_by_sample")).to(told.device)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    source = batches(told)

    def step(_: int) -> float:
        labels, *given = (each.to(told.device) for each in next(source))
        loss = nn.functional.binary_cross_entropy_with_logits(model(*given), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    job.say(told, *job.run(told, step))


if __name__ == "__main__":
    main()
