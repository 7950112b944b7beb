"""One rewrite tried on one subject: does it apply, is it right, is it faster, what memory does it take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.lab import drawing, graph, judging, measuring, optimizing
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, Rewrite, Rewritten, rewrite
from npulens.collectors.lab.subject import Subject

REFUSED, DOES_NOT_APPLY = "refused", "does_not_apply"


@dataclass(frozen=True)
class Options:
    """How a trial is made."""

    pairs: int = measuring.PAIRS
    seconds: float = measuring.SECONDS
    allow_error: float | None = None
    times: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Trial:
    """What became of one rewrite."""

    name: str
    verdict: str  # faster, slower, same, cannot_tell, refused, does_not_apply
    why: Mapping[str, Any] | None = None  # the name of a text and its values
    changed: int = 0
    left: Mapping[str, int] = field(default_factory=dict)
    dtype: str | None = None
    errors: Mapping[str, Any] | None = None
    speed: Mapping[str, Any] | None = None
    peak_bytes: int | None = None
    peak_bytes_of_original: int | None = None
    first_call_s: float | None = None
    predicted: Mapping[str, Any] | None = None  # what theory said of its time before it was measured
    nodes: tuple[int, int] | None = None  # of the program before and after, where both are graphs

    def as_dict(self) -> dict[str, Any]:
        return {"rewrite": self.name, **{name: value for name, value in vars(self).items() if name != "name"}}


class Laboratory:
    """A subject with its truth, and the rewrites that are tried on it."""

    def __init__(self, subject: Subject, backend: Backend, options: Options) -> None:
        self._subject, self._backend, self._options = subject, backend, options
        from npulens.collectors.lab import theory  # needs torch at once

        about = subject.about
        whole = graph.is_graph(subject.program)
        self._asked = Asked(about.training, about.gradients, about.dynamic, backend.device, whole, about.optimizer)
        others = graph.draws(subject.program)[1] if whole else []
        if others:
            raise judging.CannotRun(f"it draws random numbers ({others[0]}), so no two runs of it can be compared")
        self._truths = judging.truths(subject, options.seed)
        self._predicted = partial(theory.predicted, theory.Theory(subject, backend))

    def error_of_original(self) -> float:
        """How far the original itself is from float64, at worst."""
        return max(judging.error_of(truth) for truth in self._truths)

    def tried(self, name: str, own: Sequence[Path] = ()) -> Trial:
        """One rewrite, from the question whether it applies to how fast it is."""
        found = rewrite(name, own)
        drawing.forget(self._subject.place, name)
        if hasattr(found, "optimizer"):
            return self._stepped(name, found.optimizer)
        try:
            made = self._made(found, self._subject.program)
        except DoesNotApply as reason:
            return Trial(name, DOES_NOT_APPLY, {"name": reason.name, "values": reason.values})
        except judging.FAILURES as error:
            return Trial(name, DOES_NOT_APPLY, {"name": "fails", "values": {"error": judging.first_line(error)}})
        drawing.write(self._subject.place, found, name, self._subject.program, made.model)
        about: dict[str, Any] = {"changed": made.changed, "left": dict(made.left), "dtype": made.dtype,
                                 "nodes": _nodes(self._subject.program, made.model)}  # fmt: skip
        lost = self._lost(made)
        if lost:
            return Trial(name, REFUSED, {"name": "loses_dropout", "values": lost}, **about)
        errors = self._errors(found, made)
        about["errors"] = errors.as_dict()
        if not errors.ok:
            values = {"why": errors.why, "where": errors.where}
            return Trial(name, REFUSED, {"name": "wrong", "values": values}, **about)
        if not self._options.times:
            return Trial(name, measuring.CANNOT_TELL, {"name": "not_timed", "values": {}}, **about)
        return self._timed(name, found, about)

    def _stepped(self, name: str, change: Callable[[Any], Any]) -> Trial:
        """The same for a rewrite of the optimiser, on parameters as the job's."""
        told, backend, options = self._asked.optimizer, self._backend, self._options
        try:
            now = change(told)
            errors = optimizing.judged(told or {}, optimizing.Made(now, backend.device).changes(), backend.device)
        except DoesNotApply as reason:
            return Trial(name, DOES_NOT_APPLY, {"name": reason.name, "values": reason.values})
        except (judging.CannotRun, *judging.FAILURES) as error:
            return Trial(name, DOES_NOT_APPLY, {"name": "fails", "values": {"error": judging.first_line(error)}})
        parameters = sum(len(group["parameters"]) for group in now["groups"])
        about: dict[str, Any] = {"changed": parameters, "errors": errors.as_dict()}
        if not errors.ok:
            return Trial(
                name, REFUSED, {"name": "wrong", "values": {"why": errors.why, "where": errors.where}}, **about
            )
        if not options.times:
            return Trial(name, measuring.CANNOT_TELL, {"name": "not_timed", "values": {}}, **about)
        for key, one in (("peak_bytes", now), ("peak_bytes_of_original", told)):
            made = optimizing.Made(one or {}, backend.device).ready()
            made()  # the first step makes the state
            about[key] = measuring.peak_bytes(backend, made)
        speed = optimizing.measured(told or {}, now, self._subject, backend, options.pairs, options.seconds)
        why = None if speed.why is None else {"name": speed.why, "values": {"pairs": speed.pairs_needed}}
        return Trial(name, speed.said, why, speed=speed.as_dict(), **about)

    def _errors(self, found: Rewrite, made: Rewritten) -> judging.Errors:
        def make(program: Any) -> Any:
            return self._made(found, program).model

        return judging.judged(
            make, self._truths, self._subject.about.gradients, made.dtype,
            bool(self._backend.properties().get("short_products")) and self._backend.name != "cpu",
            self._options.allow_error,
        )  # fmt: skip

    def _timed(self, name: str, found: Rewrite, about: dict[str, Any]) -> Trial:
        subject, batch = self._subject, self._subject.batches[0]
        gradients = subject.about.gradients

        def once(model: Any) -> Callable[[], Any]:
            return measuring.step(model, batch, gradients, model)

        try:
            model = self._rewritten(found)
            begun = time.perf_counter()
            once(model)()
            self._backend.synchronize()
            about["first_call_s"] = time.perf_counter() - begun
            about["predicted"] = self._predicted(name, model)
            about["peak_bytes"] = measuring.peak_bytes(self._backend, once(model))
            about["peak_bytes_of_original"] = measuring.peak_bytes(self._backend, once(self._original()))
            del model
            speed = measuring.measured(
                subject, self._backend, self._original, lambda: self._rewritten(found), self._options.pairs,
                self._options.seconds,
            )  # fmt: skip
        except judging.FAILURES as error:
            why = {"why": f"it fails: {judging.first_line(error)}", "where": "timed"}
            return Trial(name, REFUSED, {"name": "wrong", "values": why}, **about)
        told = None if speed.why is None else {"name": speed.why, "values": {"pairs": speed.pairs_needed}}
        return Trial(name, speed.said, told, speed=speed.as_dict(), **about)

    def _original(self) -> Any:
        return graph.copied(self._subject.program)

    def _rewritten(self, found: Rewrite) -> Any:
        return self._made(found, self._subject.program).model

    def _made(self, found: Rewrite, program: Any) -> Rewritten:
        """On a copy: a rewrite may do with it what it likes."""
        return found.apply(graph.copied(program), self._asked)

    def _lost(self, made: Rewritten) -> dict[str, int] | None:
        """Dropouts that the program has and the rewrite has not: without dropout nobody would see it."""
        if not graph.is_graph(self._subject.program) or not graph.is_graph(made.model):
            return None
        before, after = graph.draws(self._subject.program)[0], graph.draws(made.model)[0]
        return None if before == after else {"before": before, "after": after}


def _nodes(program: Any, model: Any) -> tuple[int, int] | None:
    if not graph.is_graph(program) or not graph.is_graph(model):
        return None
    counts = [sum(bool(graph.operator(node)) for _, node in graph.every(each)) for each in (program, model)]
    return counts[0], counts[1]
