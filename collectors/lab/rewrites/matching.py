"""How a formula that is written out is recognised: what it computes, not in which order it was typed.

Sums and products are multiplied out to a polynomial in chosen nodes, so that ``x * 0.5 * (1 + t)`` and
``0.5 * (x + x * t)`` are the same. What a match swallows is read by nobody else, or it is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from npulens.collectors.lab import graph

#: Powers of the chosen nodes -> coefficient.
Polynomial = dict[tuple[int, ...], float]
#: More terms or a higher power than any formula here has.
_TERMS, _POWER = 16, 6
_SAME_TYPE = ("to", "_to_copy", "type_as")
#: Constants are compared so exactly: people write sqrt(2 / pi) with seven digits.
_DIGITS = 1e-6


class Stays(Exception):
    """Why one place stays as it is: the name of a reason."""


@dataclass
class Inside:
    """The nodes that a formula swallows."""

    nodes: set[Any] = field(default_factory=set)

    def add(self, node: Any) -> Any:
        self.nodes.add(node)
        return node

    def alone(self, root: Any) -> bool:
        """Whether nobody else reads what is inside; ``root`` is what it gives."""
        # A conversion of what comes in that converts nothing may be read by anybody: it stays.
        mine = [node for node in self.nodes if node is not root and bare(node) in self.nodes]
        return all(user in self.nodes or user is root for node in mine for user in node.users)


def is_node(value: Any) -> bool:
    return hasattr(value, "users") and hasattr(value, "op")


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def value_of(node: Any) -> Any:
    """The tensor that a node had at capture, without its numbers; None where nobody said."""
    return node.meta.get("val") if is_node(node) else None


def dtype_of(node: Any) -> Any:
    return getattr(value_of(node), "dtype", None)


def shape_of(node: Any) -> tuple[Any, ...]:
    return tuple(getattr(value_of(node), "shape", ()))


def last_sizes(node: Any, count: int) -> tuple[int, ...] | None:
    """The sizes of the last dimensions; None where one of them differs from call to call."""
    sizes = shape_of(node)[-count:]
    return tuple(int(each) for each in sizes) if all(isinstance(each, int) for each in sizes) else None


def bare(node: Any, inside: Inside | None = None) -> Any:
    """What a node is but for conversions that convert nothing."""
    while graph.operator(node) in _SAME_TYPE and dtype_of(node) == dtype_of(node.args[0]):
        if inside is not None:
            inside.add(node)
        node = node.args[0]
    return node


def pairs(node: Any) -> Iterator[tuple[Any, Any]]:
    """The two sides of a sum or product, either way round."""
    one, two = node.args[:2]
    yield one, two
    yield two, one


def polynomial(node: Any, variables: Sequence[Any], inside: Inside) -> Polynomial | None:
    """What a node is as a polynomial in some nodes; None where it is none."""
    if is_number(node):
        return {(0,) * len(variables): float(node)}
    if node in variables:
        return {tuple(int(node is each) for each in variables): 1.0}
    if not is_node(node):
        return None
    name = graph.operator(node)
    if name in _SAME_TYPE and dtype_of(node) == dtype_of(node.args[0]):
        found = polynomial(node.args[0], variables, inside)
    elif name in ("add", "sub", "rsub"):
        found = _sum(node, name, variables, inside)
    elif name == "mul":
        found = _product(*(polynomial(each, variables, inside) for each in node.args[:2]))
    elif name == "div" and is_number(node.args[1]) and node.args[1] and not node.kwargs.get("rounding_mode"):
        found = _times(polynomial(node.args[0], variables, inside), 1.0 / node.args[1])
    elif name == "neg":
        found = _times(polynomial(node.args[0], variables, inside), -1.0)
    elif name in ("pow", "square"):
        found = _power(polynomial(node.args[0], variables, inside), 2 if name == "square" else node.args[1])
    else:
        return None
    if found is not None:
        inside.add(node)
    return found


def _sum(node: Any, name: str, variables: Sequence[Any], inside: Inside) -> Polynomial | None:
    one, two = (polynomial(each, variables, inside) for each in node.args[:2])
    share = graph.argument(node, 2, "alpha", 1)
    if one is None or two is None or not is_number(share):
        return None
    first, second = (-share, 1.0) if name == "rsub" else (1.0, -share if name == "sub" else share)
    found = {power: first * value for power, value in one.items()}
    for power, value in two.items():
        found[power] = found.get(power, 0.0) + second * value
    return found


def _times(one: Polynomial | None, number: float) -> Polynomial | None:
    return None if one is None else {power: value * number for power, value in one.items()}


def _product(one: Polynomial | None, two: Polynomial | None) -> Polynomial | None:
    if one is None or two is None or len(one) * len(two) > _TERMS:
        return None
    found: Polynomial = {}
    for left, first in one.items():
        for right, second in two.items():
            power = tuple(a + b for a, b in zip(left, right))
            if max(power, default=0) > _POWER:
                return None
            found[power] = found.get(power, 0.0) + first * second
    return found


def _power(one: Polynomial | None, power: Any) -> Polynomial | None:
    if one is None or not is_number(power) or power != int(power) or not 1 <= power <= _POWER:
        return None
    found: Polynomial | None = one
    for _ in range(int(power) - 1):
        found = _product(found, one)
    return found


def is_polynomial(found: Polynomial | None, wanted: Polynomial) -> bool:
    """Whether they are the same within the digits that people write."""
    if found is None:
        return False
    return all(
        math.isclose(found.get(power, 0.0), wanted.get(power, 0.0), rel_tol=_DIGITS, abs_tol=1e-9)
        for power in {*found, *wanted}
    )


def sources(node: Any, steps: int = 6) -> list[Any]:
    """The nodes that sums and products of a formula come from, the nearest first."""
    found, edge = [], [node]
    for _ in range(steps):
        edge = [each for one in edge for each in one.args if is_node(each)]
        found += [each for each in edge if each not in found]
    return found


def results(node: Any, steps: int = 5) -> list[Any]:
    """The nodes that sums and products make of a node, the nearest first."""
    found, edge = [], [node]
    for _ in range(steps):
        edge = [user for one in edge for user in one.users
                if graph.operator(user) in ("mul", "add", "sub", "rsub", "div", *_SAME_TYPE)]  # fmt: skip
        found += [each for each in edge if each not in found]
    return found


def in_order(nodes: set[Any], root: Any) -> Any:
    """The first of some nodes in the order of the program."""
    return next((node for node in root.graph.nodes if node in nodes), root)


def replace(module: Any, root: Any, inside: Inside, target: Any, args: tuple[Any, ...], more: Any = None) -> Any:
    """Puts one operator in the place of a formula; refuses where somebody looks inside or writes in between."""
    if not inside.alone(root):
        raise Stays("read_elsewhere")
    if graph.written_between(in_order(inside.nodes, root), root):
        raise Stays("written_in_place")
    with module.graph.inserting_before(root):
        made = module.graph.call_function(target, args, dict(more or {}))
    made.meta = dict(root.meta)
    root.replace_all_uses_with(made)
    module.graph.erase_node(root)
    return made
