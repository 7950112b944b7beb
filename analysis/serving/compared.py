"""Two serving runs, or several a side: percentiles and goodput, how sure a change is, and what it is made of.

One capture a side is judged by blocks of neighbouring requests, because a request resembles the one before it. If the
builds were the same, which block came from which side would not matter. So sides of blocks are swapped at random, and
`p` is how often that changes the figure as much. Where both sides were asked the very same requests, a block is
swapped with its twin only. Blocks drawn again give the interval. A figure that rests on a few requests hardly changes
by either, so it cannot be told. Several captures a side are judged as steps are, a value a capture.

What a percentile is made of is the mean of the requests around it (parts.py). Iterations are compared class by class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis.regression import verdict as judging
from npulens.analysis.regression.verdict import PAIRS, RULE, Rule, Settles, Verdict
from npulens.analysis.serving.exported import exports
from npulens.analysis.serving.parts import Parts, goodput, parts, taken
from npulens.analysis.serving.slo import Slo

Floats = NDArray[np.float64]
#: What is compared: a percentile of a measure of time.
PERCENTILES = tuple((measure, percent) for measure in ("ttft", "tpot") for percent in (50, 90, 99))
GOODPUT = "goodput"
#: Every figure of requests.
NAMES = (*(f"{measure}_p{percent}" for measure, percent in PERCENTILES), GOODPUT)
#: What the mean iteration of a class is called among the figures, before its class.
ITERATION = "iteration_"
#: At most so many blocks of neighbouring requests, of at least so many each.
_BLOCKS, _EACH = 16, 4
#: Fewer blocks than this cannot show anything at the usual level: 2 / 2**8 of all swaps are the two extremes.
_LEAST = 8
_DRAWS, _FEWER, _SEED = 1000, 200, 22
#: A percentile with fewer requests beyond it rests on single ones.
FEW = 5
#: Loads within this share of each other are alike.
_ALIKE = 0.05


@dataclass(frozen=True)
class Load:
    """What a run was asked."""

    requests: int
    left_out: int  # that a profiler's own export hurt
    seconds: float  # from the first sending to the last
    prompt_tokens: float  # mean
    output_tokens: float

    @property
    def per_second(self) -> float:
        """NaN: all came at once."""
        return self.requests / self.seconds if self.seconds > 0 else math.nan


@dataclass(frozen=True)
class Side:
    """One run: its requests in order of arrival, and its iterations by class."""

    parts: Parts
    load: Load
    ttft: Floats
    tpot: Floats  # NaN: a single token has none
    counted: NDArray[np.bool_]
    asked: tuple[tuple[int | None, int | None], ...]  # tokens of the prompt, tokens asked for
    classes: Mapping[str, Floats]  # ns of each iteration, in order of time

    def values(self, slo: Slo) -> Floats:
        """The figures of NAMES: ns, and a share. NaN: there is none."""
        return _values(self.ttft[self.counted], self.tpot[self.counted], slo)

    def value(self, name: str, slo: Slo) -> float:
        """One of them."""
        return float(self.values(slo)[NAMES.index(name)])


@dataclass(frozen=True)
class Delta:
    """By how much a part of a percentile differs: ns, of goodput requests that were lost to it."""

    kind: str
    base: float
    head: float


@dataclass(frozen=True)
class Line:
    """A figure of both sides. Of `goodput` the verdict's ratio is one of nothing: see `lost`."""

    name: str  # ttft_p50 ... tpot_p99, goodput
    base: float
    head: float
    verdict: Verdict
    parts: tuple[Delta, ...]  # the largest change first
    beyond: int | None  # requests beyond the percentile on the side with fewer; None: of goodput

    @property
    def change(self) -> tuple[float, float | None, float | None]:
        """As a share, with its interval; of goodput the share of requests that are gained."""
        said = self.verdict
        if self.name == GOODPUT:
            low, high = (None if edge is None else -math.log(edge) for edge in (said.high, said.low))
            return self.head - self.base, low, high
        low, high = (None if edge is None else edge - 1 for edge in (said.low, said.high))
        return (self.head / self.base - 1 if self.base else math.nan), low, high


@dataclass(frozen=True)
class OfClass:
    """Iterations of one class: how many, and their mean."""

    kind: str
    base_count: int
    head_count: int
    base_ns: float
    head_ns: float
    verdict: Verdict


@dataclass(frozen=True)
class Compared:
    """Everything that is said of the requests of head against those of base."""

    slo: Slo
    base: tuple[Load, ...]
    head: tuple[Load, ...]
    same_requests: bool  # both sides were asked the very same
    unlike: tuple[str, ...]  # fields of Load that differ
    lines: tuple[Line, ...]
    classes: tuple[OfClass, ...]

    @property
    def said(self) -> str:
        """One word for all lines: what is certain goes first, the worse of it."""
        every = [line.verdict.said for line in self.lines]
        return next((word for word in ("regressed", "improved") if word in every),
                    "same" if every and set(every) == {"same"} else "ambiguous")  # fmt: skip


def side(con: duckdb.DuckDBPyConnection) -> Side | None:
    """None: the run holds no requests that ended."""
    found = parts(con)
    if not found.requests:
        return None
    begin = [one.begin_ns or 0 for one in found.requests]
    kept = ~found.excluded
    load = Load(
        int(kept.sum()), int(found.excluded.sum()), (max(begin) - min(begin)) / 1e9,
        _mean([one.prompt_tokens for one in found.requests]), _mean([one.output_tokens for one in found.requests]),
    )  # fmt: skip
    return Side(
        found, load, found.ttft_ns.astype(np.float64), found.tpot_ns, kept,
        tuple((one.prompt_tokens, one.max_tokens) for one in found.requests), _classes(con),
    )  # fmt: skip


def _mean(values: Sequence[int | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else math.nan


def _classes(con: duckdb.DuckDBPyConnection) -> dict[str, Floats]:
    """Lengths by class, without iterations that a profiler's export held."""
    rows = con.execute(
        "SELECT class, ts_ns, dur_ns FROM iteration WHERE class IS NOT NULL AND dur_ns > 0 "
        "ORDER BY ts_ns NULLS FIRST, number, iteration"
    ).fetchnumpy()
    kinds, ns = np.asarray(rows["class"], object), np.asarray(rows["dur_ns"], np.float64)
    begin = np.ma.filled(np.ma.asarray(rows["ts_ns"]), -1).astype(np.int64)
    free = np.ones(len(ns), bool)
    for since, until in exports(con):
        free &= ~((begin < until) & (begin + ns > since) & (begin >= 0))
    return {str(kind): ns[free & (kinds == kind)] for kind in dict.fromkeys(kinds.tolist())}


def figures(one: Side, slo: Slo) -> dict[str, float]:
    """Every figure of one run: percentiles and the mean iteration of each class in ns, goodput as a share."""
    found = dict(zip(NAMES, one.values(slo).tolist(), strict=True))
    found |= {ITERATION + kind: float(ns.mean()) for kind, ns in one.classes.items() if len(ns)}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def errors(one: Side, slo: Slo) -> dict[str, float]:
    """The standard error of the figures of requests as a share of each, by blocks; nothing of too few requests."""
    blocks, rng = _cut(len(one.ttft)), np.random.default_rng(_SEED)
    if len(blocks) < _LEAST:
        return {}
    drawn = [_of_rows(one, _rows(blocks, rng.integers(0, len(blocks), len(blocks))), slo) for _ in range(_FEWER)]
    spread, values = np.std(drawn, axis=0), one.values(slo)
    return {name: float(error / value) for name, error, value in zip(NAMES, spread, values, strict=True)
            if value > 0 and not math.isnan(error)}  # fmt: skip


def compared(
    base: Sequence[Side], head: Sequence[Side], slo: Slo, rule: Rule = RULE, drift: float = 0.0, in_turns: bool = False
) -> Compared:  # fmt: skip
    """Head against base. ``drift``: how much captures of one build differ, as a standard deviation of logarithms."""
    ours, theirs = base[0], head[0]
    same = all(each.asked == ours.asked for each in (*base, *head)) and any(any(pair) for pair in ours.asked)
    judge = _Judge(tuple(base), tuple(head), slo, rule, drift, in_turns, same)
    kinds = [kind for kind in ours.classes if kind in theirs.classes]
    kinds.sort(key=lambda kind: -float(ours.classes[kind].sum()))
    return Compared(
        slo, tuple(each.load for each in base), tuple(each.load for each in head), same,
        () if same else _unlike(ours.load, theirs.load), tuple(judge.lines()),
        tuple(judge.of_class(kind) for kind in kinds),
    )  # fmt: skip


def _unlike(ours: Load, theirs: Load) -> tuple[str, ...]:
    found = []
    for name in ("requests", "per_second", "prompt_tokens", "output_tokens"):
        a, b = float(getattr(ours, name)), float(getattr(theirs, name))
        if math.isfinite(a) and math.isfinite(b) and abs(a - b) > _ALIKE * max(a, b):
            found.append(name)
    return tuple(found)


@dataclass(frozen=True)
class _Judge:
    base: tuple[Side, ...]
    head: tuple[Side, ...]
    slo: Slo
    rule: Rule
    drift: float
    in_turns: bool
    same: bool

    def lines(self) -> Iterator[Line]:
        sides = [np.stack([each.values(self.slo) for each in side]) for side in (self.base, self.head)]
        alone = len(self.base) == len(self.head) == 1
        verdicts = self._by_blocks(*(side[0] for side in sides)) if alone else [
            self._by_captures([_scaled(name, side[:, at]) for side in sides]) for at, name in enumerate(NAMES)
        ]  # fmt: skip
        for at, (name, said) in enumerate(zip(NAMES, verdicts, strict=True)):
            a, b = (float(side[:, at].mean()) for side in sides)
            if math.isnan(a) or math.isnan(b):
                continue
            if name == GOODPUT:
                yield Line(name, a, b, said, self._lost(), None)
                continue
            measure, percent = PERCENTILES[at]
            counts = [int((~np.isnan(getattr(each, measure)[each.counted])).sum()) for each in (*self.base, *self.head)]
            yield Line(name, a, b, said, made_of(self.base, self.head, measure, percent),
                       min(counts) * (100 - percent) // 100)  # fmt: skip

    def _by_captures(self, values: Sequence[Floats]) -> Verdict:
        """A value a capture; they are logarithms, and the rules for times take those."""
        base, head = (np.exp(side).tolist() for side in values)
        if self.in_turns and len(base) == len(head):
            return judging.judge([math.log(b / a) for a, b in zip(base, head, strict=True)], self.rule)
        return judging.judge_sets(base, head, self.rule)

    def _by_blocks(self, base: Floats, head: Floats) -> list[Verdict]:
        ours, theirs = self.base[0], self.head[0]
        blocks = _cut(len(ours.ttft)), _cut(len(theirs.ttft))
        fewest = min(map(len, blocks))
        changes = _all_scaled(head) - _all_scaled(base)
        more = Settles("pairs", PAIRS)
        rng = np.random.default_rng(_SEED)
        if fewest < _LEAST:
            return [Verdict("ambiguous", _ratio(change), None, None, None, fewest, "requests", more)
                    for change in changes.tolist()]  # fmt: skip
        noise = rng.normal(0.0, self.drift * math.sqrt(2), (_DRAWS, 1)) if self.drift else 0.0
        drawn = np.stack([self._drawn(blocks, rng) for _ in range(_DRAWS)]) + noise
        swapped = np.stack([self._swapped(blocks, rng) for _ in range(_DRAWS)]) + noise
        equal = all(np.array_equal(*pair, equal_nan=True)
                    for pair in ((ours.ttft, theirs.ttft), (ours.tpot, theirs.tpot)))  # fmt: skip
        return [self._verdict(float(changes[at]), drawn[:, at], swapped[:, at], fewest, equal)
                for at in range(len(NAMES))]  # fmt: skip

    def _verdict(self, change: float, drawn: Floats, swapped: Floats, blocks: int, equal: bool) -> Verdict:
        more = Settles("pairs", PAIRS)
        drawn = drawn[np.isfinite(drawn)]
        if not math.isfinite(change) or len(drawn) < _DRAWS // 2:
            return Verdict("ambiguous", _ratio(change), None, None, None, blocks, "requests", more)
        reach = (100 * self.rule.alpha / 2, 100 - 100 * self.rule.alpha / 2)
        low, high = (float(edge) for edge in np.percentile(drawn, reach))
        p = (1 + int((np.abs(np.nan_to_num(swapped)) >= abs(change) - 1e-12).sum())) / (1 + _DRAWS)
        edge = math.log1p(self.rule.margin)
        said = "ambiguous"
        if -edge <= low and high <= edge and (equal or low < high):  # a share that never varies says nothing of others
            said = "same"
        elif p <= self.rule.alpha and not low <= 0 <= high:
            said = "regressed" if change > 0 else "improved"
        return Verdict(said, math.exp(change), math.exp(low), math.exp(high), p, blocks, "requests",
                       more if said == "ambiguous" else None)  # fmt: skip

    def _drawn(self, blocks: tuple[_Blocks, _Blocks], rng: np.random.Generator) -> Floats:
        """The change with blocks drawn again; the same ones on both sides where the requests are the same."""
        picked = rng.integers(0, len(blocks[0]), len(blocks[0]))
        other = picked if self.same else rng.integers(0, len(blocks[1]), len(blocks[1]))
        before, after = (
            _all_scaled(_of_rows(each, _rows(cut, rows), self.slo))
            for each, cut, rows in zip((self.base[0], self.head[0]), blocks, (picked, other), strict=True)
        )
        return after - before

    def _swapped(self, blocks: tuple[_Blocks, _Blocks], rng: np.random.Generator) -> Floats:
        """The change after blocks went to the other side at random."""
        both = [*((0, block) for block in blocks[0]), *((1, block) for block in blocks[1])]
        first = len(blocks[0])
        if self.same:
            swap = rng.random(first) < 0.5
            left = [both[at + first * bool(away)] for at, away in enumerate(swap)]
            right = [both[at + first * (not away)] for at, away in enumerate(swap)]
        else:
            order = rng.permutation(len(both)).tolist()
            left, right = [both[at] for at in order[:first]], [both[at] for at in order[first:]]
        before, after = (_all_scaled(self._mixed(chosen)) for chosen in (left, right))
        return after - before

    def _mixed(self, chosen: Sequence[tuple[int, NDArray[np.int64]]]) -> Floats:
        sides = (self.base[0], self.head[0])
        ttft, tpot, counted = (
            np.concatenate([getattr(sides[which], name)[rows] for which, rows in chosen])
            for name in ("ttft", "tpot", "counted")
        )
        return _values(ttft[counted], tpot[counted], self.slo)

    def _lost(self) -> tuple[Delta, ...]:
        sides = []
        for several in (self.base, self.head):
            lost: dict[str, float] = {}
            for each in several:
                for kind, count in goodput(each.parts, self.slo.ttft_ns, self.slo.tpot_ns).lost.items():
                    lost[kind] = lost.get(kind, 0.0) + count / len(several)
            sides.append(lost)
        return _deltas(*sides)

    def of_class(self, kind: str) -> OfClass:
        sides = [[each.classes[kind] for each in side if len(each.classes.get(kind, ()))]
                 for side in (self.base, self.head)]  # fmt: skip
        if len(self.base) == len(self.head) == 1:
            base, head = (side[0].tolist() if side else [] for side in sides)
            said = judging.judge_captures(base, head, self.rule, self.drift)
        else:
            base, head = ([float(each.mean()) for each in side] for side in sides)
            said = judging.judge_sets(base, head, self.rule)
        means = [float(np.mean([each.mean() for each in side])) if side else math.nan for side in sides]
        counts = [sum(map(len, side)) // max(1, len(side)) for side in sides]
        return OfClass(kind, counts[0], counts[1], means[0], means[1], said)


def made_of(base: Sequence[Side], head: Sequence[Side], measure: str, percent: int) -> tuple[Delta, ...]:
    """By how much the parts of a percentile differ, the largest change first."""
    return _deltas(_mean_parts(base, measure, percent), _mean_parts(head, measure, percent))


def _mean_parts(several: Sequence[Side], measure: str, percent: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in several:
        told = taken(each.parts, measure, percent)
        for kind, ns in (told.parts if told is not None else {}).items():
            found[kind] = found.get(kind, 0.0) + ns / len(several)
    return found


_Blocks = list[NDArray[np.int64]]


def _cut(size: int) -> _Blocks:
    """Places of neighbouring requests, block by block."""
    return [
        np.asarray(block, np.int64) for block in np.array_split(np.arange(size), max(1, min(_BLOCKS, size // _EACH)))
    ]


def _rows(blocks: _Blocks, picked: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([blocks[at] for at in picked.tolist()])


def _of_rows(one: Side, rows: NDArray[np.int64], slo: Slo) -> Floats:
    rows = rows[one.counted[rows]]
    return _values(one.ttft[rows], one.tpot[rows], slo)


_SHARES = np.array([percent / 100 for measure, percent in PERCENTILES if measure == "ttft"])


def _values(ttft: Floats, tpot: Floats, slo: Slo) -> Floats:
    good = ((ttft <= slo.ttft_ns) & ~(tpot > slo.tpot_ns)).mean() if len(ttft) else math.nan
    return np.concatenate([_percentiles(ttft), _percentiles(tpot[~np.isnan(tpot)]), [good]])


def _percentiles(values: Floats) -> Floats:
    """As np.percentile gives them, which takes ten times as long for a few hundred values."""
    if not len(values):
        return np.full(len(_SHARES), math.nan)
    ordered = np.sort(values)
    at = _SHARES * (len(ordered) - 1)
    low = at.astype(np.int64)
    return np.asarray(ordered[low] + (at - low) * (ordered[np.minimum(low + 1, len(ordered) - 1)] - ordered[low]))


def _scaled(name: str, values: Floats) -> Floats:
    """On the scale on which a change is judged, where more is worse: a logarithm, or the share of lost requests."""
    return 1 - values if name == GOODPUT else np.log(np.where(values > 0, values, math.nan))


def _all_scaled(values: Floats) -> Floats:
    return np.append(_scaled(NAMES[0], values[:-1]), _scaled(GOODPUT, values[-1:]))


def _ratio(change: float) -> float | None:
    return math.exp(change) if math.isfinite(change) else None


def _deltas(base: Mapping[str, float], head: Mapping[str, float]) -> tuple[Delta, ...]:
    found = [Delta(kind, base.get(kind, 0.0), head.get(kind, 0.0)) for kind in dict.fromkeys((*base, *head))]
    return tuple(sorted(found, key=lambda one: -abs(one.head - one.base)))
