"""Chains of operators that one vector kernel could do in one pass, and what of them lies in its buffer at once.

A chain are operators that compute element by element or row by row on tensors of one shape. What comes in and what goes
out lies in the buffer twice, so that it can be copied while the tile before it is computed. What is the same for every
row lies there once. How large the buffer is only the chip knows (analysis/device/buffer.py).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from npulens.collectors.lab import graph

#: Operators that need a whole row at once, and work on it in float32.
_BY_ROW = ("layer_norm", "rms_norm", "softmax", "log_softmax")
_CASTS = ("to", "_to_copy", "type_as")


@dataclass(frozen=True)
class Chain:
    """One chain."""

    operators: tuple[str, ...]
    first: str  # the node it begins with
    rows: int
    width: int
    live: tuple[int, ...]  # bytes an element of each tensor that is in the buffer at once, at worst
    fixed: tuple[int, ...]  # bytes of what is the same for every row
    by_row: int  # operators that need a whole row
    moved: int  # bytes through memory as it is
    fused: int  # and in one pass


def chains(program: Any, batch: Sequence[Any]) -> list[Chain]:
    """Those of a graph on one batch, in the order of the program."""
    import torch
    from torch.fx.passes.shape_prop import ShapeProp

    copied = graph.copied(program)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ShapeProp(copied).propagate(tuple(each.clone() for each in batch))
    found = [_chain(nodes) for nodes in _groups(copied) if len(nodes) > 1]
    return sorted(found, key=lambda each: each.fused - each.moved)


def _groups(program: Any) -> Iterator[list[Any]]:
    """Nodes that can be done together: nothing outside lies between two of them."""
    member: dict[Any, int] = {}
    needs: dict[Any, frozenset[int]] = {}
    groups: list[list[Any]] = []
    for node in program.graph.nodes:
        before = node.all_input_nodes
        needs[node] = frozenset().union(*(needs[one] | {member[one]} if one in member else needs[one]
                                          for one in before))  # fmt: skip
        if not _fits_in(node):
            continue
        joined = next((member[one] for one in before if one in member and _shape(one) == _shape(node)
                       and not any(member[one] in needs[other] and member.get(other) != member[one]
                                   for other in before)), None)  # fmt: skip
        if joined is None:
            joined = len(groups)
            groups.append([])
        groups[joined].append(node)
        member[node] = joined
        needs[node] -= {joined}
    yield from groups


def _fits_in(node: Any) -> bool:
    name = graph.operator(node).rstrip("_")
    if node.op != "call_function" or _shape(node) is None or len(_shape(node)) < 1:
        return False
    if name in _BY_ROW:
        return bool(name.endswith("norm") or graph.argument(node, 1, "dim") in (-1, len(_shape(node)) - 1))
    from npulens.collectors.lab.calls import CLASS_OF  # needs torch at once

    kind = CLASS_OF.get(name.strip("_"))
    return kind in ("elementwise", "function") or graph.operator(node) in _CASTS


def _shape(node: Any) -> Any:
    found = node.meta.get("tensor_meta")
    return getattr(found, "shape", None)


def _size(node: Any) -> int:
    return int(node.meta["tensor_meta"].dtype.itemsize)


def _chain(nodes: Sequence[Any]) -> Chain:
    inside = set(nodes)
    shape = _shape(nodes[0])
    width, elements = int(shape[-1]), math.prod(shape)
    given = list(dict.fromkeys(one for node in nodes for one in node.all_input_nodes if one not in inside))
    leaves = [node for node in nodes if any(user not in inside for user in node.users) or not node.users]
    full = [one for one in given if _of_rows(one, shape)]
    fixed = [one for one in given if one not in full and _shape(one) is not None]
    live = _live(nodes, full, leaves)
    ends = sum(elements * _size(each) for each in (*full, *leaves)) + sum(map(_bytes, fixed))
    moved = sum(_bytes(one) for node in nodes for one in (*node.all_input_nodes, node))
    return Chain(
        tuple(graph.operator(node) for node in nodes), nodes[0].name, elements // max(1, width), width, tuple(live),
        tuple(map(_bytes, fixed)), sum(graph.operator(node) in _BY_ROW for node in nodes), moved, ends,
    )  # fmt: skip


def _live(nodes: Sequence[Any], full: Sequence[Any], leaves: Sequence[Any]) -> list[int]:
    """The sizes of an element of all tensors that are there at once, when it is most bytes."""
    last = {one: place for place, node in enumerate(nodes) for one in (*node.all_input_nodes, node)}
    alive, worst = list(full), list[int]()
    for place, node in enumerate(nodes):
        alive.append(node)
        sizes = [_size(one) for one in alive for _ in range(2 if one in full or one in leaves else 1)]
        sizes += [4] if graph.operator(node) in _BY_ROW else []  # its working copy
        worst = max(worst, sizes, key=sum)
        alive = [one for one in alive if last.get(one, -1) > place or one in leaves]
    return worst


def _of_rows(node: Any, shape: Any) -> bool:
    """Whether a tensor has something of its own for each row."""
    own = _shape(node)
    return own is not None and math.prod(own) > int(shape[-1])


def _bytes(node: Any) -> int:
    shape = _shape(node)
    return 0 if shape is None else int(math.prod(shape)) * _size(node)


def told(program: Any, batch: Sequence[Any]) -> list[dict[str, Any]]:
    """As data; a module that was kept whole has none."""
    return [asdict(each) for each in chains(program, batch)] if graph.is_graph(program) else []
