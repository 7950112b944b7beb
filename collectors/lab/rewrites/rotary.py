"""Rotary position embeddings without the tensor that is turned.

What it does: x cos + cat(-x2, x1) sin is cat(x1 cos1 - x2 sin1, x2 cos2 + x1 sin2), where 1 and 2 are the halves of the
last dimension. The turned tensor is never made, and product and sum are one operator.

Why: five passes over the whole tensor become two products, two of a product with a sum, each over a half, and one copy.

When it would be wrong: where pairs lie beside each other instead of in halves; with another sign or other halves; where
somebody else reads a part. Such places are left as they are.
"""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites import matching
from npulens.collectors.lab.rewrites.matching import Inside, Stays
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

PASTE = """
def rotated(x, cos, sin):
    (x1, x2), (cos1, cos2), (sin1, sin2) = (each.chunk(2, dim=-1) for each in (x, cos, sin))
    return torch.cat((torch.addcmul(x1 * cos1, x2, sin1, value=-1), torch.addcmul(x2 * cos2, x1, sin2)), dim=-1)
"""


@dataclass(frozen=True)
class _Turned:
    """What is turned, the size of its last dimension, and the two tables."""

    x: Any
    size: int
    cos: Any
    sin: Any


def apply(program: Any, asked: Asked) -> Rewritten:
    """Replaces every place that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    left, changed = Counter[str](), 0
    for module in graph.graphs(program):
        module.graph.eliminate_dead_code()  # halves that nobody reads
    for module, node in graph.every(program):
        if graph.operator(node) != "add" or graph.argument(node, 2, "alpha", 1) != 1:
            continue
        try:
            inside = Inside({node})
            found = _turned(node, inside)
            if found is not None:
                _replace(module, node, found, inside)
                changed += 1
        except Stays as reason:
            left[str(reason)] += 1
    return Rewritten.of(program, changed, left, "rotary_nothing")


def _turned(add: Any, inside: Inside) -> _Turned | None:
    for straight, other in matching.pairs(add):
        if graph.operator(straight) != "mul" or graph.operator(other) != "mul":
            continue
        for turned, sin in matching.pairs(other):
            trial = Inside()
            x = _turns(turned, trial)
            cos = next((two for one, two in matching.pairs(straight) if one is x), None) if x is not None else None
            size = matching.last_sizes(x, 1) if x is not None else None
            if x is None or cos is None or not matching.is_node(sin) or not matching.is_node(cos) or size is None:
                continue
            inside.nodes |= trial.nodes | {straight, other}
            if any(matching.shape_of(each)[-1:] != size for each in (cos, sin)):
                raise Stays("rotary_tables")
            if len({matching.dtype_of(each) for each in (x, cos, sin, add)}) != 1:
                raise Stays("formula_types")
            return _Turned(x, size[0], cos, sin)
    return None


def _turns(node: Any, inside: Inside) -> Any:
    """x of cat(-second half of x, first half of x); None for anything else."""
    rank = len(matching.shape_of(node))
    if graph.operator(node) != "cat" or graph.argument(node, 1, "dim", 0) not in (-1, rank - 1):
        return None
    parts = node.args[0]
    if len(parts) != 2 or graph.operator(parts[0]) != "neg":
        return None
    second, first = _part(parts[0].args[0], inside), _part(parts[1], inside)
    if first is None or second is None or first[0] is not second[0]:
        return None
    size = matching.last_sizes(first[0], 1)
    if size is None or size[0] % 2 or first[1:] != (0, size[0] // 2) or second[1:] != (size[0] // 2, size[0]):
        return None
    inside.nodes |= {node, parts[0]}
    return first[0]


def _part(node: Any, inside: Inside) -> tuple[Any, int, int] | None:
    """Of which tensor a node is which part of the last dimension."""
    if graph.operator(node) == "slice":
        x, dim, begin, end, step = (*node.args, 1)[:5] if len(node.args) >= 4 else (None,) * 5
        if x is None or dim not in (-1, len(matching.shape_of(x)) - 1) or step != 1:
            return None
        size = matching.last_sizes(x, 1)
        if size is None or not all(isinstance(each, int) for each in (begin, end)):
            return None
        inside.add(node)
        return x, begin % size[0] if begin < 0 else begin, min(end, size[0]) if end >= 0 else end + size[0]
    if node.op == "call_function" and node.target is operator.getitem:
        cut = node.args[0]
        if graph.operator(cut) not in ("chunk", "split", "split_with_sizes"):
            return None
        x = cut.args[0]
        if graph.argument(cut, 2, "dim", 0) not in (-1, len(matching.shape_of(x)) - 1):
            return None
        sizes = [int(each.shape[-1]) for each in cut.meta["val"]]
        begin = sum(sizes[: node.args[1]])
        inside.nodes |= {node, cut}
        return x, begin, begin + sizes[node.args[1]]
    return None


def _replace(module: Any, add: Any, found: _Turned, inside: Inside) -> None:
    if not inside.alone(add):
        raise Stays("read_elsewhere")
    if graph.written_between(matching.in_order(inside.nodes, add), add):
        raise Stays("written_in_place")
    aten, make, half = torch.ops.aten, module.graph.call_function, found.size // 2
    with module.graph.inserting_before(add):
        (x1, x2), (cos1, cos2), (sin1, sin2) = (
            [make(aten.slice.Tensor, (each, -1, begin, begin + half)) for begin in (0, half)]
            for each in (found.x, found.cos, found.sin)
        )
        first = make(aten.addcmul.default, (make(aten.mul.Tensor, (x1, cos1)), x2, sin1), {"value": -1})
        second = make(aten.addcmul.default, (make(aten.mul.Tensor, (x2, cos2)), x1, sin2))
        whole = make(aten.cat.default, ([first, second], -1))
    whole.meta = dict(add.meta)
    add.replace_all_uses_with(whole)
    module.graph.erase_node(add)
