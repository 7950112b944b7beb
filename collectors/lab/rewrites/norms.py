"""LayerNorm and RMSNorm that are written out become one operator each.

What it does: (x - mean) / sqrt(variance + eps) w + b is layer_norm, and x / sqrt(mean of squares + eps) w is rms_norm,
with the weight and offset that follow and without conversions to float32 and back around them.

Why: the formula passes its tensor through memory six to nine times, the operator twice.

When it would be wrong: with another epsilon or one that is added outside of the root; with a variance that divides by
n - 1; over other dimensions than the last ones; where somebody else reads a part. Such places are left as they are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites import matching
from npulens.collectors.lab.rewrites.matching import Inside, Stays
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

PASTE = """
y = torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
y = torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
"""


@dataclass
class _Norm:
    """A norm: what it normalises, over how many of the last dimensions, and what it has swallowed up to its root."""

    x: Any
    centred: bool
    dims: int
    eps: float
    root: Any
    inside: Inside
    weight: Any = None
    offset: Any = None


def apply(program: Any, asked: Asked) -> Rewritten:
    """Replaces every place that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    left, changed = Counter[str](), 0
    for module, node in graph.every(program):
        if graph.operator(node) not in ("mul", "div"):
            continue
        try:
            found = _norm(node)
            if found is not None:
                _replace(module, _with_more(found))
                changed += 1
        except Stays as reason:
            left[str(reason)] += 1
    return Rewritten.of(program, changed, left, "norms_nothing")


def _norm(node: Any) -> _Norm | None:
    """The norm that a product with an inverse root, or a quotient by a root, computes."""
    for top, other in matching.pairs(node) if graph.operator(node) == "mul" else [node.args[:2]]:
        if not matching.is_node(top) or not matching.is_node(other):
            continue
        inside = Inside({node})
        below = _under_root(matching.bare(other, inside), graph.operator(node) == "mul", inside)
        if below is None:
            continue
        return _statistics(node, matching.bare(top, inside), below, inside)
    return None


def _under_root(node: Any, inverse: bool, inside: Inside) -> Any:
    """What the root is taken of: 1/sqrt(.) of a product, sqrt(.) of a quotient."""
    name = graph.operator(node)
    if inverse and name == "reciprocal":
        inside.add(node)
        return _under_root(matching.bare(node.args[0], inside), False, inside)
    power = node.args[1] if name == "pow" else None
    if name == ("rsqrt" if inverse else "sqrt") or power == (-0.5 if inverse else 0.5):
        return matching.bare(inside.add(node).args[0], inside)
    return None


def _statistics(root: Any, top: Any, below: Any, inside: Inside) -> _Norm | None:
    """What stands under the root has to be the mean of squares, or the variance, of what stands above; and epsilon."""
    if graph.operator(below) != "add":
        return None
    eps = next((two for _, two in matching.pairs(below) if matching.is_number(two)), None)
    mean = next((one for one, two in matching.pairs(below) if matching.is_node(one) and matching.is_number(two)), None)
    if eps is None or mean is None or graph.argument(below, 2, "alpha", 1) != 1:
        return None
    inside.add(below)
    mean = matching.bare(mean, inside)
    name = graph.operator(mean)
    if name == "mean":
        x, centred = _squared(inside.add(mean), top, inside)
        dims = _last(mean) if x is not None else 0
    elif name == "var":
        x, centred = matching.bare(inside.add(mean).args[0], inside), True
        if _centred(top, inside) is not x:
            return None
        if _correction(mean) != 0:
            raise Stays("norms_unbiased")
        dims = _last(mean)
    else:
        return None
    if x is None:
        return None
    if matching.last_sizes(x, dims) is None:
        raise Stays("norms_shapes")
    return _Norm(x, centred, dims, float(eps), root, inside)


def _squared(mean: Any, top: Any, inside: Inside) -> tuple[Any, bool]:
    """What the mean squares: what stands above the root; and whether that is the difference from its own mean."""
    if not matching.is_polynomial(matching.polynomial(mean.args[0], [top], inside), {(2,): 1.0}):
        return None, False
    trial = Inside()
    x = _centred(top, trial)
    if x is None:
        return top, False
    inside.nodes |= trial.nodes
    return x, True


def _centred(top: Any, inside: Inside) -> Any:
    """x of x - mean(x); None for anything else."""
    if graph.operator(top) != "sub" or graph.argument(top, 2, "alpha", 1) != 1:
        return None
    x, mean = (matching.bare(each, inside) for each in top.args[:2])
    if graph.operator(mean) != "mean" or matching.bare(mean.args[0], inside) is not x:
        return None
    _last(mean)
    inside.nodes |= {top, mean}
    return x


def _last(node: Any) -> int:
    """Over how many of the last dimensions a mean or a variance is taken."""
    rank = len(matching.shape_of(node.args[0]))
    dims = graph.argument(node, 1, "dim")
    if not isinstance(dims, (list, tuple)):
        raise Stays("norms_dimensions")
    places = sorted(each % rank for each in dims)
    if places != list(range(rank - len(places), rank)) or len(matching.shape_of(node)) != rank:
        raise Stays("norms_dimensions")
    return len(places)


def _correction(node: Any) -> Any:
    """What a variance subtracts from n."""
    if "correction" in str(node.target):
        return node.kwargs.get("correction", 1)
    return int(bool(graph.argument(node, 2, "unbiased", True)))


def _with_more(found: _Norm) -> _Norm:
    """The norm with the conversion back, the weight and the offset that follow."""
    converted = matching.bare(found.x)
    if graph.operator(converted) in ("to", "_to_copy") and converted.args and _floats(converted, converted.args[0]):
        after = _only_user(found.root)
        if graph.operator(after) in ("to", "_to_copy") and matching.dtype_of(after) == matching.dtype_of(
            converted.args[0]
        ):
            inside = Inside({*found.inside.nodes, after, converted})
            if inside.alone(after):
                found.x, found.root, found.inside = converted.args[0], after, inside
    for part, name in (("weight", "mul"), ("offset", "add")):
        if part == "offset" and (found.weight is None or not found.centred):
            break
        before, after = [], _only_user(found.root)
        while after is not None and matching.bare(after) is found.root:
            before.append(after)
            after = _only_user(after)
        last = before[-1] if before else found.root
        if graph.operator(after) != name or graph.argument(after, 2, "alpha", 1) != 1:
            break
        other = next((two for one, two in matching.pairs(after) if one is last), None)
        if not matching.is_node(other) or matching.shape_of(other) != matching.last_sizes(found.x, found.dims):
            break
        if matching.dtype_of(other) != matching.dtype_of(found.x) or matching.dtype_of(after) != matching.dtype_of(
            found.x
        ):
            break
        setattr(found, part, other)
        found.root, found.inside = after, Inside({*found.inside.nodes, *before, after})
    return found


def _floats(one: Any, two: Any) -> bool:
    types = (matching.dtype_of(one), matching.dtype_of(two))
    return all(each is not None and each.is_floating_point for each in types)


def _only_user(node: Any) -> Any:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _replace(module: Any, found: _Norm) -> None:
    if matching.dtype_of(found.x) != matching.dtype_of(found.root):
        raise Stays("formula_types")
    sizes = list(matching.last_sizes(found.x, found.dims) or ())
    if found.centred:
        args: tuple[Any, ...] = (found.x, sizes, found.weight, found.offset, found.eps)
        matching.replace(module, found.root, found.inside, torch.ops.aten.layer_norm.default, args)
    elif hasattr(torch.ops.aten, "rms_norm"):
        args = (found.x, sizes, found.weight, found.eps)
        matching.replace(module, found.root, found.inside, torch.ops.aten.rms_norm.default, args)
    else:
        raise Stays("norms_release")
