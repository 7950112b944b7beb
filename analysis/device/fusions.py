"""Finds runs of neighbouring kernels that one kernel could do, and what each would then cost.

The kernels of a stream are written as text, one letter per kind of operator, so that rules
(analysis/device/fusions.toml) and chains are regular expressions over it: linear, and the position of a
match is the row of its first kernel. A chain that no rule takes counts from three kernels on, if
each reads what one before it wrote.

The cost follows from memory traffic. The kernels of a chain took `floor + bytes / bandwidth` each;
the fused kernel takes one floor, and at the bandwidth the chain itself reached, what comes from
outside plus what leaves. What one kernel hands to the next is neither written nor read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod, sqrt
from pathlib import Path

import numpy as np

from npulens.analysis.device.kernels import Bools, Kernels, Kind
from npulens.analysis.intervals import Ints

RULES_FILE = Path(__file__).with_name("fusions.toml")
MATMUL = re.compile(r"matmul|^b?mm$|^addmm$|^baddbmm$|^linear$", re.I)
#: Fewer make a chain only where a rule knows them: two neighbours are everywhere, and each pair saves one tensor.
SHORTEST, LONGEST = 3, 8
#: A kernel that does nothing takes 1 to 2 us on every device seen; where all are longer, no more than this is a floor.
FLOOR_NS = 3_000
#: Fused attention reaches 50 to 73 % of a device's peak forward and less backward (FlashAttention-2, arXiv
#: 2307.08691), large products some 85 % of it; the backward pass computes the scores once more.
ATTENTION, RECOMPUTED = 0.6, 1.25
#: Not a candidate: a memset, or taken by a rule already.
OTHER = " "
UNKNOWN = -1


@dataclass(frozen=True)
class Rule:
    operator: str
    cuda: str
    steps: tuple[str, ...]
    optional: frozenset[int]
    after: bool
    keeps: int
    external: int
    absorbed: bool


@dataclass(frozen=True)
class Chain:
    """Rows [begin, end) of the kernels; None: no rule knows it."""

    rule: Rule | None
    begin: int
    end: int


@cache
def rules() -> tuple[re.Pattern[str], tuple[Rule, ...]]:
    """What passes through memory, and the known sequences."""
    found = tomllib.loads(RULES_FILE.read_text("utf-8"))
    return re.compile(found["memory_bound"]), tuple(
        Rule(
            entry["operator"], entry["cuda"], tuple(entry["steps"]), frozenset(entry.get("optional", ())),
            entry.get("after", False), entry.get("keeps", 0), entry.get("external", 0),
            entry.get("absorbed", False),
        )
        for entry in found["fusion"]
    )  # fmt: skip


def plain(kind: Kind) -> str:
    """An operator's type without how it is spelt: small letters, no underscores, no version."""
    name = re.sub(r"v\d+$", "", kind.type.lower())
    letters = re.sub(r"[^a-z]", "", name)
    return "mm" if MATMUL.search(name) else "cast" if letters in ("copy", "tocopy", "to") else letters


def chains(every: Kernels) -> Iterator[Chain]:
    """Every sequence worth fusing, no kernel in two."""
    memory_bound, known = rules()
    names = [OTHER if kind.memset else plain(kind) for kind in every.kinds]
    letters = {name: chr(0x4E00 + number) for number, name in enumerate(sorted(set(names)))}  # one per type
    by_kind = np.array([OTHER if name == OTHER else letters[name] for name in names] or [OTHER], "<U1")
    text = by_kind[every.kind]
    links = Links(every)

    def some(step: str) -> str:
        return "".join(letter for name, letter in letters.items() if re.fullmatch(step, name))

    met: set[str] = set()
    for rule in known:
        pattern = _pattern(rule, [some(step) for step in rule.steps])
        if pattern is None or (rule.after and rule.operator not in met):
            continue
        taken = [(at.start(), at.end()) for at in pattern.finditer(str("".join(text))) if links.hold(*at.span())]
        for begin, end in taken:
            text[begin:end] = OTHER
            met.add(rule.operator)
            yield Chain(rule, begin, end)
    if loose := some(memory_bound.pattern):
        for at in re.finditer(f"[{loose}]{{{SHORTEST},}}", "".join(text)):
            for begin, end in links.pieces(*at.span()):
                yield Chain(None, begin, end)


def _pattern(rule: Rule, steps: list[str]) -> re.Pattern[str] | None:
    """The rule over letters; None where a type that it cannot do without never ran."""
    if any(not step and number not in rule.optional for number, step in enumerate(steps)):
        return None
    return re.compile("".join(
        f"[{step}]" + ("?" if number in rule.optional else "") for number, step in enumerate(steps) if step
    ))  # fmt: skip


class Links:
    """Which kernels read what an earlier one of their chain wrote, as far as sizes tell."""

    def __init__(self, every: Kernels) -> None:
        self.every = every
        self.track = every.track
        self.read = [_counts(kind.inputs) for kind in every.kinds]
        self.wrote = [_counts(kind.outputs) for kind in every.kinds]
        self.product = [plain(kind) == "mm" for kind in every.kinds]
        self._known: dict[bytes, list[tuple[int, int]]] = {}
        self._held: dict[bytes, bool] = {}

    def hold(self, begin: int, end: int) -> bool:
        """Whether rows [begin, end) lie on one stream and at least half of them read from one before them.

        A rule's sequence says much by itself; views (half of a rotated tensor) hide what a kernel reads.
        """
        run = self.every.kind[begin:end]
        key = run.tobytes()
        if key not in self._held:
            made, reading = self.wrote[run[0]], 0
            for kind in run[1:]:
                reading += self.product[kind] or self._reads(kind, made)
                made = made | self.wrote[kind]
            self._held[key] = 2 * reading >= len(run) - 1
        return self._held[key] and bool(self.track[begin] == self.track[end - 1])

    def _reads(self, kind: int, made: set[int]) -> bool:
        """What is not recorded (lists of tensors) could be anything."""
        return bool(self.read[kind] & made) or UNKNOWN in self.read[kind] or UNKNOWN in made

    def _follows(self, before: int, kind: int, made: set[int]) -> bool:
        """Twice the same copy or the same function of one tensor are two tensors side by side, as query and key are."""
        one = self.every.kinds[kind]
        aside = kind == before and (plain(one) == "cast" or len(one.inputs or ()) == 1)
        return not aside and self._reads(kind, made)

    def pieces(self, begin: int, end: int) -> list[tuple[int, int]]:
        """A run of kernels cut where the data does not flow on, where the stream ends, and into repeated parts."""
        run = self.every.kind[begin:end]
        breaks = self.track[begin + 1 : end] != self.track[begin : end - 1]
        key = run.tobytes() + breaks.tobytes()
        if key not in self._known:
            self._known[key] = self._cut(run, [*np.flatnonzero(breaks) + 1])
        return [(begin + first, begin + last) for first, last in self._known[key]]

    def _cut(self, run: Ints, breaks: list[int]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        first, made = 0, set[int]()
        for at, kind in enumerate([*run, None]):
            if kind is None or at in breaks or (at > first and not self._follows(run[at - 1], kind, made)):
                found += _parts(run, first, at)
                first, made = at, set()
            if kind is not None:
                made = made | self.wrote[kind]
        return found


def _parts(run: Ints, first: int, last: int) -> Iterator[tuple[int, int]]:
    """A long run in its shortest repeated part, or in pieces that are not too long."""
    if last - first <= LONGEST:
        if last - first >= SHORTEST:
            yield first, last
        return
    length = next(
        (n for n in range(SHORTEST, LONGEST + 1) if (run[first + n : last] == run[first : last - n]).all()), LONGEST
    )
    for start in range(first, last, length):
        if min(start + length, last) - start >= SHORTEST:
            yield start, min(start + length, last)


def _counts(tensors: tuple[tuple[str, int], ...] | None) -> set[int]:
    """How many values each tensor holds: a reshaped tensor keeps its count."""
    return {UNKNOWN} if tensors is None else {values(shape) for shape, _ in tensors}


@dataclass(frozen=True)
class Traffic:
    """Of one pattern: what its kernels move, what one kernel would move, and the operations of its matrix products."""

    moved: int
    outside: int
    flop: float
    known: Bools  # whose tensors are recorded


def traffic(kinds: list[Kind], rule: Rule | None) -> Traffic | None:
    """None where the tensors of its last kernel or of most others are not recorded."""
    known = np.array([kind.bytes is not None for kind in kinds])
    if not known[-1] or 2 * known.sum() <= len(kinds):
        return None
    outside = 0
    seen: set[int] = set()
    for number, kind in enumerate(kinds):
        for shape, size in kind.inputs or ():
            outside += size if number == 0 or not {values(shape), UNKNOWN} & seen else 0
        seen |= _counts(kind.inputs) | _counts(kind.outputs)
    leaves = sum(size for _, size in kinds[-1].outputs or ())
    outside = max(outside, leaves) + leaves  # it reads no less than it writes: slices of the input come one by one
    if rule is not None:
        kept = rule.keeps if plain(kinds[0]) == "add" else 0
        outside += max((size for _, size in kinds[0].outputs or ()), default=0) * (kept + rule.external)
    moved = sum(kind.bytes or 0 for kind in kinds)
    return Traffic(moved, min(outside, moved), sum(operations(kind) for kind in kinds), known)


def values(shape: str) -> int:
    """How many values a tensor of the shape holds."""
    return prod(map(int, shape.split(","))) if shape else 1


def operations(kind: Kind) -> float:
    """Floating point operations of a matrix product: 2 B M N K, from B M K, B K N and B M N values."""
    if plain(kind) != "mm" or len(kind.inputs or ()) < 2 or not kind.outputs:
        return 0.0
    left, right, out = (shape for shape, _ in (*(kind.inputs or ())[:2], kind.outputs[0]))
    batch = values(out.rsplit(",", 2)[0]) if out.count(",") > 1 else 1
    return 2 * sqrt(values(left) * values(right) * values(out) / max(1, batch))


def floor_ns(every: Kernels) -> int:
    """What a kernel takes that does nothing: the shortest ones of this run."""
    return int(min(FLOOR_NS, np.percentile(every.dur, 1, method="lower"))) if len(every) else FLOOR_NS


def product_rate(every: Kernels) -> float:
    """Operations per ns that the run's better matrix products reach; 0 where it has none."""
    flop = np.array([operations(kind) for kind in every.kinds] or [0.0])[every.kind]
    long = (flop > 0) & (every.dur > 20_000)
    return float(np.percentile(flop[long] / every.dur[long], 90, method="higher")) if long.any() else 0.0


@dataclass(frozen=True)
class Priced:
    """Chains of one pattern: the rows of each (one chain a line), and how much shorter each kernel would be."""

    rule: Rule | None
    cost: Traffic
    rows: Ints
    cut: Ints


def priced(every: Kernels, found: list[Chain]) -> list[Priced]:
    """What the chains would save, pattern by pattern; those whose tensors are not recorded are left out."""
    floor, rate = floor_ns(every), product_rate(every)
    product = np.array([plain(kind) == "mm" for kind in every.kinds])
    patterns: dict[tuple[int, bytes], list[Chain]] = {}
    for chain in found:
        patterns.setdefault((id(chain.rule), every.kind[chain.begin : chain.end].tobytes()), []).append(chain)
    prices = []
    for alike in patterns.values():
        first = alike[0]
        kinds = every.kind[first.begin : first.end]
        cost = traffic([every.kinds[kind] for kind in kinds], first.rule)
        if cost is None:
            continue
        rows = np.array([chain.begin for chain in alike], np.int64)[:, None] + np.arange(len(kinds))
        spent = every.dur[rows]
        left = np.minimum(spent.sum(axis=1), fused_ns(first.rule, spent, cost, floor, rate, product[kinds]))
        # What remains is the first kernels' time: the last are gone first.
        before = np.cumsum(spent, axis=1) - spent
        prices.append(Priced(first.rule, cost, rows, spent - np.clip(left[:, None] - before, 0, spent)))
    return prices


def fused_ns(rule: Rule | None, spent: Ints, cost: Traffic, floor: int, rate: float, product: Bools) -> Ints:
    """What each chain (a line of what its kernels took) would take as one kernel."""
    if rule is None or not rule.absorbed:
        moving = np.maximum(0, spent[:, cost.known].sum(axis=1) - int(cost.known.sum()) * floor)
        found: Ints = floor + (moving * (cost.outside / max(1, cost.moved))).astype(np.int64)
    elif rate and cost.flop:
        found = np.full(len(spent), int(cost.flop * (RECOMPUTED if rule.after else 1) / (ATTENTION * rate)) + floor)
    else:
        found = spent[:, product].sum(axis=1)
    return found
