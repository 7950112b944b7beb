"""Conversions between types that lead nowhere are left out.

What it does: a conversion to the type that a tensor has goes away. Of two in a row the first goes away where its type
holds every number exactly, as float32 holds bfloat16.

Why: each conversion reads its tensor and writes it again in the other type.

When it would be wrong: where the type in between rounds, as bfloat16 does to float32; where the copy is needed because
somebody writes to it. Such places are left as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from npulens.collectors.lab import graph
from npulens.collectors.lab.rewrites import matching
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewritten

_CASTS = ("to", "_to_copy", "type_as")
#: Type -> digits and range that it holds: one is held by another that has no less of both.
_HOLDS = {
    torch.bool: (1, 0), torch.uint8: (8, 0), torch.int8: (7, 0), torch.int16: (15, 0), torch.int32: (31, 0),
    torch.int64: (63, 0), torch.bfloat16: (8, 8), torch.float16: (11, 5), torch.float32: (24, 8),
    torch.float64: (53, 11),
}  # fmt: skip
_SIGNED = {torch.int8, torch.int16, torch.int32, torch.int64, torch.bfloat16, torch.float16, torch.float32,
           torch.float64}  # fmt: skip


def apply(program: Any, asked: Asked) -> Rewritten:
    """Leaves out every conversion that changes nothing."""
    if not asked.graph:
        raise DoesNotApply("no_graph")
    left, changed = Counter[str](), 0
    written = any(graph.mutates(node) for _, node in graph.every(program))
    for module, node in graph.every(program):
        if graph.operator(node) not in _CASTS or not _only_type(node):
            continue
        source = node.args[0]
        if graph.operator(source) in _CASTS and _only_type(source):
            if not holds(matching.dtype_of(source), matching.dtype_of(source.args[0])):
                left["casts_round"] += 1
            else:
                source = source.args[0]
        if matching.dtype_of(node) == matching.dtype_of(source):
            copied = graph.operator(node) == "_to_copy" or source is not node.args[0]
            if written or (copied and _returned(node)):
                left["casts_copies"] += 1
                continue
            changed += 1
            node.replace_all_uses_with(source)
            module.graph.erase_node(node)
        elif source is not node.args[0]:
            changed += 1
            dtype = matching.dtype_of(node)
            with module.graph.inserting_before(node):
                made = module.graph.call_function(torch.ops.aten.to.dtype, (source, dtype))
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
            module.graph.erase_node(node)
    return Rewritten.of(program, changed, left, "casts_nothing")


def holds(wide: Any, narrow: Any) -> bool:
    """Whether every number of one type is exactly one of another."""
    if wide not in _HOLDS or narrow not in _HOLDS:
        return False
    if narrow in _SIGNED and wide not in _SIGNED:
        return False
    if narrow.is_floating_point and not wide.is_floating_point:
        return False
    (digits, power), (least, range_of) = _HOLDS[wide], _HOLDS[narrow]
    whole = wide.is_floating_point and not narrow.is_floating_point
    return digits >= least and (power >= range_of if not whole else least <= 2 ** (power - 1))


def _only_type(node: Any) -> bool:
    """Whether a conversion changes the type alone: neither the device nor the order in memory."""
    before, after = matching.value_of(node.args[0]), matching.value_of(node)
    if before is None or after is None or before.device != after.device:
        return False
    return node.kwargs.get("memory_format") in (None, torch.preserve_format) and len(node.args) < 5


def _returned(node: Any) -> bool:
    return any(user.op == "output" for user in node.users)
