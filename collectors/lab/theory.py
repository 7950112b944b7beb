"""What a rewrite should take, said before it is timed: the calls that go and those that come, each with its price.

Calls of the original are timed within its own runs, and once more alone, with numbers of their own. So is the program
without its calls: what Python takes to find the weights. All of it is timed in turns, because a machine is faster in
one second than in the next.

A call that only the rewrite has is made alone as well. How much more the nearest calls of the original take within the
run than alone corrects its price: within a run, weights and numbers are not in the caches. The error grows with how
unlike the nearest ones a call is. A gain no larger than the error is not claimed. What classes of operators would say
is told beside it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.lab import calibration, calls, graph, judging, measuring
from npulens.collectors.lab.calibration import Calibration
from npulens.collectors.lab.calls import Call, Clock
from npulens.collectors.lab.subject import Subject

#: Shots of each step, in turns: at least and at most so many, as many as these seconds allow.
LEAST_ROUNDS, MOST_ROUNDS, SECONDS = 13, 60, 2.0
#: A short step is made so often that a shot takes this long.
SHOT_NS = 400_000
#: Runs in a row whose calls are stamped.
MOST_PASSES = 20
#: What is made less often than this is made once before: within a run, what comes in was written a moment ago.
FEW = 4
#: Bytes that calls read and write which are timed in turns.
ROOM = 1 << 30
#: So many nearest calls of the original correct a price.
NEAREST = 3
#: Errors are told as an interval of so many times their size.
WIDTH = 2.0
#: A call that is unlike the nearest one is no nearer than this; neither is one alone, measured another time.
STRAY = 0.03
#: A whole run is not known better than this share.
RUN = 0.004
#: The same for a call that is like the nearest one in everything that its class counts.
LEAST_STRAY = 0.005
#: Python takes no more from one call to the next.
BETWEEN_NS = 2_000
#: A program without its calls never takes more than this share of a run.
MOST_HOLLOW = 0.7
#: A gain below this share is none.
LEAST = 0.01
#: What these make of a program no list of operators tells.
COMPILED = ("compile", "freeze")
TOO_SMALL = "theory_small"


@dataclass(frozen=True)
class Way:
    """A way of pricing calls."""

    price: Callable[[Call], float | None]  # in ns; None where it has no price
    error: Callable[[Call], float]  # how far off it is known to be, as a share
    stray: Callable[[Call], float]  # two prices of the same call are no nearer than this
    adds: bool = False  # what a call takes more may as well be an amount for each of its kernels


class NotPredicted(Exception):
    """Why nothing is predicted: the name of a text, and its values."""

    def __init__(self, name: str, values: Mapping[str, object] | None = None) -> None:
        super().__init__(name)
        self.name, self.values = name, dict(values or {})


@dataclass(frozen=True)
class Work:
    """What one run does."""

    launches: int
    flops: int
    moved: int

    @staticmethod
    def of(found: Sequence[Call]) -> Work:
        return Work(
            sum(one.launches for one in found), sum(one.flops for one in found), sum(one.moved for one in found)
        )


@dataclass(frozen=True)
class Guess:
    """The time of the rewrite as a multiple of the original's: the lowest, the likeliest and the highest."""

    low: float
    mid: float
    high: float

    @property
    def claimed(self) -> bool:
        """Whether it says anything: the error does not reach 1, and the gain is one."""
        return not self.low <= 1.0 <= self.high and abs(self.mid - 1.0) > LEAST


@dataclass(frozen=True)
class Predicted:
    """What is said of one rewrite before it is timed."""

    guess: Guess
    clock: str
    before: Work
    after: Work
    gone: int  # calls of the original that the rewrite has not
    new: int  # calls that only the rewrite has
    ns: float  # of the original
    errors: Mapping[str, float]  # of prices, by class
    by_class: Guess | None = None  # the same with the prices of classes
    unpriced: tuple[str, ...] = ()  # calls that no class has a price for
    class_errors: Mapping[str, float] = field(default_factory=dict)  # of the calibration, by class

    def as_dict(self) -> dict[str, Any]:
        told = {**vars(self), "guess": vars(self.guess), "before": vars(self.before), "after": vars(self.after)}
        if self.by_class is not None:
            told["by_class"] = {**vars(self.by_class), "claimed": self.by_class.claimed}
        return {**told, "claimed": self.guess.claimed, "why": None if self.guess.claimed else {
            "name": TOO_SMALL, "values": {}}}  # fmt: skip


@dataclass(frozen=True)
class _Heard:
    """The calls of the original on one batch, and how much of the job has its shapes."""

    share: float
    batch: Sequence[Any]
    calls: Sequence[Call]


@dataclass(frozen=True)
class _Seen:
    """What the original takes on one batch, and what each call takes, those of the rewrite among them; by key."""

    share: float
    calls: Sequence[Call]
    within: Mapping[str, float]  # of the original, within its runs
    alone: Mapping[str, float]
    whole_ns: float
    hollow_ns: float  # of it what is left without the calls
    hollow_after_ns: float  # the same of the rewrite
    strays: Mapping[str, float] = field(default_factory=dict)  # how far apart the shots of a call were, as a share
    apart: Mapping[str, float] = field(default_factory=dict)  # and how far, in ns, the calls of one key within a run

    @property
    def left_ns(self) -> float:
        """What neither the calls nor finding the weights explains."""
        return self.whole_ns - self.hollow_ns - sum(self.within[call.key] for call in self.calls)

    @property
    def between_ns(self) -> float:
        """What Python takes from one call to the next."""
        return max(0.0, self.left_ns) / len(self.calls)


@dataclass
class Theory:
    """Predicts rewrites of one subject. ``classes`` is the machine's calibration; it is measured when it is needed."""

    subject: Subject
    backend: Backend
    classes: Calibration | None = None
    rounds: int | None = None  # as many as the time allows

    def __post_init__(self) -> None:
        self._clock = Clock(self.backend)
        self._program = graph.copied(self.subject.program)  # as it is measured: a copy, like the rewrite
        self._original: list[_Heard] | None = None

    def predicted(self, model: Callable[..., Any]) -> Predicted:
        """What a rewrite should take. It is called once, and that call is not timed."""
        if self.subject.about.gradients:
            raise NotPredicted("theory_gradients")
        heard = self._heard()
        after = [calls.heard(model, one.batch) for one in heard]
        if not all(after) or not all(one.calls for one in heard):
            raise NotPredicted("theory_not_heard")
        if self.classes is None:
            self.classes = calibration.of(self.backend, self.alone)
        seen = [self._look(one, its, model) for one, its in zip(heard, after)]
        by_classes = [Way(self.classes, self.classes.error, lambda _: LEAST_STRAY)] * len(seen)
        guess, errors = _guess(seen, after, [_alone(one) for one in seen])
        new = [call for one, its in zip(seen, after) for call in _changed(one.calls, its)[1]]
        unpriced = sorted({call.name for call in new if self.classes(call) is None})
        by_class = None if unpriced else _guess(seen, after, by_classes)[0]
        gone, come = _changed(seen[0].calls, after[0])
        return Predicted(
            guess, self._clock.name, Work.of(seen[0].calls), Work.of(after[0]), len(gone), len(come),
            sum(one.share * one.whole_ns for one in seen), errors, by_class, tuple(unpriced),
            self.classes.errors,
        )  # fmt: skip

    def _heard(self) -> list[_Heard]:
        if self._original is None:
            mix = measuring.mix(self.subject)
            kinds: dict[tuple[Any, ...], tuple[Sequence[Any], int]] = {}
            for batch in mix:
                shapes = tuple(tuple(each.shape) for each in batch)
                first, count = kinds.get(shapes, (batch, 0))
                kinds[shapes] = (first, count + 1)
            self._original = [
                _Heard(count / len(mix), batch, calls.heard(self._program, batch))
                for batch, count in kinds.values()
            ]
        return self._original

    def _look(self, one: _Heard, after: Sequence[Call], model: Any) -> _Seen:
        """All of it in turns. Calls whose tensors do not fit beside each other are timed in groups, each with a run."""
        program = self._program
        whole = measuring.step(program, one.batch, False, None)
        fixed = measuring.step(tuple, one.batch, False, None)
        before, then = (_hollows(each, one.batch) for each in (program, model))
        found = list({call.key: call for call in (*one.calls, *after)}.values())
        alone: dict[str, float] = {}
        strays: dict[str, float] = {}
        within: list[float] = []
        whole_ns, hollows = 0.0, [0.0, 0.0]
        for group in _groups(found):
            others = [] if alone else [fixed, *before, *then]
            runs = partial(calls.timed, program, one.batch, self._clock) if not alone else None
            shots, inner = self._shots([whole, *others, *(call.again() for call in group)], runs)
            whole_ns = whole_ns or _low(shots[0])
            of_runs = [_middle(each, shots[0]) for each in shots]  # a machine is faster in one second than in the next
            levels = [whole_ns * each for each, _ in of_runs]
            if not alone:
                own, its = levels[2 : 2 + len(before)], levels[2 + len(before) : 2 + len(before) + len(then)]
                hollows = [levels[1] + sum(own), levels[1] + sum(its)]
                within = [whole_ns * _middle(each, shots[0])[0] for each in inner]
            first = 1 + len(others)
            for call, level, (_, spread) in zip(group, levels[first:], of_runs[first:]):
                alone[call.key], strays[call.key] = level, spread
        if len(within) != len(one.calls) or not any(within):
            raise NotPredicted("theory_not_the_same")
        by_key: dict[str, list[float]] = {}
        for call, ns in zip(one.calls, within):
            by_key.setdefault(call.key, []).append(ns)
        # Python takes a little from call to call. All else by which the run is not the sum of its calls, each shares.
        run = whole_ns - min(hollows[0], MOST_HOLLOW * whole_ns)
        between = min(BETWEEN_NS * len(within), max(0.0, run - sum(within)))
        share = min(2.0, max(0.5, (run - between) / sum(within)))
        mean = {key: share * sum(each) / len(each) for key, each in by_key.items()}
        apart = {key: share * sum(abs(ns - sum(each) / len(each)) for ns in each) / len(each)
                 for key, each in by_key.items()}  # fmt: skip
        return _Seen(one.share, one.calls, mean, alone, whole_ns, hollows[0], hollows[1], strays, apart)

    def _shots(
        self, steps: Sequence[Callable[[], Any]], runs: Callable[[], list[tuple[Any, Any]]] | None = None
    ) -> tuple[list[list[float]], list[list[float]]]:
        """What each shot of each step took in ns, in turns, and each call within the first step."""
        import torch

        taken: list[list[float]] = [[] for _ in steps]
        inner: list[list[float]] = []
        with torch.no_grad(), self._clock.threads():
            times = [self._times(step) for step in steps]
            begun, made = time.perf_counter(), 0
            while made < (self.rounds or LEAST_ROUNDS) or (
                self.rounds is None and made < MOST_ROUNDS and time.perf_counter() - begun < SECONDS
            ):
                made += 1
                stamps = [self._shot(step, count) for step, count in zip(steps, times)]
                for shots, ns, count in zip(taken, self._clock.read(stamps), times):
                    shots.append(ns / count)
                if runs is not None:
                    # As often in a row as the first step, whose calls they are; the first time is not counted.
                    passes = [self._clock.read(runs()) for _ in range(1 + min(times[0], MOST_PASSES))][1:]
                    inner.append([sum(each) / len(passes) for each in zip(*passes)])
        return taken, [list(each) for each in zip(*inner)]

    def _times(self, step: Callable[[], Any]) -> int:
        """How often a step is made in a row to take as long as a shot should."""
        step()
        (once,) = self._clock.read([self._shot(step, 1)])
        return max(1, round(SHOT_NS / max(1.0, once)))

    def _shot(self, step: Callable[[], Any], times: int) -> tuple[Any, Any]:
        if times < FEW:
            step()
        first = self._clock.stamp()
        for _ in range(times):
            step()
        return first, self._clock.stamp()

    def alone(self, call: Call) -> float:
        """What a call takes that is made again and again with numbers of its own."""
        return _low(self._shots([call.again()])[0][0])


def _low(shots: Sequence[float]) -> float:
    """What disturbs only makes it longer."""
    return sorted(shots)[len(shots) // 4]


def _middle(shots: Sequence[float], runs: Sequence[float]) -> tuple[float, float]:
    """Of shots as multiples of the runs beside them; and how far off it may be, as a share."""
    ordered = sorted(shot / max(1.0, run) for shot, run in zip(shots, runs))
    middle, quarter = ordered[len(ordered) // 2], len(ordered) // 4
    return middle, (ordered[-1 - quarter] - ordered[quarter]) / max(1e-9, middle) / math.sqrt(len(ordered))


def _alone(seen: _Seen) -> Way:
    """Every new call as it was timed; another time it would have come out as otherwise as its shots are apart."""
    return Way(lambda call: seen.alone.get(call.key), lambda _: 0.0,
               lambda call: max(STRAY, seen.strays.get(call.key, 0.0)), adds=True)  # fmt: skip


def _guess(
    seen: Sequence[_Seen], after: Sequence[Sequence[Call]], ways: Sequence[Way]
) -> tuple[Guess, Mapping[str, float]]:
    """Over all shapes of the job, in its proportions; a way of pricing for each of them."""
    before_ns = after_ns = 0.0
    wrong: dict[str, float] = {}
    errors: dict[str, float] = {}
    for one, its, way in zip(seen, after, ways):
        gone, new = _changed(one.calls, its)
        going = sum(one.within[call.key] for call in gone)
        prices = _Corrected(one, way)
        coming = 0.0
        for call in new:
            ns, error = prices.price(call)
            coming += ns
            errors[call.kind] = max(error, errors.get(call.kind, 0.0))
            wrong[call.kind] = wrong.get(call.kind, 0.0) + one.share * ns * error
        steps = one.hollow_after_ns - one.hollow_ns
        between = one.between_ns * (len(new) - len(gone))
        before_ns += one.share * one.whole_ns
        after_ns += one.share * (one.whole_ns - going + coming + between + steps)
        # Which of several like calls goes is not known, and the first one in a run takes longer.
        any_of = sum(one.apart.get(key, 0.0) * math.sqrt(n) for key, n in Counter(call.key for call in gone).items())
        unsure = any_of + abs(going - coming) * STRAY + abs(between) / 2 + abs(steps) / 4
        wrong["gone"] = wrong.get("gone", 0.0) + one.share * unsure
    wrong["run"] = RUN * before_ns
    reach = WIDTH * math.sqrt(sum(each**2 for each in wrong.values())) / before_ns
    mid = max(after_ns / before_ns, 0.01)
    return Guess(max(0.0, mid - reach), mid, mid + reach), errors


class _Corrected:
    """Prices as the nearest calls of the original correct them, and how far off that is on the original itself.

    What a call takes more within the run than alone is a share of it, or an amount for each of its kernels: the truth
    was found between both.
    """

    def __init__(self, seen: _Seen, way: Way) -> None:
        self._way, self._within = way, seen.within
        self._shares, self._amounts = list[_Point](), list[_Point]()
        for key, call in {call.key: call for call in seen.calls}.items():
            told, ns = way.price(call), seen.within[key]
            if told and ns > 0:
                self._shares.append(_Point(call, math.log(ns / told), ns))
                self._amounts.append(_Point(call, (ns - told) / _kernels(call), 1.0))

    def price(self, call: Call) -> tuple[float, float]:
        """In ns, and how far off as a share."""
        stray = self._way.stray(call)
        if call.key in self._within:
            return self._within[call.key], stray
        told = self._way.price(call)
        assert told is not None, call.name
        share, off, far = _correction(self._shares, call)
        ns = told * math.exp(share)
        if self._way.adds:
            amount, wide, _ = _correction(self._amounts, call)
            other = max(told / 2, told + _kernels(call) * amount)
            apart = abs(ns - other) / 2
            ns = (ns + other) / 2
            off = max(off, _kernels(call) * wide / ns, apart / ns)
        return ns, max(off, far * self._way.error(call)) + max(stray, min(1.0, 4 * far) * STRAY)


@dataclass(frozen=True)
class _Point:
    """By how much a call of the original takes more than its price."""

    call: Call
    more: float
    weight: float


def _correction(points: Sequence[_Point], call: Call) -> tuple[float, float, float]:
    """That of the nearest ones; how far apart those are, and how unlike the nearest one is: 1 is unlike anything."""
    usual, apart = _mean([(each.more, each.weight) for each in points])
    same = [(_distance(call, each.call), each.more) for each in points if each.call.kind == call.kind]
    if not same:
        return usual, apart, 1.0
    nearest = sorted(same)[:NEAREST]
    told, spread = _mean([(more, 1.0 / (0.05 + distance**2)) for distance, more in nearest])
    far = min(1.0, nearest[0][0])
    return told, max(spread, far * apart / 2), far


def _kernels(call: Call) -> int:
    """How often something is started within a call."""
    return max(1, call.launches)


def _mean(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Of values with weights, and how far they are from it."""
    total = sum(weight for _, weight in points)
    if not total:
        return 0.0, 0.5
    mean = sum(value * weight for value, weight in points) / total
    return mean, sum(abs(value - mean) * weight for value, weight in points) / total


def _hollows(model: Any, batch: Sequence[Any]) -> list[Callable[[], Any]]:
    """The graphs of a program without their calls: weights are found, results given back."""
    found: list[Callable[[], Any]] = []
    for one in graph.graphs(model) if hasattr(model, "modules") else ():
        step = partial(_hollow(one), tuple(batch))
        try:
            step()
        except judging.FAILURES:  # a part of a program that is called in another way
            continue
        found.append(step)
    return found


def _groups(found: Sequence[Call]) -> Iterator[list[Call]]:
    """Calls whose tensors fit beside each other."""
    group, held = list[Call](), 0
    for call in found:
        if group and held + call.moved > ROOM:
            yield group
            group, held = [], 0
        group.append(call)
        held += call.moved
    yield group


def _hollow(program: Any) -> Any:
    """A graph without its calls: what comes in and its weights are found, and something is given back."""
    import torch

    made = torch.fx.Graph()
    made.set_codegen(program.graph._codegen)
    given = [made.placeholder(node.target) for node in program.graph.nodes if node.op == "placeholder"]
    for node in program.graph.nodes:
        if node.op == "get_attr":
            made.get_attr(node.target)
    output = next(node for node in program.graph.nodes if node.op == "output").args[0]
    made.output(tuple(given[0] for _ in output) if isinstance(output, (tuple, list)) else given[0])
    return torch.fx.GraphModule(program, made)


def _distance(one: Call, two: Call) -> float:
    """How unlike two calls of a class are."""
    flops = math.log((1 + one.flops) / (1 + two.flops))
    moved = math.log((1 + one.moved) / (1 + two.moved))
    return math.hypot(flops, moved) + (one.name != two.name) + (one.channels_last != two.channels_last)


def _changed(before: Sequence[Call], after: Sequence[Call]) -> tuple[list[Call], list[Call]]:
    """The calls that go and those that come."""
    had, has = Counter(call.key for call in before), Counter(call.key for call in after)
    gone, new = had - has, has - had
    return _picked(before, gone), _picked(after, new)


def _picked(found: Sequence[Call], wanted: Counter[str]) -> list[Call]:
    left, picked = Counter(wanted), []
    for call in found:
        if left[call.key] > 0:
            left[call.key] -= 1
            picked.append(call)
    return picked


def predicted(theory: Theory, name: str, model: Callable[..., Any]) -> dict[str, Any]:
    """What is said of a rewrite, as data; where nothing is, why."""
    try:
        if name in COMPILED:
            raise NotPredicted("theory_compiled")
        return theory.predicted(model).as_dict()
    except NotPredicted as reason:
        return {"guess": None, "claimed": False, "why": {"name": reason.name, "values": reason.values}}
    except judging.FAILURES as error:
        why = {"name": "theory_fails", "values": {"error": judging.first_line(error)}}
        return {"guess": None, "claimed": False, "why": why}
