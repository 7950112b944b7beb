"""What the edits of scenarios share: the cost of a step, where an operator can be inserted, and new operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.items import Allocate, Close, Item, KernelSpec, Launch, Open, Switch
from npulens.collectors.simulator.model import build_step

_DTYPES = {
    "FLOAT": "float",
    "DOUBLE": "double",
    "INT64": "long int",
    "BOOL": "bool",
    "COMPLEX64": "c10::complex<float>",
}


@dataclass(frozen=True)
class InsertionPoint:
    """A place between two operators of a step."""

    index: int  # of the item before which it lies
    stack: tuple[str, ...]  # the Python frames there


@lru_cache(maxsize=64)
def kernels_ns(config: SimConfig) -> dict[str, int]:
    """What each type of kernel costs in a healthy step."""
    found: dict[str, int] = {}
    for item in build_step(config):
        for kernel in item.kernels if isinstance(item, Launch) else ():
            found[kernel.op_type] = found.get(kernel.op_type, 0) + kernel.base_ns
    return found


def busy_ns(config: SimConfig) -> int:
    """The device's work of a healthy step, which is what such a step lasts."""
    return sum(kernels_ns(config).values())


def launches(item: Item, *op_types: str) -> bool:
    """Whether the item launches a kernel of one of these types."""
    return isinstance(item, Launch) and any(kernel.op_type in op_types for kernel in item.kernels)


def insertion_points(items: Sequence[Item]) -> list[InsertionPoint]:
    """The points of the forward pass right behind an outermost operator that launched something.

    Operators of other faults are ignored, so the points do not depend on what else is planted.
    """
    found: list[InsertionPoint] = []
    opened: list[Open] = []
    launched = False
    for index, item in enumerate(items):
        if isinstance(item, Switch):
            break
        if isinstance(item, Open):
            opened.append(item)
        elif isinstance(item, Launch) and item.stream == "compute" and item.place >= 0:
            launched = True
        elif isinstance(item, Close):
            closed = opened.pop()
            if launched and closed.what == "cpu_op" and not any(one.what == "cpu_op" for one in opened):
                found.append(InsertionPoint(index + 1, closed.stack))
                launched = False
    return found


def inserted(items: Sequence[Item], new: Mapping[int, Sequence[Item]]) -> list[Item]:
    """``items`` with new ones before those at the indexes."""
    found: list[Item] = []
    for index, item in enumerate(items):
        found += new.get(index, ())
        found.append(item)
    return found


def operator(name: str, api: str, kernel: KernelSpec, stack: tuple[str, ...]) -> list[Item]:
    """An operator that launches one kernel, as a script calls it."""
    shapes = tuple(kernel.inputs.shapes.split(";"))
    dtypes = tuple(_DTYPES.get(dtype, "c10::BFloat16") for dtype in kernel.inputs.dtypes.split(";"))
    return [Open("cpu_op", name, 3_500, shapes, dtypes, stack), Launch(api, (kernel,), stack), Close(1_200)]


def surroundings(items: Sequence[Item], at: int) -> tuple[int, int]:
    """Where the operator of the launch at that index opens and closes."""
    opened = at - 1
    while isinstance(items[opened], Allocate):
        opened -= 1
    if not (isinstance(items[opened], Open) and isinstance(items[at + 1], Close)):
        raise ValueError(f"the operator of item {at} does more than launch")
    return opened, at + 1
