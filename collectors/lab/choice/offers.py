"""What a subject can be offered besides rewrites: its modules in other types, and other ways with its shapes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from npulens.collectors.backends.backend import Backend
from npulens.collectors.lab import graph, judging
from npulens.collectors.lab.choice import buckets, precision, shapes
from npulens.collectors.lab.choice.plan import Around, Make
from npulens.collectors.lab.subject import Subject

#: Types module by module; every module in one type; and float32 whose products are rounded.
MIXED, TF32, HF32 = "mixed", "tf32", "hf32"
_FEW_FILLS = 8


@dataclass(frozen=True)
class Types:
    """Ways with types, what each computes in, and what was found out about every module."""

    ways: Mapping[str, Callable[[Any], Any]]
    shortest: Mapping[str, str]  # bfloat16, float16, or "" for rounded products
    told: Mapping[str, Any]


def types(
    subject: Subject, truths: Sequence[judging.Truth], backend: Backend, allowed: Callable[[Any, str], bool],
    enough: Callable[[], bool],
) -> Types:  # fmt: skip
    """``allowed``: whether a program in types, the shortest of which is named, is right enough."""
    about = subject.about
    why = _not_short(subject)
    short = (
        {TF32: _rounded(TF32)} if backend.name == "cuda" else {HF32: _rounded(HF32)} if backend.name == "npu" else {}
    )
    if about.training or about.gradients or not graph.is_graph(subject.program):
        short = {}
    if why is not None:
        return Types(short, dict.fromkeys(short, ""), {"why": why, "modules": [], "chosen": {}})
    batch = subject.batches[0]
    there = precision.Precisions(subject.program, batch, truths, backend)
    items = there.items(enough)

    def all_right(some: precision.Types) -> bool:
        if not some:
            return True
        return allowed(lambda program: precision.in_types(program, some, batch).program, _shortest(some))

    least = precision.LEAST * sum({item.unit: item.ns for item in items}.values())
    taken = precision.chosen(items, all_right, least)
    whole = {dtype: dict.fromkeys(precision.units(subject.program), dtype) for dtype in precision.SHORT}
    some: dict[str, precision.Types] = {**({MIXED: taken} if taken and taken not in whole.values() else {}), **whole}
    ways = {name: _typed(each, batch) for name, each in some.items()}
    told = {"why": None, "modules": [asdict(item) for item in items], "chosen": taken}
    shortest = {name: _shortest(each) for name, each in some.items()}
    return Types({**ways, **short}, {**shortest, **dict.fromkeys(short, "")}, told)


def _typed(some: precision.Types, batch: Sequence[Any]) -> Callable[[Any], Any]:
    return lambda program: precision.in_types(program, some, batch).program


def _shortest(some: precision.Types) -> str:
    return next(dtype for dtype in precision.SHORT if dtype in some.values())


def _not_short(subject: Subject) -> dict[str, Any] | None:
    """Why no module can be given another type; None where it can."""
    if not graph.is_graph(subject.program):
        return {"name": "no_graph", "values": {}}
    if subject.about.training or subject.about.gradients:
        return {"name": "short_training", "values": {"dtype": " / ".join(precision.SHORT)}}
    if subject.about.autocast:
        return {"name": "autocast", "values": {"dtype": subject.about.autocast}}
    if not any(weight.dtype == torch.float32 for weight in subject.program.parameters()):
        return {"name": "short_already", "values": {"dtype": " / ".join(precision.SHORT)}}
    return None


def _rounded(name: str) -> Callable[[Any], Any]:
    return lambda program: Around(program, lambda: _rounding(name))


@contextmanager
def _rounding(name: str) -> Iterator[None]:
    """Products of float32 rounded to ten bits, on a device that has units for it."""
    place: Any = torch.backends.cuda.matmul if name == TF32 else getattr(torch, "npu").matmul  # noqa: B009
    switch = "allow_tf32" if name == TF32 else "allow_hf32"
    before = getattr(place, switch)
    setattr(place, switch, True)
    try:
        yield
    finally:
        setattr(place, switch, before)


@dataclass(frozen=True)
class Shaped:
    """Ways with shapes, and what was found out about each size that varies."""

    ways: Mapping[str, Callable[[Any, Make], Any]]
    told: Mapping[str, Any]


def shaped(subject: Subject, judge: Callable[[Callable[[Any], Any]], judging.Errors]) -> Shaped:
    """``judge`` says of a callable made from each program how far it is off."""
    about = subject.about
    every = [shape.shapes for shape in about.shapes]
    calls = [shape.calls for shape in about.shapes]
    found = shapes.axes(every, calls) if len(every) > 1 else []
    why = None
    if not found:
        why = "one_shape"
    elif not graph.is_graph(subject.program):
        why = "no_graph"
    elif about.training or about.gradients:
        why = "gradients"
    elif not about.dynamic:
        why = "captured_for_one"
    if why is not None:
        return Shaped({}, {"why": {"name": why, "values": {}}, "axes": [], "ways": {}})
    results = shapes.results_of(subject.program, subject.batches)
    right, told = [], []
    fill: dict[int, float] = {}
    for axis in found:
        fills, errors = _fills(subject, axis, results, judge)
        told.append({
            "places": [list(place) for place in axis.places], "sizes": sorted(axis.counts.items()),
            "fills": fills, "refused": None if errors is None or errors.ok else errors.why,
        })  # fmt: skip
        if fills is not None:
            right.append(axis)
            fill.update({tensor: fills[tensor] for tensor, _ in axis.places})
    ways = {"static": shapes.way(subject.batches, results, None)}
    rows = {"static": {"graphs": len(results), "padded": 0.0, "edges": []}}
    if right:
        filled = tuple(fill.get(tensor, 0.0) for tensor in range(len(every[0])))
        for name, padding in shapes.paddings(right, filled).items():
            ways[name] = shapes.way(subject.batches, results, padding)
            targets = {padding.target(shape) for shape in results}
            rows[name] = {"graphs": len(targets), "padded": shapes.work(padding, every, calls),
                          "edges": [list(at) for at in padding.edges]}  # fmt: skip
    computed = sum(count for each, count in zip(every, calls) if each in results)
    return Shaped(ways, {"why": None, "axes": told, "ways": rows, "calls_computed": computed, "calls": sum(calls)})


def _fills(
    subject: Subject, axis: shapes.Axis, results: Mapping[shapes.Shapes, shapes.Shapes],
    judge: Callable[[Callable[[Any], Any]], judging.Errors],
) -> tuple[tuple[float, ...] | None, judging.Errors | None]:  # fmt: skip
    """What to pad with so that results are right when everything is padded to the largest size; or what is wrong."""
    errors = None
    at = (buckets.edges(axis.counts, 1),)
    touched = {tensor for tensor, _ in axis.places}
    seen = set()
    for fill in itertools.islice(shapes.fills(subject.batches), _FEW_FILLS):
        own = tuple(value if tensor in touched else 0.0 for tensor, value in enumerate(fill))
        if own in seen:
            continue
        seen.add(own)
        way = shapes.way(subject.batches, results, shapes.Padding((axis,), at, own), static=False)
        errors = judge(lambda program, way=way: way(program, lambda one, _: one))  # type: ignore[misc]
        if errors.ok:
            return own, errors
    return None, errors
