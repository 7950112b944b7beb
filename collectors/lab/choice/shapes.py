"""Ways with the job's own mix of shapes: a graph for each shape, or a few graphs to which inputs are padded.

A program that takes any size is one way; `compile` makes one kernel of any size of it. Here is what else can be done:
every shape gets a graph of its own, or sizes are padded to a few edges and results are cut again. Whether padding is
right the judge says: what is padded with, and whether a mask hides it, is found out by trying.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.choice import buckets
from npulens.collectors.lab.choice.plan import Make
from npulens.collectors.lab.subject import Subject

Shapes = tuple[tuple[int, ...], ...]
#: Shapes of the job that are computed with; the rarer ones run as before.
MOST = 8
#: How many edges are tried for each size that varies.
EDGES = (1, 2, 3)


@dataclass(frozen=True)
class Axis:
    """A size that varies: where it stands in the tensors that come in, and what it is in each shape of the job."""

    places: tuple[tuple[int, int], ...]  # tensor, dimension
    sizes: tuple[int, ...]
    calls: tuple[int, ...]

    @property
    def counts(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for size, calls in zip(self.sizes, self.calls):
            found[size] = found.get(size, 0) + calls
        return found


def axes(shapes: Sequence[Shapes], calls: Sequence[int]) -> list[Axis]:
    """The sizes that vary between shapes; dimensions that are alike in all shapes are one."""
    places: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for tensor, first in enumerate(shapes[0]):
        for dimension in range(len(first)):
            sizes = tuple(shape[tensor][dimension] for shape in shapes)
            if len(set(sizes)) > 1:
                places.setdefault(sizes, []).append((tensor, dimension))
    return [Axis(tuple(each), sizes, tuple(calls)) for sizes, each in places.items()]


def shape_of(batch: Sequence[Any]) -> Shapes:
    """The shapes of a batch."""
    return tuple(tuple(int(size) for size in each.shape) for each in batch)


def widened(subject: Subject) -> Subject:
    """The subject with a batch of each of the job's commonest shapes; one that was not kept is made of a kept one.

    A program of one shape keeps the batches that it has.
    """
    if not subject.about.dynamic:
        return subject
    there = {shape_of(batch): batch for batch in reversed(subject.batches)}
    batches = list(subject.batches)
    for shape in sorted(subject.about.shapes, key=lambda one: -one.calls)[:MOST]:
        if shape.shapes not in there:
            batches.append(_stretched(next(iter(there.values())), shape.shapes))
    outputs = (*subject.outputs, *[None] * (len(batches) - len(subject.batches)))
    return replace(subject, batches=tuple(batches), outputs=outputs)


def _stretched(batch: Sequence[Any], shapes: Shapes) -> tuple[Any, ...]:
    """The numbers of a batch repeated and cut to other shapes."""
    found = []
    for tensor, shape in zip(batch, shapes):
        for dimension, size in enumerate(shape):
            times = -(-size // max(1, tensor.shape[dimension]))
            tensor = torch.cat([tensor] * times, dimension).narrow(dimension, 0, size) if size else tensor
        found.append(tensor.contiguous())
    return tuple(found)


@dataclass(frozen=True)
class Padding:
    """Which sizes are padded to which edges, and with what each tensor is filled."""

    axes: tuple[Axis, ...]
    edges: tuple[tuple[int, ...], ...]  # of each axis
    fills: tuple[float, ...]  # of each tensor

    def target(self, shapes: Shapes) -> Shapes:
        """The shapes to which a batch is padded."""
        sizes = [list(shape) for shape in shapes]
        for axis, at in zip(self.axes, self.edges):
            for tensor, dimension in axis.places:
                sizes[tensor][dimension] = buckets.edge(sizes[tensor][dimension], at)
        return tuple(map(tuple, sizes))

    def padded(self, tensors: Sequence[Any], target: Shapes) -> tuple[Any, ...]:
        """A batch of the target's shapes."""
        return tuple(_padded(*each) for each in zip(tensors, target, self.fills))


def _padded(tensor: Any, shape: Sequence[int], fill: float) -> Any:
    more = [size - have for size, have in zip(shape, tensor.shape)]
    if not any(more):
        return tensor
    pairs = [each for size in reversed(more) for each in (0, size)]
    return torch.nn.functional.pad(tensor, pairs, value=bool(fill) if tensor.dtype == torch.bool else fill)


def fills(batches: Sequence[Sequence[Any]]) -> Iterator[tuple[float, ...]]:
    """What tensors may be padded with: zeros, and for what looks like a mask both of its values."""
    options = []
    for tensor in range(len(batches[0])):
        every = torch.cat([batch[tensor].flatten() for batch in batches])
        if not every.numel():
            options.append([0.0])
        elif every.is_floating_point():
            low = float(every.min())
            options.append([0.0, low] if low < -1e3 else [0.0])
        elif every.dtype == torch.bool or set(every.unique().tolist()) <= {0, 1}:
            options.append([0.0, 1.0])
        else:
            options.append([0.0])
    yield from itertools.product(*options)


class Ways(torch.nn.Module):  # type: ignore[misc]  # mypy does not look into torch
    """Calls for each shape the graph that was made for it; any other shape runs in the program itself."""

    def __init__(self, program: Any, graphs: Mapping[Shapes, Any], padding: Padding | None,
                 results: Mapping[Shapes, Shapes]) -> None:  # fmt: skip
        super().__init__()
        self.program, self.graphs = program, torch.nn.ModuleList(_module(each) for each in graphs.values())
        self._place = {shapes: place for place, shapes in enumerate(graphs)}
        self._padding, self._results = padding, dict(results)
        self._target = {shapes: padding.target(shapes) if padding else shapes for shapes in results}

    def forward(self, tensors: Any) -> Any:
        shapes = shape_of(tensors)
        target = self._target.get(shapes)
        if target is None:
            return self.program(tensors)
        one = self.graphs[self._place[target]]
        if self._padding is None or target == shapes:
            return one(tensors)
        found = one(self._padding.padded(tensors, target))
        return tuple(_cut(each, shape) for each, shape in zip(found, self._results[shapes]))


class _Called(torch.nn.Module):  # type: ignore[misc]
    """A callable as a module."""

    def __init__(self, called: Callable[..., Any]) -> None:
        super().__init__()
        self._called = called

    def forward(self, tensors: Any) -> Any:
        return self._called(tensors)


def _module(model: Any) -> Any:
    return model if isinstance(model, torch.nn.Module) else _Called(model)


def _cut(tensor: Any, shape: Sequence[int]) -> Any:
    for dimension, size in enumerate(shape):
        if tensor.shape[dimension] != size:
            tensor = tensor.narrow(dimension, 0, size)
    return tensor


def way(batches: Sequence[Sequence[Any]], results: Mapping[Shapes, Shapes], padding: Padding | None,
        static: bool = True) -> Callable[[Any, Make], Any]:  # fmt: skip
    """A way with shapes as a plan uses it. Without ``static`` all shapes run in the program of any size."""

    def made(model: Any, compiled: Make) -> Any:
        graphs: dict[Shapes, Any] = {}
        for batch in batches:
            target = padding.target(shape_of(batch)) if padding else shape_of(batch)
            if target not in graphs:
                example = padding.padded(batch, target) if padding else tuple(batch)
                graphs[target] = compiled(_static(model, example), False) if static else model
        return Ways(model, graphs, padding, results)

    return made


def _static(model: Any, batch: Sequence[Any]) -> Any:
    """The program for one shape, with the same weights."""
    with torch.no_grad():
        exported = torch.export.export(model, (tuple(each.clone() for each in batch),))
    return graph.clean(exported.module())


def results_of(program: Any, batches: Sequence[Sequence[Any]]) -> dict[Shapes, Shapes]:
    """The shapes of the results for each shape of a batch."""
    found = {}
    with torch.no_grad():
        for batch in batches:
            found[shape_of(batch)] = shape_of(program(tuple(each.clone() for each in batch)))
    return found


def paddings(of: Sequence[Axis], fill: tuple[float, ...]) -> dict[str, Padding]:
    """Padding of these axes to one, two and more edges each, by name."""
    found = {}
    most = max(len(axis.counts) for axis in of)
    for count in EDGES:
        if count < most:
            at = tuple(buckets.edges(axis.counts, min(count, len(axis.counts))) for axis in of)
            found[f"padded-{count}"] = Padding(tuple(of), at, fill)
    return found


def work(padding: Padding | None, shapes: Sequence[Shapes], calls: Sequence[int]) -> float:
    """Elements that come in more than without padding, over the job's mix, as a share."""
    if padding is None:
        return 0.0

    def elements(some: Shapes) -> int:
        return sum(int(torch.Size(shape).numel()) for shape in some)

    real = sum(elements(each) * count for each, count in zip(shapes, calls))
    return sum(elements(padding.target(each)) * count for each, count in zip(shapes, calls)) / max(1, real) - 1.0
