"""Transpositions that undo each other, and the copies between them, are left out.

What it does: transpose, permute and the like in a row become one, or none where together they change nothing. A copy
into another order (contiguous) between two that cancel goes away with them.

Why: each such copy reads and writes its whole tensor. The transpositions themselves cost only their launch.

When it would be wrong: where somebody writes in place, because what was a copy would be the tensor itself; where the
result leaves the program, for the same reason. Such places are left as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites import matching
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

_TURNS = ("transpose", "permute", "t", "mT", "swapaxes", "swapdims", "movedim", "numpy_T")
_COPIES = ("contiguous", "clone")


def apply(program: Any, asked: Asked) -> Rewritten:
    """Leaves out every chain that is safe."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    left, changed = Counter[str](), 0
    written = any(graph.mutates(node) for _, node in graph.every(program))
    for module, node in graph.every(program):
        if graph.operator(node) not in (*_TURNS, *_COPIES) or _goes_on(node):
            continue
        source, order, turns, copies = _chain(node)
        if turns + copies < 2:
            continue
        plain = order == list(range(len(order)))
        if copies and not (plain and graph.operator(node) not in _COPIES):
            continue  # somebody may want the order in memory
        if copies and written:
            left["written_in_place"] += 1
            continue
        if copies and any(user.op == "output" for user in node.users):
            left["transposes_returned"] += 1
            continue
        changed += 1
        made = source
        if not plain:
            with module.graph.inserting_before(node):
                made = module.graph.call_function(torch.ops.aten.permute.default, (source, order))
            made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        module.graph.erase_node(node)
    return Rewritten.of(program, changed, left, "transposes_nothing")


def _goes_on(node: Any) -> bool:
    """Whether the only one that reads a node belongs to the same chain."""
    user = next(iter(node.users)) if len(node.users) == 1 else None
    return user is not None and graph.operator(user) in (*_TURNS, *_COPIES) and _order(user) is not None


def _chain(node: Any) -> tuple[Any, list[int], int, int]:
    """Where a chain begins, the order of dimensions that it makes, and how many turns and copies it has."""
    order = list(range(len(matching.shape_of(node))))
    turns = copies = 0
    while graph.operator(node) in (*_TURNS, *_COPIES):
        found = _order(node)
        if found is None or (turns + copies and len(node.users) != 1):
            break
        order = [found[place] for place in order]
        turns += graph.operator(node) in _TURNS
        copies += graph.operator(node) in _COPIES
        node = node.args[0]
    return node, order, turns, copies


def _order(node: Any) -> list[int] | None:
    """Which dimension of its input each dimension of a node is; None where nobody knows."""
    rank, name = len(matching.shape_of(node.args[0])), graph.operator(node)
    order = list(range(rank))
    if name in _COPIES:
        return order if node.kwargs.get("memory_format") in (None, torch.contiguous_format) else None
    if name == "permute":
        return [each % rank for each in node.args[1]]
    if name in ("transpose", "swapaxes", "swapdims"):
        one, two = (each % rank for each in node.args[1:3])
    elif (name in ("t", "numpy_T") and rank == 2) or (name == "mT" and rank >= 2):
        one, two = rank - 2, rank - 1
    else:
        return None
    order[one], order[two] = order[two], order[one]
    return order
