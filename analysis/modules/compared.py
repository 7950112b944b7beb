"""Two runs module by module; modules that have other names in the other run are found by what they are.

Trees are matched from the top. Of two modules that belong together, the modules that they call are matched by what
they have in common, the surest first:

* name and class; what wrappers (DDP, FSDP, torch.compile, checkpoints) put into a name does not count;
* the name, unless it is only a number;
* the class, and what they call in its order;
* what they call, whatever their own class;
* the class;
* the same operations.

Before the last of these, wrappers are stepped over. A wrapper calls only one module, and that one belongs to a module
of the other run. Where several are alike, the n-th goes with the n-th.

All times are those of a step and rank, as fractions. So own changes of all rows sum to the change of the run exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from npulens.analysis.modules.measure import Module, Modules

SAME, RENAMED, ADDED, REMOVED = "same", "renamed", "added", "removed"
#: A place in base and one in head.
Pair = tuple[int | None, int | None]
#: What wrappers put into the path of a module.
_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?:\.|$)")
#: What profilers call a module and number by themselves.
_NUMBER = re.compile(r"_\d+$")


@dataclass(frozen=True)
class Change:
    """One module of either run, or of both."""

    id: int
    parent: int
    depth: int
    how: str  # SAME, RENAMED, ADDED, REMOVED
    base: Module | None
    head: Module | None
    base_ns: Fraction  # device time of a step and rank, with the modules that it calls
    head_ns: Fraction
    own_base_ns: Fraction
    own_head_ns: Fraction

    @property
    def change_ns(self) -> Fraction:
        return self.head_ns - self.base_ns

    @property
    def own_change_ns(self) -> Fraction:
        return self.own_head_ns - self.own_base_ns

    def as_dict(self) -> dict[str, Any]:
        sides = {
            name: None if row is None else {"path": row.path, "type": row.type, "calls": row.calls}
            for name, row in (("base", self.base), ("head", self.head))
        }
        times = ("base_ns", "head_ns", "change_ns", "own_base_ns", "own_head_ns", "own_change_ns")
        place = {"id": self.id, "parent": self.parent, "depth": self.depth, "how": self.how}
        return {**place, **sides, **{name: float(getattr(self, name)) for name in times}}


@dataclass(frozen=True)
class Compared:
    """The modules of both runs, as a tree."""

    rows: tuple[Change, ...]
    base: Modules
    head: Modules
    base_ns: Fraction  # device time of a step and rank
    head_ns: Fraction

    def as_dict(self) -> dict[str, Any]:
        return {
            "base_ns": float(self.base_ns), "head_ns": float(self.head_ns),
            "change_ns": float(self.head_ns - self.base_ns), "rows": [row.as_dict() for row in self.rows],
        }  # fmt: skip


def compared(base: Modules, head: Modules) -> Compared:
    """Head beside base."""
    sides = _Side(base), _Side(head)
    return Compared(
        _Walk(*sides).rows(), base, head, sides[0].each(base.whole.device_ns), sides[1].each(head.whole.device_ns)
    )


class _Side:
    """The tree of one run, and what its modules are."""

    def __init__(self, run: Modules) -> None:
        self.rows = run.rows
        self.parts = run.steps * max(1, len(run.ranks))
        self._below: dict[int, list[int]] = {}
        for row in run.rows:
            self._below.setdefault(row.parent, []).append(row.id)
        # What is below a module, as a number: classes in their order, with and without its own.
        self.inside, self.kind = [0] * len(run.rows), [0] * len(run.rows)

    def below(self, row: int) -> list[int]:
        return self._below.get(row, [])

    def each(self, ns: int) -> Fraction:
        """Of a step and rank."""
        return Fraction(ns, self.parts)

    def only(self, row: int) -> Iterator[Hashable]:
        """The keys of what it calls, as long as that is only one module."""
        while len(below := self.below(row)) == 1:
            row = below[0]
            yield self.key(row)

    def key(self, row: int) -> Hashable:
        """What tells whether a module is the same one, wrapped."""
        return self.rows[row].type, self.kind[row]

    def number(self, known: dict[Hashable, int]) -> None:
        """Gives the same number to what is the same; ``known`` is that of both sides."""
        for row in reversed(self.rows):  # a module comes before those that it calls
            inside = tuple(self.kind[child] for child in self.below(row.id))
            self.inside[row.id] = known.setdefault(inside, len(known)) if inside else 0
            self.kind[row.id] = known.setdefault((row.type, inside), len(known))


class _Walk:
    """Both trees, from the top."""

    def __init__(self, base: _Side, head: _Side) -> None:
        self._base, self._head = base, head
        self._lent: dict[Pair, list[int]] = {}  # a module that only wraps -> what the other run has without it
        known: dict[Hashable, int] = {(): 0}
        base.number(known)
        head.number(known)

    def rows(self) -> tuple[Change, ...]:
        """A pair, then what it calls; what only one side has stands before what came after it."""
        found = list(self._walked())
        base, head = [row.own_base_ns for row in found], [row.own_head_ns for row in found]
        for row in reversed(found):
            if row.parent != -1:
                base[row.parent] += base[row.id]
                head[row.parent] += head[row.id]
        return tuple(replace(row, base_ns=base[row.id], head_ns=head[row.id]) for row in found)

    def _walked(self) -> Iterator[Change]:
        count = 0
        open_ = [(pair, -1, 0) for pair in reversed(self._paired(self._base.below(-1), self._head.below(-1)))]
        while open_:
            pair, parent, depth = open_.pop()
            yield self._change(count, parent, depth, *pair)
            below = [
                self._lent.get(pair, []) if one is None else side.below(one)
                for side, one in zip((self._base, self._head), pair, strict=True)
            ]
            open_ += [(each, count, depth + 1) for each in reversed(self._paired(*below))]
            count += 1

    def _change(self, at: int, parent: int, depth: int, old: int | None, new: int | None) -> Change:
        was = None if old is None else self._base.rows[old]
        now = None if new is None else self._head.rows[new]
        if was is None or now is None:
            how = ADDED if was is None else REMOVED
        else:
            how = SAME if (was.type, _plain(was)) == (now.type, _plain(now)) else RENAMED
        own = [
            Fraction(0) if row is None else side.each(row.own.device_ns)
            for side, row in ((self._base, was), (self._head, now))
        ]
        return Change(at, parent, depth, how, was, now, *own, *own)

    def _paired(self, old: Sequence[int], new: Sequence[int]) -> list[Pair]:
        """The modules that two matched modules call."""
        left, right = list(old), list(new)
        pairs: dict[int, int] = {}
        for like in (_by_name, _by_name_alone, _by_kind, _by_inside, _by_type):
            self._match(left, right, pairs, like)
        wrapped = self._step_over(left, right)
        self._match(left, right, pairs, _by_work)
        found: list[Pair] = []
        gone = [one for one in old if one in left]
        found_at = {new: old for new, old in pairs.items()}
        kept = set(right) | set(found_at)
        for each in new:
            if each not in kept:
                continue
            was = found_at.get(each)
            while was is not None and gone and gone[0] < was:
                found.append((gone.pop(0), None))
            found.append((was, each))
        return [*found, *((one, None) for one in gone), *wrapped]

    def _step_over(self, left: list[int], right: list[int]) -> list[Pair]:
        """Modules that only wrap one that the other run has without them."""
        found: list[Pair] = []
        for sides, wraps, bare in (
            ((self._base, self._head), right, left), ((self._head, self._base), left, right),
        ):  # fmt: skip
            known: dict[Hashable, list[int]] = {}
            for each in bare:
                known.setdefault(sides[0].key(each), []).append(each)
            for each in wraps:
                same = next((known[key] for key in sides[1].only(each) if known.get(key)), None)
                if same:
                    pair = (None, each) if wraps is right else (each, None)
                    self._lent[pair] = [same.pop(0)]
                    found.append(pair)
            lent = {self._lent[pair][0] for pair in found}
            bare[:] = [one for one in bare if one not in lent]
            wraps[:] = [one for one in wraps if (None, one) not in found and (one, None) not in found]
        return found

    def _match(self, left: list[int], right: list[int], pairs: dict[int, int], like: Like) -> None:
        """The n-th of those that are alike goes with the n-th."""
        waiting: dict[Hashable, list[int]] = {}
        for each in left:
            key = like(self._base, each)
            if key is not None:
                waiting.setdefault(key, []).append(each)
        matched = {new: same.pop(0) for new in right if (same := waiting.get(like(self._head, new)))}
        pairs.update(matched)
        gone = set(matched.values())
        left[:] = [one for one in left if one not in gone]
        right[:] = [one for one in right if one not in matched]


# ---- What two modules may have in common, the surest first; None is nothing.

Like = Callable[[_Side, int], Hashable]


def _by_name(side: _Side, at: int) -> Hashable:
    row = side.rows[at]
    return row.place, row.type, _plain(row)


def _by_name_alone(side: _Side, at: int) -> Hashable:
    name = _plain(side.rows[at])
    return None if name.rpartition(".")[2].isdigit() or name == side.rows[at].type else name


def _by_kind(side: _Side, at: int) -> Hashable:
    return side.kind[at] if side.rows[at].place == "module" else None


def _by_inside(side: _Side, at: int) -> Hashable:
    return side.inside[at] or None


def _by_type(side: _Side, at: int) -> Hashable:
    return side.rows[at].type or None


def _by_work(side: _Side, at: int) -> Hashable:
    row = side.rows[at]
    return (side.each(row.total.flops) or None) if row.place == "module" else None


def _plain(row: Module) -> str:
    """Its name without wrappers; of a number that the profiler gave only the class is left."""
    name = _WRAPPERS.sub("", row.name)
    return _NUMBER.sub("", name) if name.startswith(f"{row.type}_") else name
