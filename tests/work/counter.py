"""The work of operators beside torch's own counter, on real calls: one step of a model is counted by both.

torch counts what it dispatches; npulens counts what the profiler wrote of the same step, with shapes and values, so the
whole way from a trace to a number is compared. The innermost operators with a model count: a launch leads to those.
The outermost ones say less where causal attention runs as whole products of matrices.

In one place torch's counter says too much. The gradient of a convolution's weights it takes as if there were no groups,
so each counts as often as there are groups. `groups` is how much that is.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.analysis.work.call import Call, Unmodelled, arguments, values
from npulens.analysis.work.families import Work
from npulens.analysis.work.models import work

#: What torch's counter has a formula for, by our families.
FAMILIES = ("matmul", "convolution", "attention")


@dataclass(frozen=True)
class Event:
    """One operator of a trace, and what npulens says of it."""

    name: str
    begin: float
    end: float
    thread: object
    work: Work
    groups: int = 0  # what torch counts too much for a gradient of grouped weights


@dataclass(frozen=True)
class Compared:
    """Operations of one step."""

    torch: int
    outermost: int
    innermost: int
    groups: int
    by_family: Mapping[str, int]
    by_torch: Mapping[str, int]
    unmodelled: tuple[str, ...]  # of the families, operators that were refused

    @property
    def equal(self) -> bool:
        return self.torch == self.innermost

    @property
    def explained(self) -> bool:
        return self.torch == self.innermost + self.groups


def compared(step: Callable[[], object]) -> Compared:
    """Both counts of one step, which is taken twice."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode:
        step()
    told = mode.get_flop_counts().get("Global", {})
    found = events(step)
    outer, inner = kept(found, outermost=True), kept(found, outermost=False)
    by_family: Counter[str] = Counter()
    for one in inner:
        by_family[one.work.family] += one.work.matrix or 0
    refused = {f"{one.name}: {one.work.reason}" for one in found
               if one.work.family in FAMILIES and one.work.matrix is None}  # fmt: skip
    by_torch = {str(op): int(count) for op, count in told.items()}
    return Compared(
        mode.get_total_flops(), _sum(outer), _sum(inner), sum(one.groups for one in inner), by_family, by_torch,
        tuple(sorted(refused)),
    )  # fmt: skip


def events(step: Callable[[], object]) -> list[Event]:
    """The operators of a step, as the profiler writes them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace = json.loads(path.read_text("utf-8"))
    return [_event(one) for one in trace["traceEvents"] if one.get("cat") == "cpu_op"]


def _event(one: Mapping[str, Any]) -> Event:
    told, groups = one.get("args", {}), 0
    given = values(json.dumps(told.get("Concrete Inputs", [])))
    try:
        inputs = arguments(json.dumps(told.get("Input Dims", [])), json.dumps(told.get("Input type", [])))
        found = work(Call(one["name"], inputs, given))
    except Unmodelled as refused:
        found = Work("unknown", None, None, None, reason=refused.reason)
    if one["name"] == "aten::convolution_backward" and found.matrix:
        of_x, of_weight, _ = (part.strip() == "True" for part in given[10].strip("[]").split(","))
        groups = (int(given[9]) - 1) * found.matrix // (of_x + of_weight) if of_weight else 0
    return Event(one["name"], float(one["ts"]), float(one["ts"]) + float(one["dur"]), one["tid"], found, groups)


def kept(found: Iterable[Event], outermost: bool) -> list[Event]:
    """Of operators within one another that have work of the matrix units, the outermost or the innermost ones."""
    counted = [one for one in found if one.work.matrix and one.work.family in FAMILIES]
    around: list[int] = []  # places of the operators that are open
    within: list[bool] = []  # whether another lies around it
    holds: list[bool] = []  # whether another lies within it
    ordered = sorted(counted, key=lambda event: (str(event.thread), event.begin, -event.end))
    for at, one in enumerate(ordered):
        while around and (ordered[around[-1]].thread != one.thread or ordered[around[-1]].end <= one.begin):
            around.pop()
        within.append(bool(around))
        holds.append(False)
        if around:
            holds[around[-1]] = True
        around.append(at)
    return [one for at, one in enumerate(ordered) if not (within[at] if outermost else holds[at])]


def _sum(found: Iterable[Event]) -> int:
    return sum(one.work.matrix or 0 for one in found)
