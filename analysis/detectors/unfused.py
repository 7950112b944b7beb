"""Neighbouring kernels pass data through memory that one kernel would keep.

## What it measures

Runs of neighbouring kernels on one stream, each of which reads what one before it wrote. Some of them a known operator
does in one kernel: written-out attention, norms, activations, rotary embeddings and optimizers
(analysis/rules.toml). The others are any other chain of three or more kernels that are bound by memory. Two
such neighbours that no rule knows are not a finding. Every network has them, between matrix products that are most of
its time. The fused kernel's cost is that of the tensors that come from outside and leave, plus one kernel's fixed cost.
The bandwidth is the one that the chain itself reached; of attention, the arithmetic of its products counts.

## Why it costs

A kernel bound by memory takes as long as its tensors take to be read and written. In a chain every tensor between two
kernels is written and read for nothing. Every kernel adds its launch and a gap of a microsecond or two.

## What to do

Call the operator that is named. Where none is, let a compiler fuse the chain: `torch.compile` (with torchair on
Ascend), or write one Triton kernel.

## Limits of the method

A ceiling. Which tensor a kernel reads is told by sizes, not by addresses. A tensor between two kernels that something
else needs later (the backward pass) must still be written. The same kernel on the same sizes again and again is no
chain. Needs shapes and types: Level1, or record_shapes on CUDA.

## References

Operators: torch_npu API list, and "fused operator API replacement" of msprof-analyze. Memory traffic as the cost of
element-wise work: Ivanov et al. 2021, "Data Movement Is All You Need", arXiv 2007.00072.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import limits
from npulens.analysis import rules as rule_file
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.conversion import conversions
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import Kernels, kernels
from npulens.analysis.device.kinds import TYPED, Bools, Kind
from npulens.analysis.device.products import operations, operations_of, plain, products, values
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Value, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.issue import QUEUED, RUNTIME
from npulens.analysis.idle.launch_costs import kernel_calls, launch_costs
from npulens.analysis.idle.origin import origins
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.run import Run
from npulens.analysis.steady import steady_ns
from npulens.analysis.work.judged import enough, most_of_a_rank, some

NEEDS = ("kernels",)

#: Between two tasks that are queued already a stream takes 1 to 2 us (real captures); more has another cause.
MOST_GAP_NS = 5_000
GENERIC = "torch.compile, or one Triton kernel"
_GENERIC_ZH = "torch.compile，或写一个 Triton 算子"


class Limits(limits.Limits):
    pass


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {kernels} are separate kernels, {count} times a step: {chain_ns} that one kernel does in "
            "{fused_ns}",
            "Use {operator}. The tensors between these kernels are written and read for nothing, "
            "{between_bytes} in each step. Launched by {origin}. What is given back counts launches that go, too.",
        ),
        "several": Words(
            "Rank {ranks}: {chains} chains of separate kernels take {spent_ns} in each step, {fused_ns} as one kernel "
            "each. Most is lost in {kernels} ({count} times a step): {chain_ns} instead of {chain_fused_ns}",
            "Use {operator}. The tensors between the kernels of a chain are written and read for nothing, "
            "{between_bytes} in each step. That chain is launched by {origin}. What is given back counts launches that "
            "go, too.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步 {count} 处 {kernels} 是分开的算子，共 {chain_ns}，融合后约 {fused_ns}",
            "请使用 {operator_zh}。这些算子之间的张量每步白白读写 {between_bytes}。由 {origin_zh} 下发。"
            "收益也包含省掉的下发时间。",
        ),
        "several": Words(
            "rank {ranks}：每步 {chains} 串算子没有融合，共 {spent_ns}，逐串融合后约 {fused_ns}；"
            "损失最多的是 {kernels}（每步 {count} 串）：{chain_ns}，融合后约 {chain_fused_ns}",
            "请使用 {operator_zh}。每串算子之间的张量每步白白读写，共 {between_bytes}。"
            "损失最多的那一串由 {origin_zh} 下发。收益也包含省掉的下发时间。",
        ),
    },
}


#: What makes random masks.
DROPS = ("dropout", "native_dropout", "bernoulli_", "feature_dropout")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every = run.get(kernels)
    about = every.of(~every.kinds.memset)
    some(about)
    collect_with = "profiler_level=Level1" if run.get(family) == "npu" else "record_shapes=True"
    if (every.kinds.bytes < 0).all():
        raise NotMeasured("no kernel has shapes", "算子未记录形状", collect_with)
    if _most(run) < limits.min_share * run.get(steady_ns):
        shaped = every.of(every.kinds.bytes >= 0)
        enough(run, about, shaped, limits.min_share, ("kernels with shapes", "记录了形状的算子"))
    for operator, prices in run.get(_priced).items():
        if len(prices):
            at = every.rank[prices.rows[prices.begin]]
            for ranks, _ in by_rank(at, prices.saved()):
                yield _candidate(run, every, operator, ranks, prices.of(np.isin(at, ranks)))


def fused(run: Run) -> Ints:
    """Per kernel: how much shorter it would be if every chain were one kernel."""
    cut = np.zeros(len(run.get(kernels)), np.int64)
    for prices in run.get(_priced).values():
        cut[prices.rows] = prices.cut
    return cut


def _most(run: Run) -> int:
    """What fusing the chains of one operator gives a rank back at most, with launches and gaps that would be gone."""
    every, ordinary, cut = run.get(kernels), run.get(launch_costs).ordinary_ns, run.get(fused)
    of_each = (prices.rows for prices in run.get(_priced).values())
    return max((most_of_a_rank(every.rank[rows], cut[rows] + ordinary + MOST_GAP_NS) for rows in of_each), default=0)


def _priced(run: Run) -> dict[str, Priced]:
    """By the operator that would do it, what the chains would save."""
    every = run.get(kernels)
    groups: dict[str, list[Chain]] = {}
    computes = every.of(run.get(conversions).map(lambda converted: converted is None).flags())
    drops = every.of(every.kinds.types.map(lambda name: name in DROPS).flags())
    drops &= run.get(family) == "cpu"
    for chain in chains(every):
        if chain.rule is None and computes[chain.begin : chain.end].sum() < 2:
            continue  # what only converts around one kernel is layout_conversion's
        if chain.rule is not None and chain.rule.absorbed and drops[chain.begin : chain.end].any():
            continue  # on a CPU torch has no fused attention that drops values
        groups.setdefault(chain.rule.operator if chain.rule else GENERIC, []).append(chain)
    return {operator: priced(every, found) for operator, found in groups.items()}


def _candidate(run: Run, every: Kernels, operator: str, ranks: tuple[int, ...], prices: Priced) -> Candidate:
    saved, spent = prices.saved(), _sum(every.dur[prices.rows], prices)
    called = _called(every, prices)
    most = int(np.argmax(np.bincount(called, saved)))
    mine = called == most
    order = np.argsort(-saved, kind="stable")
    order = np.concatenate((order[mine[order]], order[~mine[order]]))  # the chain that is named first
    worst = int(order[0])
    rule = prices.rules[prices.pattern[worst]]
    if rule and run.get(family) != "npu":
        operator = rule.cuda
    rows, cut = prices.rows, prices.cut
    later = np.delete(rows, prices.begin)
    before = later - 1
    gaps = np.clip(every.ts[later] - (every.ts[before] + every.dur[before]), 0, MOST_GAP_NS)
    largest = order[:20]
    ends = zip(rows[prices.begin[largest]].tolist(), rows[prices.end[largest] - 1].tolist(), strict=True)
    per = run.step_count * len(ranks)
    between = int(np.array([cost.moved - cost.outside for cost in prices.costs], np.int64)[prices.pattern].sum())
    first = rows[prices.begin[worst] : prices.end[worst]]
    numbers: dict[str, Value] = {
        "rule": rule.name if rule else None,
        "ranks": said(ranks), "operator": operator, "operator_zh": in_chinese(operator),
        "kernels": " + ".join(every.kinds[kind].type for kind in every.kind[first]),
        "count": _each(int(mine.sum()), per), "chain_ns": int(spent[mine].sum()) // per,
        "chain_fused_ns": int((spent - saved)[mine].sum()) // per, "chains": _each(len(saved), per),
        "spent_ns": int(spent.sum()) // per, "fused_ns": int((spent - saved).sum()) // per,
        "between_bytes": between // per, **origins(run, int(every.span_id[first[0]])),
    }  # fmt: skip
    return Candidate(
        "unfused", "found" if mine.all() else "several", numbers,
        tuple(
            Evidence(int(every.rank[begin]), int(every.ts[begin]),
                     int(every.ts[end] + every.dur[end] - every.ts[begin]), int(every.span_id[begin]),
                     f"{every.kinds[every.kind[begin]].type} ... {every.kinds[every.kind[end]].type}")
            for begin, end in ends
        ),
        Change(host=_launches(run, every.span_id[later]), tasks=every.span_id[rows], task_ns=cut,
               delays=every.span_id[later], delay_ns=gaps),
        "high" if rule else "medium", measured_ns=int(cut.sum()) // len(ranks),
    )  # fmt: skip


def _called(every: Kernels, prices: Priced) -> Ints:
    """Per chain a number that chains share whose kernels bear the same names, whatever their shapes."""
    types = every.kinds.each(lambda kind: kind.type, *TYPED)
    _, same = np.unique(np.array(types.values, np.str_), return_inverse=True)
    of_row = same.ravel()[types.code][every.kind[prices.rows]]
    patterns, first, which = np.unique(prices.pattern, return_index=True, return_inverse=True)
    numbers: dict[bytes, int] = {}
    called = np.zeros(len(patterns), np.int64)
    for place, chain in enumerate(first.tolist()):
        names = of_row[prices.begin[chain] : prices.end[chain]].tobytes()
        called[place] = numbers.setdefault(names, len(numbers))
    return called[which.ravel()]


def _each(count: int, per: int) -> int | float:
    """How often a step, on average."""
    return count // per if count % per == 0 else count / per


def in_chinese(operator: str) -> str:
    """What to use instead, without words in English."""
    return _GENERIC_ZH if operator == GENERIC else rule_file.in_chinese(operator)


def _launches(run: Run, tasks: Ints) -> dict[int, Intervals]:
    """The calls that launch the kernels which would be gone, each for as long as a launch usually takes."""
    found = run.get(_calls)
    gone = np.isin(found["task"], tasks)
    begins, ends = found["ts_ns"][gone].astype(np.int64), found["end_ns"][gone].astype(np.int64)
    ends = np.minimum(ends, begins + run.get(launch_costs).ordinary_ns)
    ranks = found["rank"][gone]
    return {int(rank): Intervals.union_of(begins[ranks == rank], ends[ranks == rank]) for rank in np.unique(ranks)}


def _calls(run: Run) -> dict[str, Any]:
    """Every call that launches a kernel; one that launches a whole graph would stay."""
    found = run.get(kernel_calls)
    mine = np.isin(found["vague"], (RUNTIME, QUEUED)) & ~found["graph"].astype(np.bool_)
    return {name: found[name][mine] for name in ("task", "rank", "ts_ns", "end_ns")}


# Finds runs of neighbouring kernels that one kernel could do, and what each would then cost.
#
# The kernels of a stream are written as text, one letter per kind of operator. So rules
# (analysis/rules.toml) and chains are regular expressions over it. They are linear, and the position of a
# match is the row of its first kernel. A chain that no rule takes counts from three kernels on, if each reads what one
# before it wrote.
#
# The cost follows from memory traffic. The kernels of a chain took `floor + bytes / bandwidth` each. The fused kernel
# takes one floor. What comes from outside plus what leaves goes at the bandwidth the chain itself reached. What one
# kernel hands to the next is neither written nor read.
#: Fewer make a chain only where a rule knows them: two neighbours are everywhere, and each pair saves one tensor.
SHORTEST, LONGEST = 3, 8
#: A kernel that does nothing takes 1 to 2 us on every device seen. Where all are longer, no more than this is a floor.
FLOOR_NS = 3_000
#: Fused attention reaches 50 to 73 % of a device's peak forward and less backward (FlashAttention-2, arXiv 2307.08691).
#: Large products reach some 85 % of it. The backward pass computes the scores once more.
ATTENTION, RECOMPUTED = 0.6, 1.25
#: Not a candidate: a memset, or taken by a rule already.
OTHER = " "
UNKNOWN = -1


@dataclass(frozen=True)
class Rule:
    name: str
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
    memory_bound, chained = rule_file.chained()
    return re.compile(memory_bound), tuple(_rule(rule_file.rule(entry["rule"]), entry) for entry in chained)


def _rule(rule: rule_file.Rule, entry: Mapping[str, Any]) -> Rule:
    return Rule(
        rule.name, rule.operator or rule.cuda, rule.cuda, tuple(entry["steps"]), frozenset(entry.get("optional", ())),
        entry.get("after", False), entry.get("keeps", 0), entry.get("external", 0), entry.get("absorbed", False),
    )  # fmt: skip


def chains(every: Kernels) -> Iterator[Chain]:
    """Every sequence worth fusing, no kernel in two."""
    memory_bound, known = rules()
    names = every.kinds.each(lambda kind: OTHER if kind.memset else plain(kind), "memset", *TYPED)
    letters = {name: chr(0x4E00 + number) for number, name in enumerate(sorted(set(names.values)))}  # one per type
    by_kind = names.map(lambda name: OTHER if name == OTHER else letters[name])
    text = np.array(by_kind.values or [OTHER], "<U1")[by_kind.code[every.kind]]
    links = Links(every)

    def some(step: str) -> str:
        return "".join(letter for name, letter in letters.items() if re.fullmatch(step, name))

    met: set[str] = set()
    for rule in known:
        pattern = _pattern(rule, [some(step) for step in rule.steps])
        if pattern is None or (rule.after and rule.operator not in met):
            continue
        taken = [(at.start(), at.end()) for at in pattern.finditer(_read(text)) if links.hold(*at.span())]
        for begin, end in taken:
            text[begin:end] = OTHER
            met.add(rule.operator)
            yield Chain(rule, begin, end)
    if loose := some(memory_bound.pattern):
        for at in re.finditer(f"[{loose}]{{{SHORTEST},}}", _read(text)):
            for begin, end in links.pieces(*at.span()):
                yield Chain(None, begin, end)


def _read(letters: NDArray[np.str_]) -> str:
    """Many single letters as one text: joining them one by one takes most of the time."""
    return letters.tobytes().decode("utf-32")


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
        self.given, self.made = every.kinds.inputs, every.kinds.outputs
        self.product = products(every.kinds).tolist()
        casts = every.kinds.each(lambda kind: plain(kind) == "cast", *TYPED).flags()
        self.alone = (casts | (self.given.count == 1)).tolist()
        self._known: dict[bytes, list[tuple[int, int]]] = {}
        self._held: dict[bytes, bool] = {}

    def hold(self, begin: int, end: int) -> bool:
        """Whether rows [begin, end) lie on one stream and at least half of them read from one before them.

        A rule's sequence says much by itself; views (half of a rotated tensor) hide what a kernel reads.
        """
        run = self.every.kind[begin:end]
        key = run.tobytes()
        if key not in self._held:
            first, *others = run.tolist()
            made, reading = self._wrote(first), 0
            for kind in others:
                reading += self.product[kind] or self._reads(kind, made)
                made |= self._wrote(kind)
            self._held[key] = 2 * reading >= len(run) - 1
        return self._held[key] and bool(self.track[begin] == self.track[end - 1])

    def _wrote(self, kind: int) -> set[int]:
        """How many values its outputs hold: a reshaped tensor keeps its count."""
        return set(self.made.of(kind)) if self.made.told(kind) else {UNKNOWN}

    def _reads(self, kind: int, made: set[int]) -> bool:
        """What is not recorded (lists of tensors) could be anything. Beside a tensor, one value hands nothing on."""
        if UNKNOWN in made or not self.given.told(kind):
            return True
        given = set(self.given.of(kind))
        return not made.isdisjoint(given - {1} if max(given, default=0) > 1 else given)

    def _follows(self, before: int, kind: int, made: set[int]) -> bool:
        """Twice the same copy or the same function of one tensor are two tensors side by side, as query and key are."""
        return not (kind == before and self.alone[kind]) and self._reads(kind, made)

    def pieces(self, begin: int, end: int) -> list[tuple[int, int]]:
        """A run of kernels cut where the data does not flow on, where the stream ends, and into repeated parts."""
        run = self.every.kind[begin:end]
        breaks = self.track[begin + 1 : end] != self.track[begin : end - 1]
        key = run.tobytes() + breaks.tobytes()
        if key not in self._known:
            self._known[key] = self._cut(run, set((np.flatnonzero(breaks) + 1).tolist()))
        return [(begin + first, begin + last) for first, last in self._known[key]]

    def _cut(self, run: Ints, breaks: set[int]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        first, made = 0, set[int]()
        kinds = run.tolist()
        for at, kind in enumerate([*kinds, None]):
            if kind is None or at in breaks or (at > first and not self._follows(kinds[at - 1], kind, made)):
                found += _parts(run, first, at)
                first, made = at, set()
            if kind is not None:
                made |= self._wrote(kind)
        # The same on the same sizes again and again is a loop or a list of tensors: nothing says that data flows on.
        return [(first, last) for first, last in found if (run[first:last] != run[first]).any()]


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


def traffic(kinds: list[Kind], rule: Rule | None) -> Traffic | None:
    """None where the tensors of its last kernel or of most others are not recorded."""
    known = [kind.bytes is not None for kind in kinds]
    if not known[-1] or 2 * sum(known) <= len(kinds):
        return None
    outside = 0
    seen: set[int] = set()
    for number, kind in enumerate(kinds):
        for shape, size in kind.inputs or ():
            outside += size if number == 0 or not {values(shape), UNKNOWN} & seen else 0
        seen |= _counts(kind.inputs) | _counts(kind.outputs)
    normed = [kind for kind in kinds if "batchnorm" in plain(kind) and "_inf_" not in kind.name]
    if normed:  # its statistics need a pass of their own
        outside += max((size for _, size in normed[0].inputs or ()), default=0)
    leaves = sum(size for _, size in kinds[-1].outputs or ())
    outside = max(outside, leaves) + leaves  # it reads no less than it writes: slices of the input come one by one
    if rule is not None:
        kept = rule.keeps if plain(kinds[0]) == "add" else 0
        outside += max((size for _, size in kinds[0].outputs or ()), default=0) * (kept + rule.external)
    moved = sum(kind.bytes or 0 for kind in kinds)
    return Traffic(moved, min(outside, moved), sum(operations(kind) for kind in kinds))


def floor_ns(every: Kernels) -> int:
    """What a kernel takes that does nothing: the shortest ones of this run."""
    return int(min(FLOOR_NS, np.percentile(every.dur, 1, method="lower"))) if len(every) else FLOOR_NS


def product_rate(every: Kernels) -> float:
    """Operations per ns that the run's better matrix products reach; 0 where it has none."""
    flop = operations_of(every.kinds)[every.kind]
    long = (flop > 0) & (every.dur > 20_000)
    return float(np.percentile(flop[long] / every.dur[long], 90, method="higher")) if long.any() else 0.0


@dataclass(frozen=True)
class Priced:
    """Chains of one operator, pattern by pattern: their rows, and how much shorter each kernel would be."""

    rows: Ints  # of the kernels, chain by chain
    cut: Ints
    begin: Ints  # per chain: where its rows begin and end
    end: Ints
    pattern: Ints  # per chain: its pattern
    rules: tuple[Rule | None, ...]  # per pattern
    costs: tuple[Traffic, ...]

    def __len__(self) -> int:
        return len(self.begin)

    def saved(self) -> Ints:
        """How much shorter each chain would be."""
        return np.add.reduceat(self.cut, self.begin) if len(self) else self.cut

    def of(self, chains: Bools) -> Priced:
        """Some of the chains."""
        size = self.end - self.begin
        kept = np.repeat(chains, size)
        end = np.cumsum(size[chains])
        return replace(
            self, rows=self.rows[kept], cut=self.cut[kept], begin=end - size[chains], end=end,
            pattern=self.pattern[chains],
        )  # fmt: skip


def priced(every: Kernels, found: list[Chain]) -> Priced:
    """What the chains would save, pattern by pattern; those whose tensors are not recorded are left out."""
    floor, rate = floor_ns(every), product_rate(every)
    patterns: dict[tuple[int, bytes], list[Chain]] = {}
    for chain in found:
        patterns.setdefault((id(chain.rule), every.kind[chain.begin : chain.end].tobytes()), []).append(chain)
    of_pattern: list[tuple[Rule | None, Traffic]] = []
    begins, sizes, pattern = list[int](), list[int](), list[int]()
    for alike in patterns.values():
        rule, first, last = alike[0].rule, alike[0].begin, alike[0].end
        cost = traffic([every.kinds[kind] for kind in every.kind[first:last].tolist()], rule)
        if cost is None:
            continue
        begins += [chain.begin for chain in alike]
        sizes += [last - first] * len(alike)
        pattern += [len(of_pattern)] * len(alike)
        of_pattern.append((rule, cost))
    size = np.array(sizes, np.int64)
    end = np.cumsum(size)
    begin = end - size
    rows = np.repeat(np.array(begins, np.int64) - begin, size) + np.arange(int(size.sum()))
    rules_, costs = tuple(rule for rule, _ in of_pattern), tuple(cost for _, cost in of_pattern)
    whole = Priced(rows, np.zeros(len(rows), np.int64), begin, end, np.array(pattern, np.int64), rules_, costs)
    if not len(rows):
        return whole
    spent = every.dur[rows]
    left = np.minimum(np.add.reduceat(spent, begin), fused_ns(every, whole, spent, floor, rate))
    # What remains is the first kernels' time: the last are gone first.
    before = np.cumsum(spent) - spent
    before -= np.repeat(before[begin], size)
    return replace(whole, cut=spent - np.clip(np.repeat(left, size) - before, 0, spent))


def fused_ns(every: Kernels, chains_: Priced, spent: Ints, floor: int, rate: float) -> Ints:
    """What each chain would take as one kernel; `spent` is what each of its kernels took."""
    known = (every.kinds.bytes >= 0)[every.kind[chains_.rows]]
    product = products(every.kinds)[every.kind[chains_.rows]]
    bound = np.maximum(0, _sum(spent * known, chains_) - _sum(known.astype(np.int64), chains_) * floor)
    shares = np.array([cost.outside / max(1, cost.moved) for cost in chains_.costs])
    found: Ints = floor + (bound * shares[chains_.pattern]).astype(np.int64)
    absorbed = np.array([rule is not None and rule.absorbed for rule in chains_.rules])[chains_.pattern]
    if absorbed.any():
        both = zip(chains_.rules, chains_.costs, strict=True)
        told = np.array([_by_arithmetic(rule, cost, floor, rate) for rule, cost in both])[chains_.pattern]
        found = np.where(absorbed, np.where(told >= 0, told, _sum(spent * product, chains_)), found)
    return found


def _sum(of_rows: Ints, chains_: Priced) -> Ints:
    return np.asarray(np.add.reduceat(of_rows, chains_.begin))


def _by_arithmetic(rule: Rule | None, cost: Traffic, floor: int, rate: float) -> int:
    """What the arithmetic of attention takes; -1 where that is not known, or does not count."""
    if rule is None or not rule.absorbed or not rate or not cost.flop:
        return -1
    return int(cost.flop * (RECOMPUTED if rule.after else 1) / (ATTENTION * rate)) + floor
