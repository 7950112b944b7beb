"""The ladder of precisions: the same network learns digits in float32, bfloat16 and float16, each with its accuracy.

Digits are those of scikit-learn where it is installed, else ten shapes of this job's own under noise. ``overflows``
multiplies the loss by a number that float16 cannot hold and looks at nothing; the fix is torch.amp.GradScaler, which
leaves such a step out and tries a smaller number. Speeds are ratios of float32's time, measured in turns: on a
processor the time that a core works, on a device that of the wall.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.harness.cpu_time import has_cpu_time
from npulens.collectors.harness.steady import midmean
from npulens.collectors.harness.versus import judge
from npulens.collectors.jobs import job
from npulens.collectors.jobs.job import Plant
from npulens.collectors.lab.measuring import peak_bytes

PLANTS = {
    "overflows": Plant("the loss is scaled beyond float16, and nobody looks", "torch.amp.GradScaler", ()),
}  # fmt: skip
_KINDS, _BATCH, _ROUNDS, _BITE, _TOO_LARGE = 10, 64, 8, 3, 2.0**40


@dataclass(frozen=True)
class Line:
    """One line of the ladder: what it computes in, and whether a scaler watches over it."""

    name: str
    dtype: torch.dtype | None  # None: float32 throughout
    scaler: bool = False
    scale: float = 1.0  # by which the loss is multiplied where no scaler does


@dataclass(frozen=True)
class Data:
    """Digits to learn from, and others to be asked."""

    source: str
    pictures: torch.Tensor
    digits: torch.Tensor
    asked: torch.Tensor
    answers: torch.Tensor


def lines(told: job.Asked) -> list[Line]:
    """From float32 down."""
    half = torch.float16
    found = [Line("float32", None), Line("bfloat16", torch.bfloat16), Line("float16, no scale", half)]
    if told.plant != "overflows":
        return [*found, Line("float16, GradScaler", half, True)]
    planted = Line("float16, scale 2^40", half, scale=_TOO_LARGE)
    return [*found, Line("float16, GradScaler from 2^40", half, True, _TOO_LARGE) if told.fixed else planted]


def data(seed: int) -> Data:
    """Four fifths to learn from."""
    if importlib.util.find_spec("sklearn") is not None:
        loaded: Any = importlib.import_module("sklearn.datasets").load_digits()
        source, pictures = "scikit-learn digits", torch.tensor(loaded.data, dtype=torch.float32) / 16
        digits = torch.tensor(loaded.target)
    else:
        numbers = torch.Generator().manual_seed(seed)
        shapes, digits = torch.rand(_KINDS, 64, generator=numbers), torch.arange(1800) % _KINDS
        source = "ten shapes of 8 x 8 under noise"
        pictures = shapes[digits] + 0.45 * torch.randn(len(digits), 64, generator=numbers)
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(1))
    known, others = order.split([len(order) * 4 // 5, len(order) - len(order) * 4 // 5])
    return Data(source, pictures[known], digits[known], pictures[others], digits[others])


class Training:
    """One network on one line of the ladder."""

    def __init__(self, line: Line, given: Data, told: job.Asked) -> None:
        torch.manual_seed(told.seed)
        self._line, self._given, self._device = line, given, told.device
        self.model = nn.Sequential(
            nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, _KINDS)
        ).to(told.device)
        self._optimizer = torch.optim.SGD(self.model.parameters(), 0.05, 0.9)
        kind = torch.device(told.device).type
        start = line.scale if line.scale > 1 else 2.0**16
        self._scaler = torch.amp.GradScaler(kind, init_scale=start, enabled=line.scaler)
        self._order, self._steps, self.skipped = torch.Generator().manual_seed(told.seed), 0, 0

    def _precision(self) -> Any:
        if self._line.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self._device).type, self._line.dtype)

    def step(self) -> torch.Tensor:
        """Forward, backward, update; a step whose gradients overflowed updates nothing if a scaler watches."""
        rows = torch.randint(0, len(self._given.digits), (_BATCH,), generator=self._order)
        with self._precision():
            scores = self.model(self._given.pictures[rows].to(self._device))
            loss = nn.functional.cross_entropy(scores, self._given.digits[rows].to(self._device))
            if self._line.scale > 1 and not self._line.scaler:
                loss = loss.to(torch.float16) * self._line.scale
        self._optimizer.zero_grad()
        self._scaler.scale(loss).backward()
        if self._line.scale > 1 and not self._line.scaler:
            for parameter in self.model.parameters():
                assert parameter.grad is not None
                parameter.grad /= self._line.scale
        before = self._scaler.get_scale()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self.skipped += self._scaler.get_scale() < before
        return loss.detach()

    def accuracy(self) -> float:
        """The share of digits that it tells right, of those that it never saw."""
        with torch.no_grad(), self._precision():
            found = self.model(self._given.asked.to(self._device)).argmax(1).cpu()
        return float((found == self._given.answers).float().mean())

    def scale(self) -> float | None:
        return self._scaler.get_scale() if self._line.scaler else None


def _bite(training: Training, backend: Backend) -> list[int]:
    """A few steps in a row, each in ns."""
    took, now = list[int](), time.thread_time_ns if has_cpu_time(backend) else time.perf_counter_ns
    for _ in range(_BITE):
        begun = now()
        training.step()
        backend.synchronize()
        took.append(now() - begun)
    return took


def speeds(made: list[Training], backend: Backend) -> list[dict[str, Any]]:
    """What a step of each takes, in turns whose order changes; the ratio to the first has an interval."""
    levels: list[list[float]] = [[] for _ in made]
    watts: list[list[float]] = [[] for _ in made]
    for round_number in range(-1, _ROUNDS):
        for number in range(len(made)) if round_number % 2 else reversed(range(len(made))):
            took = midmean(_bite(made[number], backend))
            if round_number >= 0:
                levels[number].append(took)
                watts[number] += _power(backend)
    found = list[dict[str, Any]]()
    for number, mine in enumerate(levels):
        verdict = judge([y / x for x, y in zip(levels[0], mine)]) if number else None
        found.append({
            "step_ns": round(statistics.median(mine)), "ratio": verdict and verdict.ratio,
            "low": verdict and verdict.low, "high": verdict and verdict.high,
            "power_w": statistics.fmean(watts[number]) if watts[number] else None,
        })  # fmt: skip
    return found


def _power(backend: Backend) -> Iterator[float]:
    """What a sensor says, where there is one; a processor has none that anybody may read."""
    if backend.name in ("npu", "cuda"):
        watts = backend.telemetry().power_w
        if watts is not None:
            yield watts


def ladder(told: job.Asked) -> list[dict[str, Any]]:
    """Every line: accuracy, speed, memory, and energy where a sensor tells power."""
    given = data(told.seed)
    backend = open_backend(torch.device(told.device).type)
    there = lines(told)
    timed = speeds([Training(line, given, told) for line in there], backend)
    found = list[dict[str, Any]]()
    for line, speed in zip(there, timed):
        training = Training(line, given, told)
        for _ in range(told.steps):
            training.step()
        watts = speed.pop("power_w")
        found.append({
            "line": line.name, "data": given.source, "accuracy": training.accuracy(), "skipped": training.skipped,
            "scale": training.scale(), "peak_bytes": peak_bytes(backend, training.step), **speed,
            "joules_a_sample": None if watts is None else watts * speed["step_ns"] / 1e9 / _BATCH,
        })  # fmt: skip
    return found


def text(found: list[dict[str, Any]]) -> str:
    """The table; no line of it is without its accuracy."""

    def joules(line: dict[str, Any]) -> str:
        return "not measured" if line["joules_a_sample"] is None else f"{line['joules_a_sample']:.2e}"

    rows = ["| precision | accuracy | time of float32's | step, ms | peak, KiB | steps left out | scale at the end | "
            "joules a sample |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for line in found:
        ratio = "1" if line["ratio"] is None else f"{line['ratio']:.2f} [{line['low']:.2f}, {line['high']:.2f}]"
        peak = "not measured" if line["peak_bytes"] is None else f"{line['peak_bytes'] / 1024:.0f}"
        scale = "-" if line["scale"] is None else f"{line['scale']:g}"
        rows.append(
            f"| {line['line']} | {line['accuracy']:.1%} | {ratio} | {line['step_ns'] / 1e6:.2f} | {peak} | "
            f"{line['skipped']} | {scale} | {joules(line)} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = job.parser("ladder", __doc__, PLANTS, 240)
    parser.add_argument("--table", action=argparse.BooleanOptionalAction, default=True, help="print the table as well")
    given = parser.parse_args()
    told = job.asked("ladder", given)
    begun = time.perf_counter_ns()
    found = ladder(told)
    if given.table:
        print(text(found))
    job.say(told, [(time.perf_counter_ns() - begun) // told.steps], found[0]["accuracy"], {"lines": found})


if __name__ == "__main__":
    main()
