"""Linear layers that read the same activation become one.

What it does: the weights of query, key and value (or gate and up) are put below each other; one product is taken and
cut into the parts.

Why: one launch instead of several, and a larger product, which fills the device better.

When it would be wrong: where a layer's weights are shared with another place or are trained, because they are copied;
where something is written in place between the layers. Such layers are left as they are.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten


def apply(program: Any, asked: Asked) -> Rewritten:
    """Merges every group that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    if asked.training or asked.gradients:
        raise DoesNotApply("gradients")
    shares, left, changed = graph.shares(program), Counter[str](), 0
    for module in graph.graphs(program):
        for group in _groups(module):
            reason = reason_against(module, group, shares)
            if reason:
                left[reason] += 1
                continue
            merge(module, group)
            changed += 1
    return Rewritten.of(program, changed, left, "merge_nothing")


def _groups(module: Any) -> list[list[Any]]:
    """Layers by the node that they read, in the order of the program."""
    found: dict[Any, list[Any]] = {}
    for node in module.graph.nodes:
        if graph.operator(node) == "linear":
            found.setdefault(node.args[0], []).append(node)
    return [group for group in found.values() if len(group) > 1]


def reason_against(module: Any, group: list[Any], shares: dict[int, int]) -> str | None:
    """Why layers cannot become one; None where they can."""
    weights = [graph.constant(module, node.args[1]) for node in group]
    biases = [graph.argument(node, 2, "bias") for node in group]
    if any(each is None for each in weights) or any(
        bias is not None and graph.constant(module, bias) is None for bias in biases
    ):
        return "fold_computed_weights"
    if len({bias is None for bias in biases}) > 1 or len({each.dtype for each in weights}) > 1:
        return "merge_unlike"
    if any(shares[each.untyped_storage().data_ptr()] != 1 for each in weights):
        return "fold_shared_weights"
    if graph.written_between(group[0], group[-1]):
        return "written_in_place"
    return None


def merge(module: Any, group: list[Any]) -> None:
    """One layer in the place of several that read the same."""
    first = group[0]
    weights = [graph.constant(module, node.args[1]) for node in group]
    name = str(first.args[1].target)
    with torch.no_grad():
        weight = graph.added(module, first, f"{name}_merged", torch.cat(weights))
        bias = None
        if graph.argument(first, 2, "bias") is not None:
            rows = [graph.constant(module, graph.argument(node, 2, "bias")) for node in group]
            bias = graph.added(module, first, f"{name}_biases", torch.cat(rows))
    sizes = [int(each.shape[0]) for each in weights]
    with module.graph.inserting_before(first):
        one = module.graph.call_function(torch.ops.aten.linear.default, (first.args[0], weight, bias))
        cut = module.graph.call_function(torch.ops.aten.split_with_sizes.default, (one, sizes, -1))
        parts = [module.graph.call_function(operator.getitem, (cut, place)) for place in range(len(group))]
    for node, part in zip(group, parts):
        part.meta = dict(node.meta)
        node.replace_all_uses_with(part)
        module.graph.erase_node(node)
