"""Attention that is written out becomes one scaled_dot_product_attention.

What it does: softmax(q kT * scale + mask) v is one operator, which never writes the scores to memory where it can.

Why: the scores are the largest thing of an attention, and written out they pass through memory four to six times.

When it would be wrong: with another scale than the one that was written; without the mask; where the softmax runs
over another dimension; where somebody else reads the scores or the weights; where dropout is active. Such places are
left as they are, with the reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

_PRODUCTS = ("matmul", "bmm", "baddbmm")
#: What may stand between the softmax and the second product, and changes nothing.
_NOTHING = ("dropout", "to", "_to_copy", "contiguous", "clone", "alias", "detach", "expand", "view", "reshape")


class _Stays(Exception):
    """Why one attention stays as it is."""


@dataclass(frozen=True)
class _Found:
    """One attention: its four inputs, its scale, and the first node of it."""

    query: Any
    key_transposed: Any
    value: Any
    mask: Any
    filled: float | None  # a mask of yes and no whose yes gets this number
    keeps: bool  # it is the no that gets it
    scale: float
    first: Any


def apply(program: Any, asked: Asked) -> Rewritten:
    """Replaces every place that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    left, changed = Counter[str](), 0
    for module, node in graph.every(program):
        if graph.operator(node) == "einsum":
            _as_product(module, node)
    for module, node in graph.every(program):
        if graph.operator(node) not in _PRODUCTS[:2] or not _softmax_of(node):
            continue
        try:
            _replace(module, node, _found(node))
            changed += 1
        except _Stays as reason:
            left[str(reason)] += 1
    return Rewritten.of(program, changed, left, "sdpa_nothing")


def _softmax_of(product: Any) -> Any:
    """The softmax that the left side of a product comes from; None where there is none."""
    node = product.args[0]
    while graph.operator(node) in _NOTHING:
        node = node.args[0]
    return node if graph.operator(node) in ("softmax", "_softmax") else None


def _found(product: Any) -> _Found:
    node = product.args[0]
    while graph.operator(node) in _NOTHING:
        if graph.operator(node) == "dropout" and node.args[2] and node.args[1]:
            raise _Stays("sdpa_dropout")
        if node.meta["val"].shape != node.args[0].meta["val"].shape:
            raise _Stays("sdpa_shapes")
        node = _alone(node)
    softmax = _alone_node(node)
    rank = softmax.meta["val"].dim()
    if softmax.args[1] not in (-1, rank - 1):
        raise _Stays("sdpa_other_dimension")
    return _scores(softmax.args[0], product.args[1], product, rank)


@dataclass
class _Scores:
    """What is done to the scores between the first product and the softmax, read backwards."""

    mask: Any = None
    filled: float | None = None
    keeps: bool = False
    scale: float = 1.0

    def through(self, node: Any) -> Any:
        """What one more node does; the scores that it reads."""
        name = graph.operator(node)
        if name in ("div", "mul") and isinstance(node.args[1], (int, float)):
            self.scale = self.scale / node.args[1] if name == "div" else self.scale * node.args[1]
            return node.args[0]
        if name in ("to", "_to_copy", "contiguous", "clone") and _same_type(node):
            return node.args[0]
        if self.mask is not None or name not in ("add", "masked_fill", "where"):
            raise _Stays("sdpa_scores")
        scores = self._masked(node, name)
        if self.scale != 1.0:
            raise _Stays("sdpa_scaled_mask")
        return scores

    def _masked(self, node: Any, name: str) -> Any:
        if name == "add" and not node.kwargs.get("alpha"):
            scores, self.mask = _sides(node)
            return scores
        if name == "add" or _number(node.args[2]) is None:
            raise _Stays("sdpa_scores")
        self.filled, self.keeps = _number(node.args[2]), name == "where"
        scores, self.mask = node.args[1::-1] if self.keeps else node.args[:2]
        return scores

    def first(self, product: Any) -> None:
        """What the first product does besides: baddbmm adds something and scales."""
        if graph.operator(product) != "baddbmm":
            return
        share, scale = product.kwargs.get("beta", 1), product.kwargs.get("alpha", 1)
        if share and (self.mask is not None or share != 1 or self.scale != 1.0):
            raise _Stays("sdpa_scores")
        self.mask = product.args[0] if share else self.mask
        self.scale *= scale


def _scores(node: Any, value: Any, product: Any, rank: int) -> _Found:
    """From the softmax's input down to the first product."""
    scores = _Scores()
    while graph.operator(node) not in _PRODUCTS:
        node = scores.through(_alone_node(node))
    first = _alone_node(node)
    scores.first(first)
    query, keys = first.args[-2:]
    if any(each.meta["val"].dim() != rank for each in (query, keys, value)) or rank < 3:
        raise _Stays("sdpa_shapes")
    if scores.mask is not None and not hasattr(scores.mask, "meta"):
        raise _Stays("sdpa_scores")
    if graph.written_between(first, product):
        raise _Stays("written_in_place")
    return _Found(query, keys, value, scores.mask, scores.filled, scores.keeps, scores.scale, first)


def _number(value: Any) -> float | None:
    """A number, or a tensor of one number that the program makes of it."""
    if hasattr(value, "args") and graph.operator(value) == "full" and not value.args[0]:
        value = value.args[1]
    return float(value) if isinstance(value, (int, float)) else None


def _as_product(module: Any, einsum: Any) -> None:
    """A product of matrices that einsum spells as a matmul: ``bhid,bhjd->bhij`` or ``bhij,bhjd->bhid``."""
    equation, operands = str(einsum.args[0]).replace(" ", ""), einsum.args[1]
    given, _, result = equation.partition("->")
    sides = given.split(",")
    if len(sides) != 2 or len(result) < 3 or any(len(set(each)) != len(each) for each in (*sides, result)):
        return
    (one, two), rows, columns, batch = sides, result[-2], result[-1], result[:-2]
    inner = one[-1]
    if one != batch + rows + inner or inner in result or {len(one), len(two)} != {len(result)}:
        return
    if two not in (batch + columns + inner, batch + inner + columns):
        return
    with module.graph.inserting_before(einsum):
        right = operands[1]
        if two[-1] == inner:
            right = module.graph.call_function(torch.ops.aten.transpose.int, (right, -2, -1))
            right.meta["val"] = operands[1].meta["val"].mT
        product = module.graph.call_function(torch.ops.aten.matmul.default, (operands[0], right))
    product.meta = dict(einsum.meta)
    einsum.replace_all_uses_with(product)
    module.graph.erase_node(einsum)


def _sides(add: Any) -> tuple[Any, Any]:
    """The scores and the mask of a sum: the scores come from a product."""
    for scores, mask in (add.args[:2], add.args[1::-1]):
        node = scores
        while graph.operator(node) in ("div", "mul", "to", "_to_copy", "contiguous"):
            node = node.args[0]
        if graph.operator(node) in _PRODUCTS:
            return scores, mask
    raise _Stays("sdpa_scores")


def _alone(node: Any) -> Any:
    return _alone_node(node).args[0]


def _alone_node(node: Any) -> Any:
    """A node that nobody but the next one reads."""
    if not hasattr(node, "users") or len(node.users) != 1:
        raise _Stays("sdpa_read_elsewhere")
    return node


def _same_type(node: Any) -> bool:
    return bool(node.meta["val"].dtype == node.args[0].meta["val"].dtype)


def _replace(module: Any, product: Any, found: _Found) -> None:
    aten, make = torch.ops.aten, module.graph.call_function
    values = [each.meta["val"].dtype for each in (found.query, found.key_transposed, found.value)]
    if len(set(values)) != 1:
        raise _Stays("sdpa_types")
    with module.graph.inserting_before(product):
        keys = make(aten.transpose.int, (found.key_transposed, -2, -1))
        mask = found.mask
        if mask is not None and found.filled is not None:
            if found.filled == float("-inf"):
                mask = mask if found.keeps else make(aten.logical_not.default, (mask,))
            else:  # a number that is only large: a row of nothing but it must not become NaN
                zeros = make(aten.zeros_like.default, (mask,), {"dtype": values[0]})
                hidden = make(aten.logical_not.default, (mask,)) if found.keeps else mask
                mask = make(aten.masked_fill.Scalar, (zeros, hidden, found.filled))
        elif mask is not None and mask.meta["val"].dtype != values[0]:
            mask = make(aten.to.dtype, (mask, values[0]))
        attention = make(
            aten.scaled_dot_product_attention.default, (found.query, keys, found.value),
            {"attn_mask": mask, "dropout_p": 0.0, "is_causal": False, "scale": found.scale},
        )  # fmt: skip
    attention.meta = dict(product.meta)
    product.replace_all_uses_with(attention)
    module.graph.erase_node(product)
