"""A detector of objects looks at the frames of a camera: Focus, C3 blocks and SPPF, as YOLOv5 had them at first.

Frames come as a camera gives them: bytes, row by row, with colours last. Boxes that overlap a better one are dropped.
"""

from __future__ import annotations

import torch
from torch import nn

from npulens.collectors.jobs import job
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "frames_as_text": Plant(
        "frames are unpacked from a list of numbers between two calls", "frames stay bytes and become a tensor at once",
        ("host_late", "dataloader"),
    ),
    "turns_around": Plant(
        "every block copies its input to another layout and back", "one layout from the first layer to the last",
        ("layout_conversion", "device_copies"),
    ),
    "boxes_one_by_one": Plant(
        "boxes are compared one by one", "all overlaps are one small matrix", ("launch_overhead", "host_late"),
    ),
}  # fmt: skip
_SIDE, _CLASSES, _WIDTHS, _BOXES, _FRAMES = 192, 8, (16, 32, 64, 128), 96, 8


class Conv(nn.Module):
    """Convolution, batch normalisation, SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)
        nn.init.uniform_(self.norm.running_var, 0.5, 1.5)
        nn.init.normal_(self.norm.running_mean, 0, 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.norm(self.conv(x)))


class Focus(nn.Module):
    """Every second pixel goes into channels of its own: half the side, four times the channels."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv = Conv(12, outputs, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.conv(torch.cat(parts, 1))


class C3(nn.Module):
    """Two ways side by side, one of them through bottlenecks, joined by a third convolution."""

    def __init__(self, width: int, repeats: int) -> None:
        super().__init__()
        half = width // 2
        self.one, self.two, self.three = Conv(width, half), Conv(width, half), Conv(width, width)
        self.inner = nn.ModuleList(nn.Sequential(Conv(half, half), Conv(half, half, 3)) for _ in range(repeats))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        deep = self.one(x)
        for each in self.inner:
            deep = deep + each(deep)
        return self.three(torch.cat((deep, self.two(x)), 1))


class SPPF(nn.Module):
    """The same maximum over 5 x 5 three times in a row sees 5, 9 and 13 pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = Conv(width, width // 2), Conv(2 * width, width)
        self.most = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = [self.before(x)]
        for _ in range(3):
            seen.append(self.most(seen[-1]))
        return self.after(torch.cat(seen, 1))


class Yolo(nn.Module):
    """Four numbers of a box, whether there is something, and what, for each place of the last layer."""

    def __init__(self, turns: bool = False) -> None:
        super().__init__()
        self.turns = turns
        stages: list[nn.Module] = [Focus(_WIDTHS[0])]
        for inputs, outputs in zip(_WIDTHS, _WIDTHS[1:]):
            stages += [Conv(inputs, outputs, 3, 2), C3(outputs, 1)]
        self.stages = nn.ModuleList([*stages, SPPF(_WIDTHS[-1])])
        self.head = nn.Conv2d(_WIDTHS[-1], 5 + _CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            if self.turns:
                for _ in range(3):
                    x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).contiguous()
            x = stage(x)
        return self.head(x).flatten(2).transpose(1, 2)


def boxes(found: torch.Tensor) -> torch.Tensor:
    """The places that seem best: left, top, right, bottom, with the best first."""
    best = found[found[:, 4].topk(_BOXES).indices]
    middle, size = best[:, :2].sigmoid() * _SIDE, best[:, 2:4].sigmoid() * _SIDE / 4
    return torch.cat((middle - size, middle + size), 1)


def overlap(one: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The shared part of both areas, of one box with each of the others."""
    least, most = torch.maximum(one[:2], others[:, :2]), torch.minimum(one[2:], others[:, 2:])
    shared = (most - least).clamp(min=0).prod(1)
    return shared / ((one[2:] - one[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - shared)


def kept_one_by_one(each: torch.Tensor) -> list[int]:
    """The boxes that overlap no better one by more than half."""
    kept = list[int]()
    for number in range(len(each)):
        if all(float(overlap(each[other], each[number : number + 1])) <= 0.5 for other in kept):
            kept.append(number)
    return kept


def kept_at_once(each: torch.Tensor) -> list[int]:
    """The same from one matrix of overlaps."""
    least = torch.maximum(each[:, None, :2], each[None, :, :2])
    most = torch.minimum(each[:, None, 2:], each[None, :, 2:])
    shared, area = (most - least).clamp(min=0).prod(2), (each[:, 2:] - each[:, :2]).prod(1)
    over = (shared / (area[:, None] + area[None] - shared) > 0.5).tolist()
    kept = list[int]()
    for number, row in enumerate(over):
        if not any(row[other] for other in kept):
            kept.append(number)
    return kept


def main() -> None:
    told = job.asked("yolo", job.parser("yolo", __doc__, PLANTS, 24).parse_args())
    model = Yolo(told.wrong("turns_around")).to(told.device).eval()
    camera = [torch.randint(0, 256, (_SIDE, _SIDE, 3), dtype=torch.uint8) for _ in range(_FRAMES)]
    as_text = [" ".join(map(str, frame.flatten().tolist())) for frame in camera]
    suppress = kept_one_by_one if told.wrong("boxes_one_by_one") else kept_at_once

    def frame(number: int) -> torch.Tensor:
        if told.wrong("frames_as_text"):
            values = [int(word) for word in as_text[number % _FRAMES].split()]
            taken = torch.tensor(values, dtype=torch.uint8).view(_SIDE, _SIDE, 3)
        else:
            taken = camera[number % _FRAMES]
        return taken.to(told.device).permute(2, 0, 1)[None].float() / 255

    def step(number: int) -> float:
        with torch.no_grad():
            found = boxes(model(frame(number))[0])
            return float(found[suppress(found)].sum())

    job.say(told, *job.run(told, step))


if __name__ == "__main__":
    main()
