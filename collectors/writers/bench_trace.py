"""Traces of any length for measuring readers: one small simulated job, laid end to end until there are enough events.

Each lap shifts every stamp and renumbers every id, so that arrows stay within their lap. The small job is rendered
once, its numbers are cut out of the text, and each lap only fills new ones in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.job import Job, RankRecord
from npulens.collectors.simulator.simulate import simulate
from npulens.collectors.writers.ascend import AscendOptions
from npulens.collectors.writers.kineto import base_time, footer, header, open_text, trace_events
from npulens.collectors.writers.kineto_events import KinetoView
from npulens.collectors.writers.kineto_names import Spelling
from npulens.collectors.writers.torch_npu_text import trace_events as ascend_events
from npulens.collectors.writers.trace_device import DeviceView
from npulens.collectors.writers.trace_host import HostView

_STEPS = 4
_IDS = 50_000  # no id of one lap is as large, nor twice its spans, so laps keep apart
#: Not in every lap: the names of the lanes, and the marks at either end of a capture.
_ONCE = ('"ph": "M"', '"name": "PROFILING_')
_SHARED = {
    '"Sequence number": ': "id",
    '"Python id": ': "id",
    '"Python parent id": ': "id",
    "ProfilerStep#": "step",
}
#: What stands before a number that changes from lap to lap -> how it changes.
_ASCEND = _SHARED | {
    '"ts": "': "us",
    '"torch_to_npu", "id": ': "ns",
    "HostToDevice": "flow",
    '"cat": "HostToDevice", "id": "': "flow",
    '"ph": "f", "id": "': "flow",
    '"connection_id": ': "id",
    '"correlation_id": ': "id",
    '"enqueue_to_dequeue", "id": ': "id",
    '"fwdbwd", "id": ': "id",
}
_KINETO = _SHARED | {
    '"ts": ': "us",
    '"id": ': "id",
    '"External id": ': "id",
    '"correlation": ': "id",
    '"Ev Idx": ': "id",
}
#: (events that stand once, events of one lap) -> how often the lap is written.
Laps = Callable[[int, int], float]


@dataclass(frozen=True)
class Lap:
    """Events as a template, with the numbers of the first lap and what one more lap adds to each."""

    template: str
    first: tuple[int, ...]
    stride: tuple[int, ...]

    def text(self, lap: int) -> str:
        return self.template % tuple([base + lap * more for base, more in zip(self.first, self.stride, strict=True)])


def write_trace_view(path: Path, events: int, seed: int) -> int:
    """A trace_view.json of about ``events`` events; says how many there are."""
    job, record = _job(seed)
    return replicate_text(path, job, record, AscendOptions(), lambda names, lap: max(events - names, 0) / lap)


def write_kineto_file(path: Path, events: int, seed: int) -> int:
    """A Kineto trace of about ``events`` events, gzipped if the name ends in .gz; says how many there are."""
    job, record = _job(seed, task_queue=False)
    return replicate_kineto(path, job, record, lambda names, lap: max(events - names, 0) / lap)


def replicate_text(path: Path, job: Job, record: RankRecord, options: AscendOptions, laps: Laps) -> int:
    """A trace_view.json of one rank's events, ``laps(names, events of one lap)`` times over."""
    host, device = HostView(record), DeviceView(record, options)
    names = [*host.metadata(), *device.metadata()]
    texts = [text for text in ascend_events(record, options) if not any(mark in text for mark in _ONCE)]
    with path.open("w", encoding="utf-8") as file:
        file.write("[" + ", ".join(names))
        count = _fill(file, texts, laps(len(names), len(texts)), ", ", lambda kept: _lap(kept, _ASCEND, job, ", "))
        file.write("]")
    return count + len(names)


def replicate_kineto(path: Path, job: Job, record: RankRecord, laps: Laps) -> int:
    """A Kineto trace of one rank's events, ``laps(names, events of one lap)`` times over."""
    spelling = Spelling("cuda")
    texts = list(trace_events(job, record, spelling))
    names = list(KinetoView(job, record, spelling, base_time(job)).metadata())
    with open_text(path, path.suffix == ".gz") as file:
        file.write(header(job, record, spelling) + ",\n".join(names))
        count = _fill(file, texts, laps(len(names), len(texts)), ",\n", lambda kept: _lap(kept, _KINETO, job, ",\n"))
        file.write(footer(job, record))
    return count + len(names)


def lap_ns(job: Job) -> int:
    """By how much one lap comes after the one before: whole microseconds."""
    return (max(record.end_ns - record.begin_ns for record in job.ranks) // 1000 + 1) * 1000


def _job(seed: int, task_queue: bool = True) -> tuple[Job, RankRecord]:
    """Two seeds make the two ranks of one job."""
    config = SimConfig(seed=seed // 2, ranks=2, steps=_STEPS, layers=4, first_step=0, task_queue=task_queue)
    job = simulate(config)
    return job, job.ranks[seed % 2]


def _fill(file: TextIO, texts: list[str], laps: float, separator: str, make: Callable[[Sequence[str]], Lap]) -> int:
    """Whole laps, and one cut short, until there are enough."""
    whole, rest = int(laps), round(laps % 1 * len(texts))
    made = make(texts)
    for lap in range(whole):
        file.write(separator + made.text(lap))
    if rest:
        file.write(separator + make(texts[:rest]).text(whole))
    return whole * len(texts) + rest


def _lap(texts: Sequence[str], rules: Mapping[str, str], job: Job, separator: str) -> Lap:
    """Cuts the numbers that change from lap to lap out of the events."""
    us, ids = lap_ns(job) // 1000, max(_IDS, 2 * max(len(record.spans) for record in job.ranks))
    strides = {"us": us, "ns": us, "id": ids, "flow": ids << 32, "step": job.config.steps}
    prefixes = sorted(rules, key=len, reverse=True)  # the longest that fits counts
    pattern = re.compile("(" + "|".join(map(re.escape, prefixes)) + r")(\d+)")
    first: list[int] = []
    stride: list[int] = []

    def cut(match: re.Match[str]) -> str:
        kind, digits, rest = rules[match[1]], match[2], ""
        if kind == "ns":  # a lap is whole microseconds, so the last three digits stay
            digits, rest = digits[:-3], digits[-3:]
        first.append(int(digits))
        stride.append(strides[kind])
        return f"{match[1]}%d{rest}"

    template = pattern.sub(cut, separator.join(texts).replace("%", "%%"))
    return Lap(template, tuple(first), tuple(stride))
