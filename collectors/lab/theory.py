"""What a rewrite should take, said before it is timed: the calls that go and those that come, each with its price.

A call of the original costs what it was seen to cost within a run of the original. A call that only the rewrite has was
never seen. It is priced by its class; where no class has a price for it, it is made alone, with numbers of its own.
Either price is corrected by how the same way of pricing does on the nearest calls of the original. The error is how far
the nearest ones differ, and grows with how unlike them the call is. A gain no larger than the error is not claimed.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.lab import calibration, calls, judging, measuring
from npulens.collectors.lab.calibration import Calibration
from npulens.collectors.lab.calls import Call, Clock
from npulens.collectors.lab.subject import Subject

#: Runs of the original in which its calls are timed, and as a whole.
ROUNDS = 9
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
    stray: float  # two prices of the same call are no nearer than this


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


@dataclass
class _Seen:
    """The original on one batch: its calls, what each costs within a run, and the whole run."""

    batch: Sequence[Any]
    share: float
    calls: list[Call]
    ns: list[float]
    noise: float  # of one run's sum, as a share
    whole_ns: float

    def by_key(self) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        for call, ns in zip(self.calls, self.ns):
            found.setdefault(call.key, []).append(ns)
        return {key: statistics.fmean(each) for key, each in found.items()}


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
        self._seen: list[_Seen] | None = None

    def predicted(self, model: Callable[..., Any]) -> Predicted:
        """What a rewrite should take. It is called once, and that call is not timed."""
        if self.subject.about.gradients:
            raise NotPredicted("theory_gradients")
        seen = self._original()
        after = [calls.heard(model, one.batch) for one in seen]
        if not all(after):
            raise NotPredicted("theory_not_heard")
        if self.classes is None:
            self.classes = calibration.of(self.backend, self.alone)
        by_classes = Way(self.classes, self.classes.error, LEAST_STRAY)
        measured = Way(self.alone, lambda _: 0.0, STRAY)
        guess, errors = self._guess(seen, after, (by_classes, measured))
        new = [call for one, its in zip(seen, after) for call in _changed(one.calls, its)[1]]
        unpriced = sorted({call.name for call in new if self.classes(call) is None})
        by_class = None if unpriced else self._guess(seen, after, (by_classes,))[0]
        alone = self._guess(seen, after, (measured,))[0]
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
        rounds = calls.timed(program, batch, self.backend, self.rounds)
        if any(len(each) != len(found) for each in rounds):
            raise NotPredicted("theory_not_the_same")
        ns = [statistics.median(each) for each in zip(*rounds)]
        sums = sorted(sum(each) for each in rounds)
        middle = statistics.median(sums)
        spread = statistics.median(abs(each - middle) for each in sums) / middle
        noise = 1.5 * spread / math.sqrt(len(sums))
        return _Seen(batch, share, found, ns, noise, self._whole(batch))

    def _whole(self, batch: Sequence[Any]) -> float:
        """One run of the original as a whole."""
        step = measuring.step(self.subject.program, batch, False, None)
        return self._shots(step, 1, self.rounds)

    def _shots(self, step: Callable[[], Any], times: int, shots: int) -> float:
        with self._clock.threads():
            step()
            stamps = []
            for _ in range(shots):
                first = self._clock.stamp()
                for _ in range(times):
                    step()
                stamps.append((first, self._clock.stamp()))
            return statistics.median(self._clock.read(stamps)) / times

    # ---- Prices

    def alone(self, call: Call) -> float:
        """What a call takes that is made again and again with numbers of its own."""
        import torch

        if call.key not in self._alone:
            with torch.no_grad():
                step = call.again()
                once = max(1.0, self._shots(step, 1, 3))
                self._alone[call.key] = self._shots(step, max(1, round(SHOT_NS / once)), SHOTS)
        return self._alone[call.key]

    def _guess(
        self, seen: Sequence[_Seen], after: Sequence[Sequence[Call]], ways: Sequence[Way]
    ) -> tuple[Guess, Mapping[str, float]]:
        """Over all shapes of the job, in its proportions."""
        before_ns = after_ns = 0.0
        wrong: dict[str, float] = {}
        errors: dict[str, float] = {}
        for one, its in zip(seen, after):
            gone, new = _changed(one.calls, its)
            costs = one.by_key()
            going = sum(costs[call.key] for call in gone)
            before, now = Work.of(one.calls).launches, Work.of(its).launches
            between = max(0.0, one.whole_ns - sum(one.ns)) / max(1, before)  # Python, and memory that is given back
            corrected = [_Corrected(one, way) for way in ways]
            coming = 0.0
            for call in new:
                ns, error = _first_price(corrected, call)
                coming += ns
                errors[call.kind] = max(error, errors.get(call.kind, 0.0))
                wrong[call.kind] = wrong.get(call.kind, 0.0) + one.share * ns * error
            before_ns += one.share * one.whole_ns
            after_ns += one.share * (one.whole_ns - going + coming + between * (now - before))
            wrong["gone"] = wrong.get("gone", 0.0) + one.share * abs(going - coming) * one.noise
        reach = WIDTH * math.sqrt(sum(each**2 for each in wrong.values())) / before_ns
        mid = max(after_ns / before_ns, 0.01)
        return Guess(max(0.0, mid - reach), mid, mid + reach), errors


class _Corrected:
    """Prices as the nearest calls of the original correct them, and how far off that is on the original itself."""

    def __init__(self, seen: _Seen, way: Way) -> None:
        self._way = way
        costs, calls_of = seen.by_key(), {call.key: call for call in seen.calls}
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
            return 0.0, max(self._elsewhere(), self._way.error(call))
        nearest = sorted((_distance(call, other), correction) for other, correction, _ in same)[:NEAREST]
        weights = [1.0 / (0.05 + distance**2) for distance, _ in nearest]
        told = sum(w * correction for w, (_, correction) in zip(weights, nearest)) / sum(weights)
        spread = sum(w * abs(correction - told) for w, (_, correction) in zip(weights, nearest)) / sum(weights)
        far = min(1.0, nearest[0][0])  # what is like nothing there is as uncertain as any
        unlike = far * max(self._way.error(call), self._elsewhere() / 2)
        return told, max(spread, unlike) + max(self._way.stray, min(1.0, 4 * far) * STRAY)

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
