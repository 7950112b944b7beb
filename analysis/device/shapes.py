"""The tensors of many kinds of work at once, as arrays: what analysis/device/tensors.py says of one, word for word.

Lists in the one spelling of a profiler are read together. A list in any other spelling is read by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.tensors import NO_TENSOR, SIZES, dtype, listed, tensors
from npulens.analysis.intervals import Ints

Bools = NDArray[np.bool_]
_SIDE = "(?:0|[1-9][0-9]{0,17})"
_LIST = rf"(?:{_SIDE}(?:, ?{_SIDE})*)?"
_JSON = re.compile(rf"\[(?:\[{_LIST}\](?:, ?\[{_LIST}\])*)?\]")
_SIDES = rf"(?:{_SIDE}(?:,{_SIDE})*)?"
_TEXT = re.compile(rf"{_SIDES}(?:;{_SIDES})*")
#: Of a number only its length counts in the form of a list, and whether it begins with 0; and a list without its form.
_ALIKE, _BARE = str.maketrans("23456789", "11111111"), str.maketrans('[],;"', "     ")
#: Texts that are read at a time: as objects of Python they take much more room than as arrays.
_AT_ONCE = 1 << 14
#: Bytes of a tensor that arrays hold exactly, and the most that is said of a larger one.
_EXACT, _MOST = 2**50, 2**60
#: How a list is spelt: in no way that is known here, as JSON, or with semicolons.
ODD, AS_JSON, AS_TEXT = range(3)
#: What stands in a list of types beside sizes: no tensor; none if it has no sides; an unknown type.
_NONE, _LEFT_OUT, _UNKNOWN = 0, -1, -2


@dataclass(frozen=True)
class Tensors:
    """The tensors of every kind, one behind the other: a kind has those from first[kind] to first[kind + 1]."""

    known: Bools  # whether all tensors of a kind can be told; of one whose cannot none are here
    first: Ints
    values: Ints  # how many values each holds
    bytes: Ints
    sides: Ints
    last: Ints  # its last side; 1 where it has none
    rows: Ints  # the product of all sides but the last
    matrices: Ints  # the product of all sides but the last two

    @cached_property
    def count(self) -> Ints:
        """How many each kind has."""
        return np.diff(self.first)

    def total(self) -> Ints:
        """Bytes of all tensors of each kind."""
        until = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.bytes)))
        return until[self.first[1:]] - until[self.first[:-1]]

    @cached_property
    def _lists(self) -> tuple[list[bool], list[int], list[int]]:
        return self.known.tolist(), self.first.tolist(), self.values.tolist()

    def told(self, kind: int) -> bool:
        """Whether all tensors of a kind can be told."""
        return self._lists[0][kind]

    def of(self, kind: int) -> list[int]:
        """How many values the tensors of one kind hold."""
        _, first, values = self._lists
        return values[first[kind] : first[kind + 1]]


def _told(known: Bools, owner: Ints, table: NDArray[np.int64]) -> Tensors:
    """From tensors in any order, and the kind of each."""
    order = np.argsort(owner, kind="stable")
    first = np.searchsorted(owner[order], np.arange(len(known) + 1))
    return Tensors(known, first, *table[:, order])


def _table(some: Tensors) -> NDArray[np.int64]:
    return np.stack((some.values, some.bytes, some.sides, some.last, some.rows, some.matrices))


def _owners(some: Tensors) -> Ints:
    return np.repeat(np.arange(len(some.known)), some.count)


def joined(some: Tensors, others: Tensors, which: Bools) -> Tensors:
    """Of some kinds the tensors that others say."""
    mine, theirs = ~which[_owners(some)], which[_owners(others)]
    return _told(
        np.where(which, others.known, some.known), np.concatenate((_owners(some)[mine], _owners(others)[theirs])),
        np.concatenate((_table(some)[:, mine], _table(others)[:, theirs]), axis=1),
    )  # fmt: skip


def like_largest(some: Tensors, reduce: Bools) -> Tensors:
    """One tensor for each kind that has any: its largest, the first of several; without the last side if it reduces."""
    owner = _owners(some)
    order = np.lexsort((-np.arange(len(owner)), some.bytes, owner))
    has = some.count > 0
    largest = order[some.first[1:][has] - 1]
    values, size, sides, last, rows, matrices = _table(some)[:, largest]
    less = reduce[has] & (sides > 1)
    return _told(has, np.flatnonzero(has), np.stack((
        np.where(less, rows, values), np.where(less, size // np.maximum(1, last), size), sides,
        np.where(less, 1, last), rows, matrices,
    )))  # fmt: skip


def products_of(some: Tensors, left: Ints, turned: Bools) -> Tensors:
    """What matrix products make; `left`: which tensor of each kind is its left operand, -1 where it is no product."""
    mine = np.flatnonzero((left >= 0) & (some.count > left + 1))
    at = some.first[mine] + left[mine]
    two = (some.sides[at] > 1) & (some.sides[at + 1] > 1) & (some.values[at] > 0) & (some.values[at + 1] > 0)
    mine, at = mine[two], at[two]
    tall = some.rows[at + 1] // np.maximum(1, some.matrices[at + 1])
    inner, wide = np.where(turned[mine], (some.last[at + 1], tall), (tall, some.last[at + 1]))
    fit = inner == some.last[at]
    mine, at, wide = mine[fit], at[fit], wide[fit]
    more = some.matrices[at + 1] > some.matrices[at]
    matrices = np.where(more, some.matrices[at + 1], some.matrices[at])
    rows = matrices * (some.rows[at] // np.maximum(1, some.matrices[at]))
    known = np.zeros(len(some.known), np.bool_)
    known[mine] = True
    return _told(known, mine, np.stack((
        rows * wide, rows * wide * (some.bytes[at] // some.values[at]),
        np.where(more, some.sides[at + 1], some.sides[at]), wide, rows, matrices,
    )))  # fmt: skip


def tensors_of(
    shape: Ints, shapes: Sequence[str | None], kind: Ints, kinds: Sequence[str | None], read: Lists
) -> Tensors:
    """Of every kind the tensors with its shapes and types. Both are places among some texts; `read`: the shapes."""
    spelt = read.spelt[shape]
    sizes = _sizes(read.spelt, kinds)
    row = spelt * len(kinds) + kind
    told = (spelt != ODD) & sizes.told[row]
    fits = told & (read.count[shape] == sizes.count[row])
    mine = np.flatnonzero(fits)
    at = _spread(read.first[shape[mine]], read.count[shape[mine]])
    size = sizes.sizes[_spread(sizes.first[row[mine]], read.count[shape[mine]])]
    owner = np.repeat(mine, read.count[shape[mine]])
    table = read.table[:, at]
    none = (size == _NONE) | ((size == _LEFT_OUT) & (table[1] == 0))
    known = fits.copy()
    known[owner[~none & (size < 0)]] = False
    keep = known[owner] & ~none
    values, sides, last, rows, matrices = table[:, keep]
    parts = [np.stack((values, values * size[keep], sides, last, rows, matrices))]
    owners = [owner[keep]]
    left = np.flatnonzero(~told & np.array([one is not None for one in shapes], np.bool_)[shape])
    for row_, of in _alike(left, shape, kind, len(kinds)):
        found = _one(shapes[row_ // len(kinds)], kinds[row_ % len(kinds)])
        if found is not None:
            known[of] = True
            parts.append(np.tile(found, len(of)))
            owners.append(np.repeat(of, found.shape[1]))
    return _told(known, np.concatenate(owners), np.concatenate(parts, axis=1))


def _spread(first: Ints, count: Ints) -> Ints:
    """The places from each first on, as many as there are."""
    ends = np.cumsum(count)
    found: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first - (ends - count), count)
    return found


def _alike(rows: Ints, shape: Ints, kind: Ints, kinds: int) -> list[tuple[int, Ints]]:
    """The rows with the same shapes and types together."""
    key = shape[rows] * kinds + kind[rows]
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1))
    return [(int(key[part[0]]), rows[part]) for part in np.split(order, edges[1:]) if len(part)]


def _one(shapes: str | None, kinds: str | None) -> NDArray[np.int64] | None:
    """One list in an odd spelling, tensor by tensor; None where it cannot be told."""
    found = tensors(shapes, kinds)
    if found is None:
        return None
    rows = []
    for text, size in found:
        sides = [int(side == "True") if side in ("True", "False") else int(side) for side in text.split(",") if text]
        products = [1]
        for side in sides:
            products.append(products[-1] * side)
        rows.append([
            min(one, _MOST) for one in (
                products[-1], size, len(sides), sides[-1] if sides else 1,
                products[-2] if sides else 1, products[-3] if len(sides) > 2 else 1,
            )
        ])  # fmt: skip
    return np.array(rows, np.int64).reshape(-1, 6).T


@dataclass(frozen=True)
class Lists:
    """What texts of shapes say: tensors one behind the other, those of a text from `first` on."""

    spelt: Ints  # ODD, AS_JSON or AS_TEXT
    count: Ints
    first: Ints
    table: NDArray[np.int64]  # values, sides, last, rows, matrices
    dims: Ints  # the sides themselves, those of a tensor from `begin` on
    begin: Ints


def lists(texts: Sequence[str | None]) -> Lists:
    """Reads every text that is spelt in a usual way. Texts that differ in their numbers alone are of one form."""
    drawn = [text if text is None else text.translate(_ALIKE) for text in texts] or [None]
    forms = {form: place for place, form in enumerate(dict.fromkeys(drawn))}
    code = np.fromiter(map(forms.__getitem__, drawn), np.int64, len(drawn))
    said = [_form(form) for form in forms]
    spelt, each = np.array([spelling for spelling, _ in said])[code], np.array([len(sides) for _, sides in said])
    flat = np.array([side for _, sides in said for side in sides], np.int64)
    count = each[code]
    side = flat[_spread((np.cumsum(each) - each)[code], count)]
    usable, dims = np.flatnonzero(spelt != ODD).tolist(), [np.zeros(0, np.int64)]
    for begin in range(0, len(usable), _AT_ONCE):
        some = " ".join(str(texts[at]) for at in usable[begin : begin + _AT_ONCE])
        dims.append(np.fromiter(map(int, some.translate(_BARE).split()), np.int64))
    every_dim = np.concatenate(dims)
    table, small = _products(side, every_dim)
    spelt[np.repeat(np.arange(len(count)), count)[~small]] = ODD
    return Lists(spelt, count, np.cumsum(count) - count, table, every_dim, np.cumsum(side) - side)


def _form(form: str | None) -> tuple[int, list[int]]:
    """How a list is spelt, and how many sides each of its tensors has."""
    bare = (form or "").strip('"')
    if form is not None and form.startswith("["):
        return (AS_JSON, list(map(len, json.loads(form)))) if _JSON.fullmatch(form) else (ODD, [])
    if form is None or not _TEXT.fullmatch(bare):
        return ODD, []
    return AS_TEXT, [len(sides.split(",")) if sides else 0 for sides in bare.split(";")]


def _products(sides: Ints, dims: Ints) -> tuple[NDArray[np.int64], Bools]:
    """Values, sides, last, rows and matrices of tensors with these sides; and which of them are small enough."""
    if not len(sides):
        return np.zeros((5, 0), np.int64), np.zeros(0, np.bool_)
    ends = np.cumsum(sides + 1)  # each begins with a 1, so that none is empty
    every = np.ones(int(ends[-1]), np.int64)
    begins = ends - sides - 1
    inside = np.ones(len(every), np.bool_)
    inside[begins] = False
    every[inside] = dims
    small = np.multiply.reduceat(np.maximum(every, 1).astype(np.float64), begins) * max(SIZES.values()) < _EXACT
    last = every[ends - 1]
    values = np.multiply.reduceat(every, begins)
    every[ends - 1] = 1
    rows = np.multiply.reduceat(every, begins)
    matrix = sides > 2
    every[ends[matrix] - 2] = 1
    matrices = np.where(matrix, np.multiply.reduceat(every, begins), 1)
    return np.stack((values, sides, last, rows, matrices)), np.asarray(small)


@dataclass(frozen=True)
class _Sizes:
    """Bytes of a value by list of types: rows by spelling and text, their lists one behind the other."""

    told: Bools
    count: Ints
    first: Ints
    sizes: Ints


def _sizes(spelt: Ints, texts: Sequence[str | None]) -> _Sizes:
    every = [
        _types(spelling, text) if spelling in spelt and text is not None else None
        for spelling in (ODD, AS_JSON, AS_TEXT) for text in texts
    ]  # fmt: skip
    count = np.array([len(one or ()) for one in every], np.int64)
    flat = np.array([size for one in every for size in one or ()], np.int64)
    return _Sizes(np.array([one is not None for one in every], np.bool_), count, np.cumsum(count) - count, flat)


def _types(spelling: int, text: str) -> list[int] | None:
    """Bytes of a value of each type; None where the list itself is odd."""
    if spelling == ODD:
        return None
    if spelling == AS_TEXT:
        return [SIZES.get(dtype(name), _UNKNOWN if name.strip() else _LEFT_OUT) for name in text.strip('"').split(";")]
    try:
        names: Any = listed(text)
    except ValueError:
        return None
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        return None
    return [_NONE if dtype(name) in NO_TENSOR else SIZES.get(dtype(name), _UNKNOWN) for name in names]
