"""Matrix products among kernels, and how many operations they are."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod, sqrt

import numpy as np

from npulens.analysis.device.kernels import Floats
from npulens.analysis.device.kinds import TYPED, Bools, Kind, Kinds
from npulens.analysis.device.tensors import PRODUCTS

MATMUL = re.compile(r"matmul|^b?mm$|^addmm$|^baddbmm$|^linear$", re.I)


def plain(kind: Kind) -> str:
    """An operator's type without how it is spelt: small letters, no underscores, no version."""
    return _plain(kind.type)


@lru_cache(maxsize=65536)
def _plain(type_: str) -> str:
    name = re.sub(r"v\d+$", "", type_.lower())
    letters = re.sub(r"[^a-z]", "", name)
    return "mm" if MATMUL.search(name) else "cast" if letters in ("copy", "tocopy", "to") else letters


@lru_cache(maxsize=65536)
def values(shape: str) -> int:
    """How many values a tensor of the shape holds."""
    return prod(map(int, shape.split(","))) if shape else 1


def operations(kind: Kind) -> float:
    """Floating point operations of a matrix product: 2 B M N K. It follows from B M K, B K N and B M N values.

    Where only the left operand has a batch, its matrices are one tall one.
    """
    at = PRODUCTS.get(kind.type, 0)
    if plain(kind) != "mm" or len(kind.inputs or ()) < at + 2 or not kind.outputs:
        return 0.0
    left, right, out = (shape for shape, _ in (*(kind.inputs or ())[at : at + 2], kind.outputs[0]))
    batch = values(right.rsplit(",", 2)[0]) if right.count(",") > 1 else 1
    return 2 * sqrt(values(left) * values(right) * values(out) / max(1, batch))


def products(kinds: Kinds) -> Bools:
    """Which kinds are matrix products."""
    return kinds.each(lambda kind: plain(kind) == "mm", *TYPED).flags()


def operations_of(kinds: Kinds) -> Floats:
    """`operations` of every kind."""
    given, made = kinds.inputs, kinds.outputs
    found = np.zeros(len(kinds))
    left = kinds.types.map(lambda name: PRODUCTS.get(name, 0)).ints()
    mine = np.flatnonzero(products(kinds) & (given.count > left + 1) & (made.count > 0))
    first, out = given.first[mine] + left[mine], made.first[mine]
    sizes = (given.values[first], given.values[first + 1], made.values[out], given.matrices[first + 1])
    found[mine] = [
        2 * sqrt(left * right * whole / max(1, batch))
        for left, right, whole, batch in zip(*(size.tolist() for size in sizes), strict=True)
    ]
    return found
