"""The activation after a convolution or a linear layer is computed with it.

What it does: on a processor oneDNN's convolution and linear layer apply relu, gelu, silu, tanh or sigmoid to what they
write. Elsewhere a linear layer with relu is one product with that end.

Why: the activation's pass over the result goes away, and its launch.

When it would be wrong: where somebody else reads what is not yet activated; where gradients are taken, which these
operators do not know. Such places are left as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites import matching
from npulens.collectors.lab.rewrites.matching import Inside, Stays
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

#: Ours -> oneDNN's.
_NAMES = {"relu": "relu", "relu_": "relu", "gelu": "gelu", "silu": "swish", "silu_": "swish", "tanh": "tanh",
          "sigmoid": "sigmoid", "hardswish": "hardswish", "hardswish_": "hardswish"}  # fmt: skip
_LAYERS = ("linear", "conv2d")


def apply(program: Any, asked: Asked) -> Rewritten:
    """Replaces every place that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    if asked.training or asked.gradients:
        raise DoesNotApply("activation_gradients")
    left, changed = Counter[str](), 0
    for module, node in graph.every(program):
        layer = node.args[0] if graph.operator(node) in _NAMES and node.args else None
        if layer is None or graph.operator(layer) not in _LAYERS:
            continue
        try:
            _replace(module, node, layer, asked.device.partition(":")[0])
            changed += 1
        except Stays as reason:
            left[str(reason)] += 1
    return Rewritten.of(program, changed, left, "activation_nothing")


def _replace(module: Any, node: Any, layer: Any, device: str) -> None:
    if len(layer.users) != 1:
        raise Stays("read_elsewhere")
    if matching.dtype_of(node) not in (torch.float32, torch.bfloat16):
        raise Stays("activation_type")
    name, algorithm = _NAMES[graph.operator(node)], None
    if name == "gelu":
        algorithm = node.kwargs.get("approximate", "none")
    end: tuple[Any, ...] = (name, [], algorithm)
    bias = graph.argument(layer, 2, "bias")
    # An activation that writes in place counts as nothing here: nobody else reads what it writes to.
    inside = Inside({layer, node})
    if device == "cpu" and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        if graph.operator(layer) == "linear":
            args: tuple[Any, ...] = (layer.args[0], layer.args[1], bias, *end)
            matching.replace(module, node, inside, torch.ops.mkldnn._linear_pointwise.default, args)
            return
        stride, padding, dilation = (_two(graph.argument(layer, place, key, default)) for place, key, default in (
            (3, "stride", 1), (4, "padding", 0), (5, "dilation", 1)))  # fmt: skip
        groups = graph.argument(layer, 6, "groups", 1)
        args = (layer.args[0], layer.args[1], bias, padding, stride, dilation, groups, *end)
        matching.replace(module, node, inside, torch.ops.mkldnn._convolution_pointwise.default, args)
        return
    if graph.operator(layer) != "linear" or name != "relu" or bias is None or len(matching.shape_of(layer)) != 2:
        raise Stays("activation_device")
    with module.graph.inserting_before(node):
        turned = module.graph.call_function(torch.ops.aten.t.default, (layer.args[1],))
    args = (bias, layer.args[0], turned)
    matching.replace(module, node, inside, torch.ops.aten._addmm_activation.default, args)


def _two(value: Any) -> list[int]:
    """A pair of numbers; oneDNN wants both."""
    if isinstance(value, str) or not all(isinstance(each, int) for each in _listed(value)):
        raise Stays("activation_padding")
    found = _listed(value)
    return found * 2 if len(found) == 1 else found


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
