"""A gated layer (SwiGLU, GEGLU) takes one product instead of two, and its gate one operator.

What it does: act(x Wg) * (x Wu) computes both products as one with the weights below each other. A gate that is written
out, x sigmoid(x), is silu.

Why: one launch and one pass over the activation less, and a larger product, which fills the device better.

When it would be wrong: where gate and up read different activations; where a weight is shared with another place or is
trained, because they are copied. Such places are left as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites import gelu, matching, merge_linears
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

PASTE = """
# once: both = torch.nn.Linear(gate.in_features, 2 * gate.out_features, bias=gate.bias is not None)
#       both.weight.data = torch.cat((gate.weight, up.weight)), and the biases alike
first, second = both(x).chunk(2, dim=-1)
y = torch.nn.functional.silu(first) * second
"""

_GATES = ("silu", "gelu", "sigmoid", "relu", "tanh")


def apply(program: Any, asked: Asked) -> Rewritten:
    """Merges every gated layer that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    if asked.training or asked.gradients:
        raise DoesNotApply("gradients")
    gelu.replaced(program, ("sigmoid",))
    shares, left, changed = graph.shares(program), Counter[str](), 0
    for module, node in graph.every(program):
        group = _gated(node)
        if not group:
            continue
        reason = merge_linears.reason_against(module, group, shares)
        if reason:
            left[reason] += 1
            continue
        merge_linears.merge(module, group)
        changed += 1
    return Rewritten.of(program, changed, left, "gated_nothing")


def _gated(node: Any) -> list[Any]:
    """The two linear layers of act(gate) * up, in the order of the program."""
    if graph.operator(node) != "mul":
        return []
    for gate, up in matching.pairs(node):
        if (
            not matching.is_node(gate)
            or not matching.is_node(up)
            or graph.operator(gate) not in _GATES
            or graph.operator(up) != "linear"
        ):
            continue
        layer = gate.args[0]
        if graph.operator(layer) == "linear" and layer is not up and layer.args[0] is up.args[0]:
            order = {each: place for place, each in enumerate(node.graph.nodes)}
            return sorted((layer, up), key=order.__getitem__)
    return []
