"""What operators cost on this machine by their class: a grid of calls measured once, and three numbers fitted to each.

A class costs a start, so much for each operation and so much for each byte. The three are fitted to the grid so that
relative errors are small. How far a class is off is found by leaving each point out in turn, fitting the rest and
pricing the point. The grid is float32 in the plain order of memory; calls of other types have no price by class.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from npulens.collectors.backends.backend import Backend
from npulens.collectors.doctor.roofs import cache_dir
from npulens.collectors.lab import calls
from npulens.collectors.lab.calls import Call

FORMAT = 1
#: Products below so many operations are a class of their own, and convolutions with fewer operations a byte.
SMALL_PRODUCT, THIN_CONVOLUTION = 20_000_000, 8.0
#: Values of the arrays that are only passed over, and of the rows of those that have rows.
SIZES, ROWS = (512, 8_192, 65_536, 1_048_576), (64, 256, 1024)
#: Unlike the others of their class.
OWN_CLASS = ("batch_norm", "gelu", "cat")
_SHORT = ("bfloat16", "float16", "float64")


@dataclass(frozen=True)
class Point:
    """One call of the grid."""

    group: str
    flops: int
    moved: int
    ns: float


@dataclass(frozen=True)
class Rates:
    """ns to start, ns an operation, ns a byte."""

    start: float
    flop: float
    byte: float

    def ns(self, flops: int, moved: int) -> float:
        return self.start + self.flop * flops + self.byte * moved


class Calibration:
    """The classes of one machine."""

    def __init__(self, points: Sequence[Point], made_at: str) -> None:
        self.points, self.made_at = tuple(points), made_at
        groups: dict[str, list[Point]] = {}
        for point in points:
            groups.setdefault(point.group, []).append(point)
        self.rates = {group: fitted(its) for group, its in groups.items()}
        self.errors = {group: left_out(its) for group, its in groups.items()}

    def __call__(self, call: Call) -> float | None:
        """The price of a call in ns; None for a class or type that was not measured."""
        rates = self.rates.get(group(call))
        if rates is None or call.channels_last or any(f" {kind}[" in call.key for kind in _SHORT):
            return None
        return rates.ns(call.flops, call.moved)

    def error(self, call: Call) -> float:
        """How far off prices of its class are, as a share."""
        return self.errors[group(call)]

    def as_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, "made_at": self.made_at, "points": [vars(point) for point in self.points]}


def group(call: Call) -> str:
    """The class that a call is priced by."""
    if call.kind == "matmul":
        return "matmul_small" if call.flops < SMALL_PRODUCT else "matmul_large"
    if call.kind == "convolution":
        thin = call.flops < THIN_CONVOLUTION * call.moved
        return "convolution_thin" if thin else "convolution"
    return call.name if call.name in OWN_CLASS else call.kind


def fitted(points: Sequence[Point]) -> Rates:
    """The three numbers, none below zero, with the least sum of squared relative errors."""
    best: tuple[float, Rates] | None = None
    for count in (1, 2, 3):
        for places in combinations(range(3), count):
            found = _solved(points, places)
            if found is None or min(found) < 0:
                continue
            rates = Rates(*found)
            off = sum((1 - rates.ns(point.flops, point.moved) / point.ns) ** 2 for point in points)
            if best is None or off < best[0] * (1 - 1e-9):
                best = (off, rates)
    if best is None:
        return Rates(statistics.median(point.ns for point in points), 0.0, 0.0)
    return best[1]


def _solved(points: Sequence[Point], places: Sequence[int]) -> list[float] | None:
    """The least squares of ``places`` of the three numbers, the others zero; by Gauss on the normal equations."""
    rows = [[value / point.ns for value in (1.0, float(point.flops), float(point.moved))] for point in points]
    scale = [max(row[place] for row in rows) or 1.0 for place in range(3)]
    size = len(places)
    matrix = [
        [sum(row[i] / scale[i] * row[j] / scale[j] for row in rows) for j in places]
        + [sum(row[i] / scale[i] for row in rows)]
        for i in places
    ]
    for step in range(size):
        pivot = max(range(step, size), key=lambda row: abs(matrix[row][step]))
        matrix[step], matrix[pivot] = matrix[pivot], matrix[step]
        if abs(matrix[step][step]) < 1e-12:
            return None
        for row in range(size):
            if row != step:
                share = matrix[row][step] / matrix[step][step]
                matrix[row] = [a - share * b for a, b in zip(matrix[row], matrix[step])]
    found = [0.0, 0.0, 0.0]
    for row, place in enumerate(places):
        found[place] = matrix[row][size] / matrix[row][row] / scale[place]
    return found


def left_out(points: Sequence[Point]) -> float:
    """The median relative error of a point that is priced by all the others."""
    if len(points) < 3:
        return 1.0
    off = []
    for place, point in enumerate(points):
        rates = fitted([*points[:place], *points[place + 1 :]])
        off.append(abs(rates.ns(point.flops, point.moved) / point.ns - 1))
    return statistics.median(off)


# ---- The grid


def grid() -> Iterator[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]]:
    """An operator and the shapes of what it gets."""
    yield from _products()
    yield from _convolutions()
    yield from _rows()
    for size in SIZES:
        square = (size // 64, 64)
        for one in (torch.relu, lambda x: x * 0.5, F.gelu, torch.tanh, F.silu):
            yield one, (square,)
        yield torch.add, (square, square)
        yield torch.mul, (square, square)
        yield lambda x: x.t().contiguous(), (square,)
        yield lambda x, y: torch.cat((x, y)), (square, square)
        yield lambda x: x.unsqueeze(0), (square,)
        picture = (1, size // 256, 16, 16)
        yield lambda x: F.batch_norm(x, *_statistics(x)), (picture,)
        yield lambda x: F.max_pool2d(x, 2), (picture,)
        yield lambda x: x.mean((2, 3)), (picture,)
        yield lambda x: F.embedding(torch.arange(x.shape[0], device=x.device), x), (square,)


def _products() -> Iterator[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]]:
    for rows, within, out in (
        (1, 64, 64), (8, 64, 64), (48, 64, 64), (48, 64, 96), (8, 256, 256), (64, 128, 512), (128, 256, 256),
        (64, 512, 512), (256, 256, 1024), (128, 768, 768), (256, 512, 512), (64, 768, 3072),
    ):  # fmt: skip
        yield F.linear, ((rows, within), (out, within), (out,))
    for heads, long, width in ((8, 24, 16), (8, 64, 32), (16, 128, 32), (8, 256, 64)):
        yield torch.matmul, ((heads, long, width), (heads, width, long))


def _convolutions() -> Iterator[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]]:
    for pictures, came, side, out, kernel, groups in (
        (1, 3, 32, 16, 3, 1), (2, 3, 64, 32, 3, 1), (2, 16, 32, 16, 3, 1), (2, 32, 32, 64, 3, 1), (2, 64, 28, 64, 3, 1),
        (1, 128, 14, 128, 3, 1), (2, 64, 28, 64, 1, 1), (2, 128, 28, 128, 1, 1), (1, 256, 14, 256, 1, 1),
        (2, 16, 16, 64, 1, 1), (1, 16, 32, 16, 3, 16), (2, 64, 28, 64, 3, 64), (1, 32, 56, 32, 3, 32),
        (2, 128, 14, 128, 3, 128), (2, 96, 14, 96, 5, 96),
    ):  # fmt: skip
        yield (lambda x, w, k=kernel, g=groups: F.conv2d(x, w, padding=k // 2, groups=g)), (
            (pictures, came, side, side), (out, came // groups, kernel, kernel),
        )  # fmt: skip


def _rows() -> Iterator[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]]:
    for width in ROWS:
        for rows in (8, 128, 1024):
            yield (lambda x, w=width: F.layer_norm(x, (w,))), ((rows, width),)
            yield (lambda x: torch.softmax(x, -1)), ((rows, width),)
    for heads, long, width in ((8, 24, 16), (8, 64, 32), (16, 128, 32), (8, 256, 64), (4, 512, 32)):
        yield F.scaled_dot_product_attention, ((1, heads, long, width),) * 3


def _statistics(x: Any) -> tuple[Any, Any]:
    return torch.zeros(x.shape[1], device=x.device), torch.ones(x.shape[1], device=x.device)


def measured(backend: Backend, price: Callable[[Call], float]) -> Calibration:
    """Every call of the grid, alone, on this device."""
    points = []
    for operator, shapes in grid():
        batch = tuple(torch.rand(shape).add_(0.1).to(backend.device) for shape in shapes)
        heard = calls.heard(lambda given, operator=operator: operator(*given), batch)
        call = max(heard, key=lambda each: (each.launches, each.moved))  # a view beside it is none of its cost
        points.append(Point(group(call), call.flops, call.moved, max(1.0, price(call))))
    return Calibration(points, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


# ---- Where it is kept


def of(backend: Backend, price: Callable[[Call], float]) -> Calibration:
    """That of this machine: from the cache, or measured now and kept."""
    path = _path(backend)
    found = _kept(path)
    if found is None:
        found = measured(backend, price)
        half = path.with_suffix(f".{os.getpid()}.half")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            half.write_text(json.dumps(found.as_dict()) + "\n", encoding="utf-8")
            half.replace(path)
        except OSError:  # a home that cannot be written: it is measured again next time
            pass
    return found


def _kept(path: Path) -> Calibration | None:
    try:
        told: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != FORMAT:
            return None
        points = [Point(str(each["group"]), int(each["flops"]), int(each["moved"]), float(each["ns"]))
                  for each in told["points"]]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Calibration(points, str(told["made_at"])) if points else None


def _path(backend: Backend) -> Path:
    told = backend.properties()
    same = (backend.name, told.get("name"), platform.node(), torch.__version__, platform.python_version(), FORMAT)
    digest = hashlib.sha256(json.dumps([str(each) for each in same]).encode()).hexdigest()[:16]
    return cache_dir() / "classes" / f"{backend.name}-{digest}.json"
