"""ResNet50 looks at pictures: fifty-three convolutions, each with batch normalisation, in four stages."""

from __future__ import annotations

import torch
from torch import nn

from npulens.collectors.jobs import job
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "doubles": Plant(
        "pictures come from numpy in float64, and the model was made to fit them", "float32 from the first layer on",
        ("full_precision",),
    ),
}  # fmt: skip
_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))  # blocks, and how wide they are inside


class Block(nn.Module):
    """Narrow, look around, widen; what came in is added."""

    def __init__(self, inputs: int, inside: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * inside
        self.one, self.first = nn.Conv2d(inputs, inside, 1, bias=False), nn.BatchNorm2d(inside)
        self.two, self.second = nn.Conv2d(inside, inside, 3, stride, 1, bias=False), nn.BatchNorm2d(inside)
        self.three, self.third = nn.Conv2d(inside, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.beside: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.beside = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        deep = torch.relu(self.first(self.one(x)))
        deep = torch.relu(self.second(self.two(deep)))
        return torch.relu(self.third(self.three(deep)) + self.beside(x))


class ResNet50(nn.Module):
    """Scores of a thousand kinds."""

    def __init__(self, kinds: int = 1000) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, width = list[nn.Module](), 64
        for stage, (count, inside) in enumerate(_STAGES):
            for number in range(count):
                blocks.append(Block(width, inside, 2 if stage and not number else 1))
                width = 4 * inside
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(width, kinds)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):  # statistics as training leaves them
                nn.init.normal_(module.running_mean, 0, 0.1)
                nn.init.uniform_(module.running_var, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


def main() -> None:
    parser = job.parser("resnet50", __doc__, PLANTS, 14)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--side", type=int, default=96, help="pixels")
    given = parser.parse_args()
    told = job.asked("resnet50", given)
    dtype = torch.float64 if told.wrong("doubles") else torch.float32
    model = ResNet50().to(told.device, dtype).eval()
    pictures = [torch.randn(given.batch, 3, given.side, given.side) for _ in range(4)]

    def step(number: int) -> float:
        with torch.no_grad():
            return float(model(pictures[number % 4].to(told.device, dtype)).abs().sum())

    job.say(told, *job.run(told, step))


if __name__ == "__main__":
    main()
