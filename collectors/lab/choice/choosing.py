"""Chooses a plan for a subject: every part alone, then parts together, numerics first, the winner measured afresh."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from npulens.collectors.backends.backend import Backend
from npulens.collectors.lab import graph, judging, measuring
from npulens.collectors.lab.choice import bounds, offers, shapes, timing
from npulens.collectors.lab.choice import plan as plans
from npulens.collectors.lab.choice.halving import ROUNDS, halved
from npulens.collectors.lab.choice.plan import Make, Part, Plan
from npulens.collectors.lab.gates import gate
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewrite, names, rewrite
from npulens.collectors.lab.subject import Subject

#: How long the search takes, in seconds; the winner's fresh pairs come on top.
SECONDS = 60.0
#: Plans of several parts, and what the programs of all plans may take in memory.
MOST, MEMORY = 24, 4 << 30
#: What may take which share of the time, counted from the beginning: types of modules, parts alone, plans.
TYPES, ALONE, TOGETHER = 0.2, 0.5, 0.7
#: The order of parts alone: what is made quickly first.
_ALONE = (plans.GRAPH, plans.AROUND, plans.THREADS, plans.PRECISION, plans.COMPILER, plans.SHAPES)
REFUSED, NOT_REACHED, DOES_NOT_APPLY, TRIED = "refused", "not_reached", "does_not_apply", "tried"


@dataclass(frozen=True)
class Settings:
    """What a choice may take, and what it may change."""

    seconds: float = SECONDS
    pairs: int = measuring.PAIRS
    final_seconds: float = measuring.SECONDS
    allow_error: float | None = None
    own: tuple[Path, ...] = ()
    gates: tuple[str, ...] = ()
    roofs: Mapping[str, Any] | None = None
    seed: int = 0


@dataclass
class Arm:
    """A plan on its way: why it went, or how it was measured."""

    plan: Plan
    said: str
    why: Mapping[str, Any] | None = None
    errors: Mapping[str, Any] | None = None
    gates: list[Mapping[str, Any]] = field(default_factory=list)
    first_call_s: float | None = None
    first_ns: int | None = None  # of the first pass after the first calls: what a single try would have told
    ratios: list[float] = field(default_factory=list)

    @property
    def level(self) -> float:
        """The mean of its logarithms."""
        return sum(self.ratios) / len(self.ratios) if self.ratios else math.inf

    def as_dict(self) -> dict[str, Any]:
        ratio = math.exp(self.level) if self.ratios else None
        return {
            "plan": words(self.plan), "said": self.said, "why": self.why, "errors": self.errors, "gates": self.gates,
            "ratio": ratio, "rounds": len(self.ratios), "first_call_s": self.first_call_s, "first_ns": self.first_ns,
        }  # fmt: skip


def words(plan: Plan) -> list[dict[str, str]]:
    """A plan as data."""
    return [{"kind": part.kind, "name": part.name} for part in plan]


class Chooser:
    """One subject, its truths, and the plans that are tried on it."""

    def __init__(self, subject: Subject, backend: Backend, settings: Settings) -> None:
        subject = shapes.widened(subject)
        self._subject, self._backend, self._settings = subject, backend, settings
        about = subject.about
        whole = graph.is_graph(subject.program)
        others = graph.draws(subject.program)[1] if whole else []
        if others:
            raise judging.CannotRun(f"it draws random numbers ({others[0]}), so no two runs of it can be compared")
        self._asked = Asked(about.training, about.gradients, about.dynamic, backend.device, whole)
        self._gates = [gate.opened(name, subject.program, subject.batches) for name in settings.gates]
        self._truths = judging.truths(subject, settings.seed)
        self._early = [truth for truth in self._truths if truth.where != "redrawn"]
        self._rewrites: dict[str, Rewrite] = {}
        self._kinds: dict[str, str] = {}
        self._types: Mapping[str, str] = {}  # of a way with types: the shortest type in it
        self._precision: dict[str, Callable[[Any], Any]] = {}
        self._shapes: dict[str, Callable[[Any, Make], Any]] = {}
        self._ways = plans.Ways(self._precision, self._shapes, self._rewrites)
        self._arms: dict[Plan, Arm] = {}
        self._begun = time.monotonic()
        self._room = max(4, MEMORY // max(1, about.weight_bytes))

    def chosen(self) -> dict[str, Any]:
        """The answer: what was tried, what won, and what it is worth on fresh pairs."""
        passes = timing.Passes(self._backend, self._subject, graph.copied(self._subject.program))
        self._begun = time.monotonic()
        told: dict[str, Any] = {"left_out": self._find_rewrites()}
        told["precision"] = self._find_types()
        told["shapes"] = self._find_shapes()
        self._alone(passes)
        self._combine(passes)
        ranking = self._halve(passes)
        naive = self._naive(passes)
        winner = self._winner(ranking)
        told["plans"] = [arm.as_dict() for arm in self._arms.values()]
        told |= {
            "clock": passes.clock,
            "first_ns_of_original": passes.first_of_original,
            "took_s": time.monotonic() - self._begun,
        }
        won = None if winner is None else self._measured(winner)
        same = winner is not None and naive is not None and naive["plan"] == words(winner)
        if naive is not None:
            naive["speed"] = won["speed"] if won is not None and same else self._speed(self._plan(naive["plan"]))
        return {**told, "bounds": self._bounds(), "winner": won, "naive": naive}

    def _bounds(self) -> list[dict[str, Any]]:
        program, batch = self._subject.program, self._subject.batches[0]
        if not graph.is_graph(program):
            return []
        return [asdict(each) for each in bounds.bounds(program, batch, self._backend, self._settings.roofs)]

    # What there is.

    def _find_rewrites(self) -> list[dict[str, Any]]:
        """Those that apply become parts; the others, with the reason."""
        left_out = []
        for name in dict.fromkeys([*names(), *(path.stem for path in self._settings.own)]):
            found = rewrite(name, self._settings.own)
            try:
                made = found.apply(graph.copied(self._subject.program), self._asked)
            except DoesNotApply as reason:
                left_out.append({"name": name, "why": {"name": reason.name, "values": reason.values}})
                continue
            except judging.FAILURES as error:
                why = {"name": "fails", "values": {"error": judging.first_line(error)}}
                left_out.append({"name": name, "why": why})
                continue
            if made.dtype is None:  # types are chosen module by module
                self._rewrites[name] = found
                self._kinds[name] = plans.kind_of(self._subject.program, made.model)
        return left_out

    def _find_types(self) -> Mapping[str, Any]:
        def allowed(make: Callable[[Any], Any], dtype: str) -> bool:
            return self._errors(make, self._early, dtype).ok and all(self._scored(make(self._subject.program)))

        found = offers.types(self._subject, self._early, self._backend, allowed, lambda: self._spent() > TYPES)
        self._precision.update(found.ways)
        self._types = found.shortest
        return found.told

    def _find_shapes(self) -> Mapping[str, Any]:
        found = offers.shaped(self._subject, lambda make: self._errors(make, self._truths, None))
        self._shapes.update(found.ways)
        return found.told

    # Parts alone.

    def _alone(self, passes: timing.Passes) -> None:
        """Every part as a plan of its own."""
        parts = [Part(kind, name) for name, kind in self._kinds.items()]
        parts += [Part(plans.PRECISION, name) for name in self._precision]
        parts += [Part(plans.SHAPES, name) for name in self._shapes]
        parts += [Part(plans.THREADS, str(count)) for count in self._thread_counts(passes)]
        for part in sorted(parts, key=lambda one: _ALONE.index(one.kind)):
            self._take((part,), passes, ALONE)
        self._measure([plan for plan, arm in self._arms.items() if arm.said == TRIED], passes, ROUNDS)

    def _thread_counts(self, passes: timing.Passes) -> list[int]:
        if self._backend.name != "cpu" or passes.clock == "cpu":  # CPU time is that of one thread
            return []
        now = torch.get_num_threads()
        return sorted({1, now // 2, now} - {0, now})

    # Parts together.

    def _combine(self, passes: timing.Passes) -> None:
        levels = {arm.plan[0]: arm.level for arm in self._arms.values() if arm.said == TRIED}
        both = [plans.together((shape, compiler)) for shape in levels if shape.kind == plans.SHAPES
                for compiler in levels if compiler.kind == plans.COMPILER]  # fmt: skip
        for plan in dict.fromkeys([*both, *plans.combined(levels, MOST)]):
            self._take(plan, passes, TOGETHER)
            other = plans.reordered(plan)
            if self._arms[plan].said in (REFUSED, DOES_NOT_APPLY) and other not in self._arms:
                self._take(other, passes, TOGETHER)

    def _take(self, plan: Plan, passes: timing.Passes, share: float) -> None:
        """Makes a plan, judges its numbers on the job's batches and fresh ones, and runs it a first time."""
        arm = self._arms[plan] = Arm(plan, NOT_REACHED)
        if self._spent() > share or sum(each.said == TRIED for each in self._arms.values()) >= self._room:
            return
        print(f"npulens: {' + '.join(part.name for part in plan)} ...", file=sys.stderr, flush=True)
        if self._judged(plan, self._early, arm) is None:
            return
        try:
            model = self._made(plan, self._subject.program)
            if not all(self._scored(model, arm)):
                arm.said, arm.why = REFUSED, {"name": "gate", "values": {}}
                return
            arm.first_call_s = passes.add(plan, model)
        except judging.FAILURES as error:
            arm.said, arm.why = REFUSED, {"name": "fails", "values": {"error": judging.first_line(error)}}
            return
        arm.said, arm.first_ns = TRIED, passes.first_ns[plan]

    def _judged(self, plan: Plan, truths: Sequence[judging.Truth], arm: Arm) -> judging.Errors | None:
        """Its errors where it is right; where it is not, the arm says why."""

        def make(program: Any) -> Any:
            return self._made(plan, program)

        try:
            lost = self._lost(make(self._subject.program))
            errors = self._errors(make, truths, self._type_of(plan))
        except DoesNotApply as reason:
            arm.said, arm.why = DOES_NOT_APPLY, {"name": reason.name, "values": reason.values}
            return None
        except judging.FAILURES as error:
            arm.said, arm.why = REFUSED, {"name": "fails", "values": {"error": judging.first_line(error)}}
            return None
        arm.errors = errors.as_dict()
        if lost is not None:
            arm.said, arm.why = REFUSED, {"name": "loses_dropout", "values": lost}
        elif not errors.ok:
            arm.said, arm.why = REFUSED, {"name": "wrong", "values": {"why": errors.why, "where": errors.where}}
        else:
            return errors
        return None

    def _type_of(self, plan: Plan) -> str | None:
        """The shortest type of a plan; empty where it only rounds products, None where it keeps the program's."""
        return next((self._types[part.name] for part in plan if part.kind == plans.PRECISION), None)

    def _errors(self, make: Callable[[Any], Any], truths: Sequence[judging.Truth], dtype: str | None) -> judging.Errors:
        told = bool(self._backend.properties().get("short_products")) and self._backend.name != "cpu"
        allow = self._settings.allow_error
        if allow is None and self._gates:  # somebody's own measure decides
            allow = 1.0
        return judging.judged(make, truths, self._subject.about.gradients, dtype or None, told or dtype == "", allow)

    def _scored(self, model: Any, arm: Arm | None = None) -> Iterator[bool]:
        """What each gate says; the arm keeps the scores."""
        for each in self._gates:
            found = each.scored(model)
            if arm is not None:
                arm.gates.append(found.as_dict())
            yield found.ok

    def _lost(self, model: Any) -> dict[str, int] | None:
        if not graph.is_graph(self._subject.program) or not graph.is_graph(model):
            return None
        before, after = graph.draws(self._subject.program)[0], graph.draws(model)[0]
        return None if before == after else {"before": before, "after": after}

    def _made(self, plan: Plan, program: Any) -> Any:
        return plans.made(plan, program, self._asked, self._ways)

    # Measured.

    def _measure(self, arms: Sequence[Plan], passes: timing.Passes, rounds: int) -> Mapping[Plan, Sequence[float]]:
        found = passes.measure(arms, rounds, lambda: self._spent() > 1.0) if arms else {}
        for plan, ratios in found.items():
            self._arms[plan].ratios += ratios
        return found

    def _halve(self, passes: timing.Passes) -> list[Plan]:
        there = [plan for plan, arm in self._arms.items() if arm.said == TRIED]
        known = {plan: list(self._arms[plan].ratios) for plan in there}

        def measure(arms: Sequence[Plan], rounds: int) -> Mapping[Plan, Sequence[float]]:
            return self._measure(arms, passes, rounds)

        return list(halved(there, measure, ROUNDS, lambda: self._spent() > 1.0, known).ranking)

    def _winner(self, ranking: Sequence[Plan]) -> Plan | None:
        """The best that is right on drawn weights as well; None where nothing was faster."""
        for plan in ranking:
            if self._arms[plan].level >= 0.0:
                return None
            if self._judged(plan, self._truths, self._arms[plan]) is not None:
                return plan
        return None

    def _naive(self, passes: timing.Passes) -> dict[str, Any] | None:
        """What the fastest of one try each would have claimed."""
        there = [arm for arm in self._arms.values() if arm.said == TRIED and arm.first_ns]
        if not there:
            return None
        best = min(there, key=lambda arm: arm.first_ns or math.inf)
        return {"plan": words(best.plan), "claimed": (best.first_ns or 0) / passes.first_of_original}

    def _plan(self, told: Sequence[Mapping[str, str]]) -> Plan:
        return tuple(Part(each["kind"], each["name"]) for each in told)

    def _measured(self, plan: Plan) -> dict[str, Any]:
        arm = self._arms[plan]
        batch, gradients = self._subject.batches[0], self._subject.about.gradients

        def once(make: Callable[[], Any]) -> int | None:
            model = make()
            measuring.step(model, batch, gradients, model)()
            return measuring.peak_bytes(self._backend, measuring.step(model, batch, gradients, model))

        return {
            "plan": words(plan), "errors": arm.errors, "gates": arm.gates, "searched_ratio": math.exp(arm.level),
            "speed": self._speed(plan), "peak_bytes": once(lambda: self._made(plan, self._subject.program)),
            "peak_bytes_of_original": once(lambda: graph.copied(self._subject.program)),
        }  # fmt: skip

    def _speed(self, plan: Plan) -> dict[str, Any]:
        subject = self._subject
        wall_only = any(part.kind == plans.THREADS for part in plan)
        return measuring.measured(
            subject, self._backend, lambda: graph.copied(subject.program), lambda: self._made(plan, subject.program),
            self._settings.pairs, self._settings.final_seconds, wall_only,
        ).as_dict()  # fmt: skip

    def _spent(self) -> float:
        return (time.monotonic() - self._begun) / self._settings.seconds
