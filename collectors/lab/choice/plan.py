"""A plan: parts that go together, and how a program becomes what it says.

A part is a rewrite, an assignment of types, a way with shapes or a number of threads. Parts of one plan are applied in
one order: rewrites of the graph, types, rewrites around it, shapes, the compiler, threads. Of most kinds a plan has at
most one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewrite

GRAPH, PRECISION, AROUND, SHAPES, COMPILER, THREADS = "graph", "precision", "around", "shapes", "compiler", "threads"
ORDER = (GRAPH, PRECISION, AROUND, SHAPES, COMPILER, THREADS)
#: Kinds of which a plan may have several.
_SEVERAL = (GRAPH, AROUND)
#: Of parts of which there may be several only so many of the fastest are combined.
_COMBINED = 5


@dataclass(frozen=True)
class Part:
    """One thing that a plan does."""

    kind: str
    name: str


Plan = tuple[Part, ...]
ORIGINAL: Plan = ()
#: From a program, and whether it takes other shapes than one, to what is called in its place.
Make = Callable[[Any, bool], Any]


def together(parts: Sequence[Part]) -> Plan:
    """A plan of these parts in the order in which they are applied."""
    return tuple(sorted(parts, key=lambda part: (ORDER.index(part.kind), part.name)))


def reordered(plan: Plan) -> Plan:
    """The same plan with its rewrites of the graph the other way round: one may hide what another looks for."""
    return (*reversed([part for part in plan if part.kind == GRAPH]), *(part for part in plan if part.kind != GRAPH))


def combined(levels: Mapping[Part, float], most: int) -> list[Plan]:
    """Plans of two parts and more, the most promising first, as if what each part gives were multiplied.

    ``levels``: the logarithm of the time of each part alone as a share of the original's.
    """
    of: dict[str, list[Part]] = {}
    for part in sorted(levels, key=lambda one: (levels[one], one.name)):
        of.setdefault(part.kind, []).append(part)
    choices: list[list[Plan]] = []
    for kind in ORDER:
        there = of.get(kind, [])
        if kind in _SEVERAL:
            there = there[:_COMBINED]
            choices.append([found for n in range(len(there) + 1) for found in itertools.combinations(there, n)])
        else:
            choices.append([(), *((part,) for part in there)])
    plans = [together([part for each in some for part in each]) for some in itertools.product(*choices)]
    several = [plan for plan in plans if len(plan) > 1]
    return sorted(several, key=lambda plan: (sum(levels[part] for part in plan), len(plan)))[:most]


def kind_of(program: Any, made: Any) -> str:
    """What a rewrite is, from what it makes of a program."""
    if graph.is_graph(made):
        return GRAPH
    return COMPILER if hasattr(made, "_orig_mod") else AROUND


@dataclass(frozen=True)
class Ways:
    """What parts that are no rewrites do, by their names."""

    precision: Mapping[str, Callable[[Any], Any]]
    shapes: Mapping[str, Callable[[Any, Make], Any]]
    rewrites: Mapping[str, Rewrite]


def made(plan: Plan, program: Any, asked: Asked, ways: Ways) -> Any:
    """What is called in place of the program; the program itself stays as it is."""
    model = graph.copied(program)
    compiler = next((ways.rewrites[part.name] for part in plan if part.kind == COMPILER), None)
    for part in plan:
        if part.kind in (GRAPH, AROUND):
            model = _applied(ways.rewrites[part.name], model, asked, asked.dynamic)
        elif part.kind == PRECISION:
            model = ways.precision[part.name](model)

    def compiled(one: Any, dynamic: bool) -> Any:
        return one if compiler is None else _applied(compiler, one, asked, dynamic)

    shapes = next((ways.shapes[part.name] for part in plan if part.kind == SHAPES), None)
    model = compiled(model, asked.dynamic) if shapes is None else shapes(model, compiled)
    threads = next((int(part.name) for part in plan if part.kind == THREADS), None)
    return model if threads is None else Around(model, lambda: _Threads(threads))


def _applied(rewrite: Rewrite, model: Any, asked: Asked, dynamic: bool) -> Any:
    told = Asked(asked.training, asked.gradients, dynamic, asked.device, graph.is_graph(model))
    return rewrite.apply(model, told).model


class Around(torch.nn.Module):  # type: ignore[misc]  # mypy does not look into torch
    """A program that is called within something."""

    def __init__(self, model: Any, within: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self.model, self._within = model, within

    def forward(self, tensors: Any) -> Any:
        with self._within():
            return self.model(tensors)


class _Threads:
    """torch computes on so many threads, and afterwards on as many as before."""

    def __init__(self, count: int) -> None:
        self._count, self._before = count, count

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()
        torch.set_num_threads(self._count)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._before)


__all__ = ["DoesNotApply", "Part", "Plan", "Ways", "combined", "kind_of", "made", "together"]
