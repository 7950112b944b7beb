"""GELU that is written out becomes one operator.

What it does: x/2 (1 + erf(x/sqrt 2)) is gelu; x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) is gelu with
approximate="tanh", in whichever order it is written. x sigmoid(x) is silu.

Why: the formula passes its tensor through memory four to eight times, the operator once.

When it would be wrong: with other constants, such as sigmoid(1.702 x); with the tanh formula in place of the exact one;
where somebody else reads a part of the formula. Such places are left as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites import matching
from npulens.collectors.lab.rewrites.matching import Inside, Polynomial, Stays
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

PASTE = """
y = torch.nn.functional.gelu(x)  # x / 2 * (1 + erf(x / sqrt(2)))
y = torch.nn.functional.gelu(x, approximate="tanh")  # the formula with tanh
y = torch.nn.functional.silu(x)  # x * sigmoid(x)
"""

_HALF: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
_ROOT = math.sqrt(2 / math.pi)
#: The function within -> what goes into it, as a polynomial in x; the whole, in x and the function; the operator.
_FORMULAS: dict[str, tuple[Polynomial, Polynomial, str, dict[str, Any]]] = {
    "erf": ({(1,): math.sqrt(0.5)}, _HALF, "gelu", {}),
    "tanh": ({(1,): _ROOT, (3,): _ROOT * 0.044715}, _HALF, "gelu", {"approximate": "tanh"}),
    "sigmoid": ({(1,): 1.0}, {(1, 1): 1.0}, "silu", {}),
}


def apply(program: Any, asked: Asked) -> Rewritten:
    """Replaces every place that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    changed, left = replaced(program, ("erf", "tanh", "sigmoid"))
    return Rewritten.of(program, changed, left, "gelu_nothing")


def replaced(program: Any, functions: Sequence[str]) -> tuple[int, Counter[str]]:
    """How many formulas became operators, and why others did not."""
    changed, left = 0, Counter[str]()
    for module, node in graph.every(program):
        if graph.operator(node) not in functions:
            continue
        try:
            changed += _replace(module, node)
        except Stays as reason:
            left[str(reason)] += 1
    for module in graph.graphs(program):
        module.graph.eliminate_dead_code()
    return changed, left


def _replace(module: Any, function: Any) -> bool:
    """Whether a function was part of a formula; Stays where it nearly was."""
    within, whole, operator, more = _FORMULAS[graph.operator(function)]
    given = function.args[0]
    for x in [given, *matching.sources(given)]:
        inside = Inside({function})
        if not matching.is_polynomial(matching.polynomial(given, [x], inside), within):
            continue
        for root in matching.results(function):
            around = Inside(set(inside.nodes))
            if matching.is_polynomial(matching.polynomial(root, [x, function], around), whole):
                if matching.dtype_of(root) != matching.dtype_of(x):
                    raise Stays("formula_types")
                target = getattr(torch.ops.aten, operator).default
                matching.replace(module, root, around, target, (x,), more)
                return True
    if graph.operator(function) == "erf":
        raise Stays("gelu_other")
    return False
