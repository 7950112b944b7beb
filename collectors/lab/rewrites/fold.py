"""BatchNorm goes into the weights of the convolution or linear layer before it.

What it does: y = (conv(x) - mean) / sqrt(var + eps) * gamma + beta is one convolution with other weights. They are
computed in float64 and rounded once.

Why: one pass over the activations less, and one launch less.

When it would be wrong: in training, where the statistics are those of the batch; where somebody else reads the
convolution's result or shares its weights; where BatchNorm comes before the convolution. Such places are left as they
are, with the reason.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

#: Each has its weight and its bias second and third, and the weight's first dimension are its output channels.
_BEFORE = ("conv1d", "conv2d", "conv3d", "linear")
_TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def apply(program: Any, asked: Asked) -> Rewritten:
    """Folds every place that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    if asked.training:
        raise DoesNotApply("fold_training")
    if asked.gradients:
        raise DoesNotApply("gradients")
    shares, left, folded = graph.shares(program), Counter[str](), 0
    for module, node in graph.every(program):
        if graph.operator(node) != "batch_norm":
            continue
        reason = _reason(module, node, shares)
        if reason:
            left[reason] += 1
            continue
        _fold(module, node)
        folded += 1
    return Rewritten.of(program, folded, left, "fold_nothing")


def _reason(module: Any, norm: Any, shares: dict[int, int]) -> str | None:
    """Why a BatchNorm stays; None where it can go."""
    before = norm.args[0]
    if graph.argument(norm, 5, "training", False):
        return "fold_batch_statistics"
    if any(graph.constant(module, norm.args[place]) is None for place in (3, 4)):
        return "fold_no_statistics"
    if graph.operator(before) in _TRANSPOSED:
        return "fold_transposed"
    if graph.operator(before) not in _BEFORE:
        return "fold_nothing_before"
    if len(before.users) != 1:
        return "fold_read_elsewhere"
    weight, bias = graph.constant(module, before.args[1]), graph.argument(before, 2, "bias")
    if weight is None or (bias is not None and graph.constant(module, bias) is None):
        return "fold_computed_weights"
    if any(shares[graph.constant(module, one).untyped_storage().data_ptr()] != 1 for one in
           (before.args[1], bias) if one is not None):  # fmt: skip
        return "fold_shared_weights"
    if graph.operator(before) == "linear" and before.meta["val"].dim() != 2:
        return "fold_channels_elsewhere"
    if graph.written_between(before, norm):
        return "written_in_place"
    return None


def _fold(module: Any, norm: Any) -> None:
    before = norm.args[0]
    weight, bias = graph.constant(module, before.args[1]), graph.argument(before, 2, "bias")
    mean, var = (graph.constant(module, norm.args[place]).double() for place in (3, 4))
    gamma, beta = (graph.constant(module, norm.args[place]) for place in (1, 2))
    eps = graph.argument(norm, 7, "eps", 1e-5)
    with torch.no_grad():
        scale = (1.0 if gamma is None else gamma.double()) / torch.sqrt(var + eps)
        offset = 0.0 if bias is None else graph.constant(module, bias).double()
        new_weight = weight.double() * scale.reshape(-1, *[1] * (weight.dim() - 1))
        new_bias = (offset - mean) * scale + (0.0 if beta is None else beta.double())
    name = str(before.args[1].target)
    one = graph.added(module, before, f"{name}_folded", new_weight.to(weight.dtype))
    two = graph.added(module, before, f"{name}_bias", new_bias.to(weight.dtype))
    rest = {key: value for key, value in before.kwargs.items() if key not in ("weight", "bias")}
    before.args, before.kwargs = (before.args[0], one, two, *before.args[3:]), rest
    norm.replace_all_uses_with(before)
    module.graph.erase_node(norm)
