"""What a rewrite should take, said before it is timed: the calls that go and those that come, each with its price.

Every call of the original is made alone, with numbers of its own. So is the program without its calls: what Python
takes to find the weights. What all of it together is short of a whole run is shared out in proportion to the calls.

A call that only the rewrite has is priced by its class, corrected by how the class prices the nearest calls of the
original. Where no class has a price for it, it is made alone as well. The error grows with how unlike the nearest ones
a call is, and with what the calls alone are short of. A gain no larger than the error is not claimed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.lab import calibration, calls, graph, judging, measuring
from npulens.collectors.lab.calibration import Calibration
from npulens.collectors.lab.calls import Call, Clock
from npulens.collectors.lab.subject import Subject

#: Runs of the original as a whole.
ROUNDS = 15
#: A call alone is made so often that it takes this long, so many times over.
SHOT_NS, SHOTS = 1_500_000, 5
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
class _Seen:
    """The original on one batch: its calls, what each costs alone, and the whole run."""

    share: float
    batch: Sequence[Any]
    calls: Sequence[Call]
    costs: Mapping[str, float]  # by key
    whole_ns: float
    hollow_ns: float  # of it what is left without the calls

    @property
    def scale(self) -> float:
        """How many times as much calls take within the run as alone."""
        alone = sum(self.costs[call.key] for call in self.calls)
        return max(0.5, (self.whole_ns - min(self.hollow_ns, MOST_HOLLOW * self.whole_ns)) / alone)


@dataclass
class Theory:
    """Predicts rewrites of one subject. ``classes`` is the machine's calibration; it is measured when it is needed."""

    subject: Subject
    backend: Backend
    classes: Calibration | None = None
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        self._clock = Clock(self.backend)
        self._alone: dict[str, float] = {}
        self._strays: dict[str, float] = {}
        self._spread = 0.0
        self._seen: list[_Seen] | None = None

    def predicted(self, model: Callable[..., Any]) -> Predicted:
        """What a rewrite should take. It is called once, and that call is not timed."""
        if self.subject.about.gradients:
            raise NotPredicted("theory_gradients")
        seen = self._original()
        after = [calls.heard(model, one.batch) for one in seen]
        steps = self.hollow_ns(model, seen[0].batch)
        if not all(after):
            raise NotPredicted("theory_not_heard")
        if self.classes is None:
            self.classes = calibration.of(self.backend, self.alone)
        by_classes = Way(self.classes, self.classes.error, lambda _: LEAST_STRAY)
        measured = Way(self.alone, lambda _: 0.0, self._stray)
        guess, errors = self._guess(seen, after, (by_classes, measured), steps)
        new = [call for one, its in zip(seen, after) for call in _changed(one.calls, its)[1]]
        unpriced = sorted({call.name for call in new if self.classes(call) is None})
        by_class = None if unpriced else self._guess(seen, after, (by_classes,), steps)[0]
        alone = self._guess(seen, after, (measured,), steps)[0]
        gone, come = _changed(seen[0].calls, after[0])
        return Predicted(
            guess, self._clock.name, Work.of(seen[0].calls), Work.of(after[0]), len(gone), len(come),
            sum(one.share * one.whole_ns for one in seen), errors, by_class, alone, tuple(unpriced),
            self.classes.errors,
        )  # fmt: skip

    # ---- The original

    def _original(self) -> list[_Seen]:
        if self._seen is None:
            mix = measuring.mix(self.subject)
            kinds: dict[tuple[Any, ...], tuple[Sequence[Any], int]] = {}
            for batch in mix:
                shapes = tuple(tuple(each.shape) for each in batch)
                first, count = kinds.get(shapes, (batch, 0))
                kinds[shapes] = (first, count + 1)
            self._seen = [self._look(batch, count / len(mix)) for batch, count in kinds.values()]
        return self._seen

    def _look(self, batch: Sequence[Any], share: float) -> _Seen:
        program = self.subject.program
        found = calls.heard(program, batch)
        whole = self._shots(measuring.step(program, batch, False, None), 1, self.rounds)
        costs = {call.key: self.alone(call) for call in found}
        return _Seen(share, batch, found, costs, whole, self.hollow_ns(program, batch))

    def _shots(self, step: Callable[[], Any], times: int, shots: int) -> float:
        with self._clock.threads():
            step()
            stamps = []
            for _ in range(shots):
                first = self._clock.stamp()
                for _ in range(times):
                    step()
                stamps.append((first, self._clock.stamp()))
            taken = sorted(self._clock.read(stamps))
            low = taken[len(taken) // 4]  # what disturbs only makes it longer
            self._spread = taken[-1 - len(taken) // 4] / max(1.0, low) - 1
            return low / times

    # ---- Prices

    def alone(self, call: Call) -> float:
        """What a call takes that is made again and again with numbers of its own."""
        import torch

        if call.key not in self._alone:
            with torch.no_grad():
                step = call.again()
                once = max(1.0, self._shots(step, 1, 3))
                self._alone[call.key] = self._shots(step, max(1, round(SHOT_NS / once)), SHOTS)
                self._strays[call.key] = self._spread
        return self._alone[call.key]

    def _stray(self, call: Call) -> float:
        """How far apart the shots of a call alone were: another time it would have come out that much otherwise."""
        return max(STRAY, self._strays.get(call.key, 0.0))

    def hollow_ns(self, model: Any, batch: Sequence[Any]) -> float:
        """What a program takes without its calls: batches are cloned, weights found, results given back."""
        fixed = self._shots(measuring.step(tuple, batch, False, None), 1, self.rounds)
        if not hasattr(model, "modules"):
            return fixed
        for one in graph.graphs(model):
            program = _hollow(one)
            try:
                fixed += self._shots(partial(program, tuple(batch)), 4, self.rounds)
            except judging.FAILURES:  # a part of a program that is called in another way
                continue
        return fixed

    def _guess(
        self, seen: Sequence[_Seen], after: Sequence[Sequence[Call]], ways: Sequence[Way], hollow_ns: float
    ) -> tuple[Guess, Mapping[str, float]]:
        """Over all shapes of the job, in its proportions."""
        before_ns = after_ns = 0.0
        wrong: dict[str, float] = {}
        errors: dict[str, float] = {}
        for one, its in zip(seen, after):
            gone, new = _changed(one.calls, its)
            scale = one.scale
            going = scale * sum(one.costs[call.key] for call in gone)
            corrected = [_Corrected(one, way) for way in ways]
            coming = 0.0
            for call in new:
                ns, error = _first_price(corrected, call)
                coming += scale * ns
                errors[call.kind] = max(error, errors.get(call.kind, 0.0))
                wrong[call.kind] = wrong.get(call.kind, 0.0) + one.share * scale * ns * error
            steps = hollow_ns - seen[0].hollow_ns
            before_ns += one.share * one.whole_ns
            after_ns += one.share * (one.whole_ns - going + coming + steps)
            unsure = abs(going - coming) * (abs(scale - 1) / 2 + STRAY) + abs(steps) / 4
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
