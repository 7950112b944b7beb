"""Chooses a plan for a subject: every part alone, then parts together, numerics first, the winner measured afresh."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from npulens.collectors.backends.backend import Backend
from npulens.collectors.lab import graph, judging, measuring
from npulens.collectors.lab.choice import plan as plans
from npulens.collectors.lab.choice import timing
from npulens.collectors.lab.choice.halving import ROUNDS, halved
from npulens.collectors.lab.choice.plan import Part, Plan
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewrite, names, rewrite
from npulens.collectors.lab.subject import Subject

#: How long the search takes, in seconds; the winner's fresh pairs come on top.
SECONDS = 60.0
#: Plans of several parts, and what the programs of all plans may take in memory.
MOST, MEMORY = 24, 4 << 30
#: Parts alone may take this share of the time.
ALONE = 0.6
REFUSED, NOT_REACHED, DOES_NOT_APPLY, TRIED = "refused", "not_reached", "does_not_apply", "tried"


@dataclass(frozen=True)
class Settings:
    """What a choice may take, and what it may change."""

    seconds: float = SECONDS
    pairs: int = measuring.PAIRS
    final_seconds: float = measuring.SECONDS
    allow_error: float | None = None
    own: tuple[Path, ...] = ()
    seed: int = 0


@dataclass
class Arm:
    """A plan on its way: why it went, or how it was measured."""

    plan: Plan
    said: str
    why: Mapping[str, Any] | None = None
    errors: Mapping[str, Any] | None = None
    first_call_s: float | None = None
    first_ns: int | None = None  # of the first pass after the first calls: what a single try would have told
    ratios: list[float] = field(default_factory=list)

    @property
    def level(self) -> float:
        """The mean of its logarithms."""
        return sum(self.ratios) / len(self.ratios) if self.ratios else math.inf

    def as_dict(self) -> dict[str, Any]:
        ratio = math.exp(self.level) if self.ratios else None
        return {"plan": words(self.plan), "said": self.said, "why": self.why, "errors": self.errors, "ratio": ratio,
                "rounds": len(self.ratios), "first_call_s": self.first_call_s, "first_ns": self.first_ns}  # fmt: skip


def words(plan: Plan) -> list[dict[str, str]]:
    """A plan as data."""
    return [{"kind": part.kind, "name": part.name} for part in plan]


class Chooser:
    """One subject, its truths, and the plans that are tried on it."""

    def __init__(self, subject: Subject, backend: Backend, settings: Settings) -> None:
        self._subject, self._backend, self._settings = subject, backend, settings
        about = subject.about
        whole = graph.is_graph(subject.program)
        others = graph.draws(subject.program)[1] if whole else []
        if others:
            raise judging.CannotRun(f"it draws random numbers ({others[0]}), so no two runs of it can be compared")
        self._asked = Asked(about.training, about.gradients, about.dynamic, backend.device, whole)
        self._truths = judging.truths(subject, settings.seed)
        self._rewrites: dict[str, Rewrite] = {}
        self._types: dict[str, str] = {}  # of a way with types: the shortest type in it
        self._ways = plans.Ways({}, {}, self._rewrites)
        self._arms: dict[Plan, Arm] = {}
        self._begun = time.monotonic()
        self._room = max(4, MEMORY // max(1, about.weight_bytes))

    def chosen(self) -> dict[str, Any]:
        """The answer: what was tried, what won, and what it is worth on fresh pairs."""
        passes = timing.Passes(self._backend, self._subject, graph.copied(self._subject.program))
        self._begun = time.monotonic()
        left_out = self._alone(passes)
        self._combine(passes)
        ranking = self._halve(passes)
        naive = self._naive(passes)
        winner = self._winner(ranking)
        told = {"plans": [arm.as_dict() for arm in self._arms.values()], "left_out": left_out,
                "first_ns_of_original": passes.first_of_original, "took_s": time.monotonic() - self._begun}  # fmt: skip
        won = None if winner is None else self._measured(winner)
        same = winner is not None and naive is not None and naive["plan"] == words(winner)
        if naive is not None:
            naive["speed"] = won["speed"] if won is not None and same else self._speed(self._plan(naive["plan"]))
        return {**told, "winner": won, "naive": naive}

    # Parts alone.

    def _alone(self, passes: timing.Passes) -> list[dict[str, Any]]:
        """Every part as a plan of its own; those that do not apply, with the reason."""
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
                self._take((Part(plans.kind_of(self._subject.program, made.model), name),), passes, ALONE)
        for threads in self._thread_counts():
            self._take((Part(plans.THREADS, str(threads)),), passes, ALONE)
        self._measure([plan for plan, arm in self._arms.items() if arm.said == TRIED], passes, ROUNDS)
        return left_out

    def _thread_counts(self) -> list[int]:
        if self._backend.name != "cpu":
            return []
        now = torch.get_num_threads()
        return sorted({1, now // 2, now} - {0, now})

    # Parts together.

    def _combine(self, passes: timing.Passes) -> None:
        levels = {arm.plan[0]: arm.level for arm in self._arms.values() if arm.said == TRIED}
        for plan in plans.combined(levels, MOST):
            self._take(plan, passes, 1.0)

    def _take(self, plan: Plan, passes: timing.Passes, share: float) -> None:
        """Makes a plan, judges its numbers on the job's batches and fresh ones, and runs it a first time."""
        arm = self._arms[plan] = Arm(plan, NOT_REACHED)
        if self._spent() > share or sum(each.said == TRIED for each in self._arms.values()) >= self._room:
            return
        print(f"npulens: {' + '.join(part.name for part in plan)} ...", file=sys.stderr, flush=True)
        errors = self._judged(plan, [truth for truth in self._truths if truth.where != "redrawn"], arm)
        if errors is None:
            return
        try:
            model = self._made(plan, self._subject.program)
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
            dtype = next((self._types.get(part.name) for part in plan if part.kind == plans.PRECISION), None)
            short = bool(self._backend.properties().get("short_products")) and self._backend.name != "cpu"
            gradients = self._subject.about.gradients
            errors = judging.judged(make, truths, gradients, dtype, short, self._settings.allow_error)
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

    def _lost(self, model: Any) -> dict[str, int] | None:
        if not graph.is_graph(self._subject.program) or not graph.is_graph(model):
            return None
        before, after = graph.draws(self._subject.program)[0], graph.draws(model)[0]
        return None if before == after else {"before": before, "after": after}

    def _made(self, plan: Plan, program: Any) -> Any:
        return plans.made(plan, program, self._asked, self._ways)

    # Measured.

    def _measure(self, arms: Sequence[Plan], passes: timing.Passes, rounds: int) -> Mapping[Plan, Sequence[float]]:
        found = passes.measure(arms, rounds) if arms else {}
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
            "plan": words(plan), "errors": arm.errors, "searched_ratio": math.exp(arm.level),
            "speed": self._speed(plan), "peak_bytes": once(lambda: self._made(plan, self._subject.program)),
            "peak_bytes_of_original": once(lambda: graph.copied(self._subject.program)),
        }  # fmt: skip

    def _speed(self, plan: Plan) -> dict[str, Any]:
        subject = self._subject
        wall_only = any(part.kind == plans.THREADS for part in plan)
        return timing.compared(
            subject, self._backend, lambda: graph.copied(subject.program), lambda: self._made(plan, subject.program),
            self._settings.pairs, self._settings.final_seconds, wall_only,
        ).as_dict()  # fmt: skip

    def _spent(self) -> float:
        return (time.monotonic() - self._begun) / self._settings.seconds
