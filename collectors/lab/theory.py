"""What a rewrite should take, said before it is timed: the calls that go and those that come, each with its price.

Every call of the original is made alone, with numbers of its own. So is the program without its calls: what Python
takes to find the weights. All of it is timed in turns with whole runs, because a machine is faster in one second than
in the next. What all of it together is short of a whole run is shared out in proportion to the calls.

A call that only the rewrite has is priced by its class, corrected by how the class prices the nearest calls of the
original. Where no class has a price for it, it is made alone as well. The error grows with how unlike the nearest ones
a call is, and with what the calls alone are short of. A gain no larger than the error is not claimed.
"""

from __future__ import annotations

import math
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

#: Shots of each step, in turns; a short one is made so often that a shot takes this long.
ROUNDS, SHOT_NS = 13, 400_000
#: Bytes that calls read and write which are timed in turns.
ROOM = 1 << 30
#: So many nearest calls of the original correct a price.
NEAREST = 3
#: Errors are told as an interval of so many times their size.
WIDTH = 2.0
#: A call that is unlike the nearest one is no nearer than this; neither is one alone, measured another time.
STRAY = 0.03
#: The same for a call that is like the nearest one in everything that its class counts.
LEAST_STRAY = 0.005
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
    by_class: Guess | None = None  # the same with classes' prices alone
    alone: Guess | None = None  # and with every new call made alone
    unpriced: tuple[str, ...] = ()  # calls that no class has a price for
    class_errors: Mapping[str, float] = field(default_factory=dict)  # of the calibration, by class

    def as_dict(self) -> dict[str, Any]:
        told = {**vars(self), "guess": vars(self.guess), "before": vars(self.before), "after": vars(self.after)}
        for name in ("by_class", "alone"):
            one = told[name]
            told[name] = None if one is None else {**vars(one), "claimed": one.claimed}
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
    """What the original takes on one batch, and what each call takes alone, those of the rewrite among them."""

    share: float
    calls: Sequence[Call]
    costs: Mapping[str, float]  # by key
    whole_ns: float
    hollow_ns: float  # of it what is left without the calls
    hollow_after_ns: float  # the same of the rewrite
    strays: Mapping[str, float] = field(default_factory=dict)  # how far apart the shots of a call were, as a share

    @property
    def within_ns(self) -> float:
        """What the calls take within the run."""
        return self.whole_ns - min(self.hollow_ns, MOST_HOLLOW * self.whole_ns)

    @property
    def scale(self) -> float:
        """How many times as much calls take within the run as alone, where it is less."""
        return min(1.0, max(0.5, self.within_ns / sum(self.costs[call.key] for call in self.calls)))

    @property
    def start_ns(self) -> float:
        """What each call that computes takes more within the run: code and numbers are not in the caches."""
        computing = sum(call.kind != calls.VIEW for call in self.calls)
        return max(0.0, self.within_ns - sum(self.costs[call.key] for call in self.calls)) / max(1, computing)


@dataclass
class Theory:
    """Predicts rewrites of one subject. ``classes`` is the machine's calibration; it is measured when it is needed."""

    subject: Subject
    backend: Backend
    classes: Calibration | None = None
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        self._clock = Clock(self.backend)
        self._original: list[_Heard] | None = None

    def predicted(self, model: Callable[..., Any]) -> Predicted:
        """What a rewrite should take. It is called once, and that call is not timed."""
        if self.subject.about.gradients:
            raise NotPredicted("theory_gradients")
        heard = self._heard()
        after = [calls.heard(model, one.batch) for one in heard]
        if not all(after):
            raise NotPredicted("theory_not_heard")
        if self.classes is None:
            self.classes = calibration.of(self.backend, self.alone)
        seen = [self._look(one, its, model) for one, its in zip(heard, after)]
        by_classes = [Way(self.classes, self.classes.error, lambda _: LEAST_STRAY)] * len(seen)
        measured = [_alone(one) for one in seen]
        guess, errors = _guess(seen, after, [by_classes, measured])
        new = [call for one, its in zip(seen, after) for call in _changed(one.calls, its)[1]]
        unpriced = sorted({call.name for call in new if self.classes(call) is None})
        by_class = None if unpriced else _guess(seen, after, [by_classes])[0]
        alone = _guess(seen, after, [measured])[0]
        gone, come = _changed(seen[0].calls, after[0])
        return Predicted(
            guess, self._clock.name, Work.of(seen[0].calls), Work.of(after[0]), len(gone), len(come),
            sum(one.share * one.whole_ns for one in seen), errors, by_class, alone, tuple(unpriced),
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
                _Heard(count / len(mix), batch, calls.heard(self.subject.program, batch))
                for batch, count in kinds.values()
            ]
        return self._original

    def _look(self, one: _Heard, after: Sequence[Call], model: Any) -> _Seen:
        """All of it in turns. Calls whose tensors do not fit beside each other are timed in groups, each with a run."""
        program = self.subject.program
        whole = measuring.step(program, one.batch, False, None)
        fixed = measuring.step(tuple, one.batch, False, None)
        before, then = (_hollows(each, one.batch) for each in (program, model))
        found = list({call.key: call for call in (*one.calls, *after)}.values())
        costs: dict[str, float] = {}
        strays: dict[str, float] = {}
        whole_ns, hollows = 0.0, [0.0, 0.0]
        for group in _groups(found):
            others = [] if costs else [fixed, *before, *then]
            levels, spreads = self._levels([whole, *others, *(call.again() for call in group)])
            if not costs:
                whole_ns, empty = levels[0], levels[1]
                own, its = levels[2 : 2 + len(before)], levels[2 + len(before) : 2 + len(before) + len(then)]
                hollows = [empty + sum(own), empty + sum(its)]
            drift = whole_ns / levels[0]
            first = 1 + len(others)
            for call, level, spread in zip(group, levels[first:], spreads[first:]):
                costs[call.key], strays[call.key] = level * drift, spread
        return _Seen(one.share, one.calls, costs, whole_ns, hollows[0], hollows[1], strays)

    def _levels(self, steps: Sequence[Callable[[], Any]]) -> tuple[list[float], list[float]]:
        """What each step takes in ns, and how far apart its shots were. What disturbs only makes it longer."""
        import torch

        taken: list[list[float]] = [[] for _ in steps]
        with torch.no_grad(), self._clock.threads():
            times = [self._times(step) for step in steps]
            for _ in range(self.rounds):
                stamps = [self._shot(step, count) for step, count in zip(steps, times)]
                for shots, ns, count in zip(taken, self._clock.read(stamps), times):
                    shots.append(ns / count)
        ordered = [sorted(shots) for shots in taken]
        low = [shots[len(shots) // 4] for shots in ordered]
        return low, [shots[-1 - len(shots) // 4] / max(1e-3, least) - 1 for shots, least in zip(ordered, low)]

    def _times(self, step: Callable[[], Any]) -> int:
        """How often a step is made in a row to take as long as a shot should."""
        step()
        (once,) = self._clock.read([self._shot(step, 1)])
        return max(1, round(SHOT_NS / max(1.0, once)))

    def _shot(self, step: Callable[[], Any], times: int) -> tuple[Any, Any]:
        first = self._clock.stamp()
        for _ in range(times):
            step()
        return first, self._clock.stamp()

    def alone(self, call: Call) -> float:
        """What a call takes that is made again and again with numbers of its own."""
        return self._levels([call.again()])[0][0]


def _alone(seen: _Seen) -> Way:
    """Every new call as it was timed; another time it would have come out as otherwise as its shots are apart."""
    return Way(lambda call: seen.costs.get(call.key), lambda _: 0.0,
               lambda call: max(STRAY, seen.strays.get(call.key, 0.0)))  # fmt: skip


def _guess(
    seen: Sequence[_Seen], after: Sequence[Sequence[Call]], ways: Sequence[Sequence[Way]]
) -> tuple[Guess, Mapping[str, float]]:
    """Over all shapes of the job, in its proportions; each way once for each of them."""
    before_ns = after_ns = 0.0
    wrong: dict[str, float] = {}
    errors: dict[str, float] = {}
    for place, (one, its) in enumerate(zip(seen, after)):
        gone, new = _changed(one.calls, its)
        scale, start = one.scale, one.start_ns
        going = sum(scale * one.costs[call.key] + start * (call.kind != calls.VIEW) for call in gone)
        corrected = [_Corrected(one, way[place]) for way in ways]
        coming = 0.0
        for call in new:
            ns, error = _first_price(corrected, call)
            coming += scale * ns + start * (call.kind != calls.VIEW)
            errors[call.kind] = max(error, errors.get(call.kind, 0.0))
            wrong[call.kind] = wrong.get(call.kind, 0.0) + one.share * scale * ns * error
        steps = one.hollow_after_ns - one.hollow_ns
        before_ns += one.share * one.whole_ns
        after_ns += one.share * (one.whole_ns - going + coming + steps)
        fewer = abs(sum(call.kind != calls.VIEW for call in gone) - sum(call.kind != calls.VIEW for call in new))
        unsure = abs(going - coming) * (abs(scale - 1) / 2 + STRAY) + start * fewer / 2 + abs(steps) / 4
        wrong["gone"] = wrong.get("gone", 0.0) + one.share * unsure
    reach = WIDTH * math.sqrt(sum(each**2 for each in wrong.values())) / before_ns
    mid = max(after_ns / before_ns, 0.01)
    return Guess(max(0.0, mid - reach), mid, mid + reach), errors


class _Corrected:
    """Prices as the nearest calls of the original correct them, and how far off that is on the original itself."""

    def __init__(self, seen: _Seen, way: Way) -> None:
        self._way = way
        costs, calls_of = seen.costs, {call.key: call for call in seen.calls}
        self._points: list[tuple[Call, float, float]] = []  # call, correction as a logarithm, weight
        for key, call in calls_of.items():
            told = way.price(call) if call.kind != calls.VIEW else None
            if told and costs[key] > 0:
                self._points.append((call, math.log(costs[key] / told), costs[key]))

    def price(self, call: Call) -> tuple[float, float] | None:
        """In ns, and how far off as a share; None where this way has no price."""
        told = self._way.price(call)
        if told is None:
            return None
        correction, error = self._correction(call)
        return told * math.exp(correction), error

    def _correction(self, call: Call) -> tuple[float, float]:
        """As a logarithm, and how far apart those are that it is made of."""
        same = [point for point in self._points if point[0].kind == call.kind and point[0].key != call.key]
        if call.kind == calls.VIEW:
            return 0.0, 10 * STRAY
        if not same:
            return 0.0, max(self._elsewhere(), self._way.error(call), self._way.stray(call))
        nearest = sorted((_distance(call, other), correction) for other, correction, _ in same)[:NEAREST]
        weights = [1.0 / (0.05 + distance**2) for distance, _ in nearest]
        told = sum(w * correction for w, (_, correction) in zip(weights, nearest)) / sum(weights)
        spread = sum(w * abs(correction - told) for w, (_, correction) in zip(weights, nearest)) / sum(weights)
        far = min(1.0, nearest[0][0])  # what is like nothing there is as uncertain as any
        unlike = far * max(self._way.error(call), self._elsewhere() / 2)
        return told, max(spread, unlike) + max(self._way.stray(call), min(1.0, 4 * far) * STRAY)

    def _elsewhere(self) -> float:
        """How far off uncorrected prices are on the original, as its time is shared out."""
        total = sum(ns for _, _, ns in self._points)
        return sum(abs(correction) * ns for _, correction, ns in self._points) / total if total else 0.5


def _first_price(ways: Sequence[_Corrected], call: Call) -> tuple[float, float]:
    """By the first way that has a price."""
    for way in ways:
        found = way.price(call)
        if found is not None:
            return found
    raise NotPredicted("theory_unpriced", {"name": call.name})


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
