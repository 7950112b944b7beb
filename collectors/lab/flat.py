"""A module as a function of tensors: whatever it is called with, only tensors go in and only tensors come out.

Numbers, texts and None of a call belong to the program. A call that has others is another class of calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

#: What a call may hold besides tensors.
_PLAIN = (int, float, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class Unreadable(ValueError):
    """A call with something that is neither a tensor nor a plain value."""


@dataclass(frozen=True)
class Call:
    """One call, taken apart: its tensors, and everything else as a pattern that other calls may share."""

    tensors: tuple[Any, ...]
    spec: Any
    rest: tuple[Any, ...]  # by place; None where a tensor goes
    places: tuple[int, ...]  # of the tensors among all leaves

    @property
    def pattern(self) -> tuple[object, ...]:
        """The same for two calls that one program can answer."""
        kinds = tuple((str(each.dtype), each.dim()) for each in self.tensors)
        return str(self.spec), tuple(map(repr, self.rest)), self.places, kinds

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(each.shape) for each in self.tensors)


def taken_apart(args: Any, kwargs: Any) -> Call:
    """A call's tensors and the rest of it."""
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    places = tuple(place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor))
    for place, leaf in enumerate(leaves):
        if place not in places and not isinstance(leaf, _PLAIN):
            raise Unreadable(f"it is called with a {type(leaf).__name__}")
    rest = tuple(None if place in places else leaf for place, leaf in enumerate(leaves))
    return Call(tuple(leaves[place] for place in places), spec, rest, places)


def tensors_of(output: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The tensors of a result in their order, and the kinds of what else is in it."""
    leaves = pytree.tree_leaves(output)
    others = {type(leaf).__name__ for leaf in leaves if not isinstance(leaf, (torch.Tensor, type(None)))}
    return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), tuple(sorted(others))


class Flat(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into by mypy
    """The module as such a function."""

    def __init__(self, module: Any, call: Call, autocast: Any = None) -> None:
        super().__init__()
        self.module = module
        self.training = module.training
        self._spec, self._rest, self._places, self._autocast = call.spec, call.rest, call.places, autocast

    def around(self, other: Any) -> Flat:
        """The same around another module that is called alike."""
        return Flat(other, Call((), self._spec, self._rest, self._places), self._autocast)

    def forward(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        leaves = list(self._rest)
        for place, tensor in zip(self._places, tensors):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        if self._autocast is None:
            return tensors_of(self.module(*args, **kwargs))[0]
        with torch.autocast(*self._autocast):
            return tensors_of(self.module(*args, **kwargs))[0]
