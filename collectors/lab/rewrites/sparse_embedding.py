"""The gradient of an embedding names only the rows that were read.

What it does: embedding(sparse=True): the gradient holds the rows of the batch instead of the whole table.

Why: a dense gradient of a large table is filled with zeros, and written and read whole by the optimiser, each step.

When it would be wrong: with an optimiser that changes rows without a gradient too, as momentum, weight decay and Adam
do, so it is tried only with plain SGD and Adagrad; where the table is used elsewhere as well; where the job does more
with its gradients, such as clipping them by their norm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

PASTE = "torch.nn.Embedding(rows, width, sparse=True)"
#: Settings that change rows which have no gradient, and the ways that take no sparse ones.
_REACH = ("momentum", "weight_decay", "nesterov", "lr_decay", "foreach", "fused", "differentiable")


def apply(program: Any, asked: Asked) -> Rewritten:
    """Changes every table that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    if not asked.gradients:
        raise DoesNotApply("sparse_no_gradients")
    _only_rows(asked.optimizer)
    shares, left, changed = graph.shares(program), Counter[str](), 0
    for module, node in graph.every(program):
        if graph.operator(node) != "embedding" or graph.argument(node, 4, "sparse", False):
            continue
        table = graph.constant(module, node.args[0])
        if table is None or not table.requires_grad:
            left["sparse_no_table"] += 1
        elif shares[table.untyped_storage().data_ptr()] != 1:
            left["fold_shared_weights"] += 1
        elif graph.argument(node, 3, "scale_grad_by_freq", False):
            left["sparse_scaled"] += 1
        else:
            padding = graph.argument(node, 2, "padding_idx", -1)
            node.args, node.kwargs = (*node.args[:2], padding, False, True), {}
            changed += 1
    if not changed:
        raise DoesNotApply(left.most_common(1)[0][0] if left else "sparse_nothing")
    return Rewritten(graph.recompiled(program), changed, left=dict(left))


def _only_rows(told: Mapping[str, Any] | None) -> None:
    """Refuses an optimiser that would not do the same with a sparse gradient."""
    if told is None:
        raise DoesNotApply("optimizer_none")
    settings = [group["settings"] for group in told["groups"]]
    if told["kind"] not in ("SGD", "Adagrad") or any(each.get(name) for each in settings for name in _REACH):
        raise DoesNotApply("sparse_optimizer", {"kind": told["kind"]})
