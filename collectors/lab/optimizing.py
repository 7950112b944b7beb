"""The optimiser of a job: what was heard of it, the same on drawn numbers, and whether another way of it steps alike.

Parameters have the job's shapes and types, in the job's groups with the job's settings. A few steps with drawn
gradients from the same start are compared with what the plain way gives in float64.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.lab import judging, measuring
from npulens.collectors.lab.rewrites.rewrite import DoesNotApply
from npulens.collectors.lab.subject import Shape, Subject

#: Steps that are compared, enough for momentum and the correction of its beginning to show.
STEPS = 8
#: Parameters are drawn so large, and gradients so many powers of ten smaller: beside the least an epsilon counts.
_SIZE, _POWERS = 0.02, 10.0
#: The plain way may be so far from float64 that a mistake would not show.
_MOST = 1e-2
_PLAIN = (int, float, bool, str, type(None))
_WAYS = ("foreach", "fused")


def heard(optimizer: Any) -> dict[str, Any]:
    """What is told of an optimiser: its class, and of each group the settings and what its parameters are."""
    groups = []
    for group in optimizer.param_groups:
        settings = {name: _plain(value) for name, value in group.items() if name != "params"}
        groups.append({
            "settings": settings, "unread": sorted(name for name, value in group.items() if name != "params"
                                                   and not _is_plain(value)),
            "parameters": [{
                "shape": list(each.shape), "dtype": str(each.dtype).replace("torch.", ""),
                "gradient": None if each.grad is None else "sparse" if each.grad.is_sparse else "dense",
            } for each in group["params"]],
        })  # fmt: skip
    kind = type(optimizer)
    return {"kind": kind.__name__, "module": kind.__module__, "groups": groups}


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, (list, tuple)) and all(map(_is_plain, value)))


def _plain(value: Any) -> Any:
    return value if _is_plain(value) else None


def with_way(told: Mapping[str, Any] | None, way: str) -> Mapping[str, Any]:
    """The optimiser that was heard, stepping in another way; DoesNotApply where that is none."""
    import torch

    if told is None:
        raise DoesNotApply("optimizer_none")
    kind = getattr(torch.optim, told["kind"], None)
    if kind is None or not str(told["module"]).startswith("torch.optim"):
        raise DoesNotApply("optimizer_own", {"kind": told["kind"]})
    if way not in inspect.signature(kind).parameters:
        raise DoesNotApply("optimizer_way", {"kind": told["kind"], "way": way})
    groups = told["groups"]
    if all(group["settings"].get(way) for group in groups):
        raise DoesNotApply("optimizer_already", {"way": way})
    if any(group["unread"] for group in groups):
        raise DoesNotApply("optimizer_settings", {"names": ", ".join(groups[0]["unread"])})
    if any(each["gradient"] == "sparse" for group in groups for each in group["parameters"]):
        raise DoesNotApply("optimizer_sparse")
    now = {name: name == way for name in _WAYS}
    return {**told, "groups": [{**group, "settings": {**group["settings"], **now}} for group in groups]}


class Made:
    """An optimiser with parameters like those that were heard, and gradients for its steps."""

    def __init__(self, told: Mapping[str, Any], device: str, dtype: Any = None, seed: int = 0) -> None:
        import torch

        numbers = torch.Generator().manual_seed(4000 + seed)
        kind = getattr(torch.optim, told["kind"])
        known = inspect.signature(kind).parameters
        self.stepped: list[Any] = []
        self._gradients: list[list[Any]] = []
        groups = []
        for group in told["groups"]:
            made = []
            for each in group["parameters"]:
                start = torch.randn(each["shape"], generator=numbers, dtype=torch.float64) * _SIZE
                small = 10.0 ** -(_POWERS * torch.rand(each["shape"], generator=numbers, dtype=torch.float64))
                own = getattr(torch, each["dtype"])
                start, small = start.to(own), small.to(own)  # the same numbers in float64
                parameter = torch.nn.Parameter(start.to(device, dtype or own))
                made.append(parameter)
                if each["gradient"] is not None:
                    self.stepped.append(parameter)
                    drawn = (torch.randn(each["shape"], generator=numbers).to(own) for _ in range(STEPS))
                    self._gradients.append([(one * small).to(device, dtype or own) for one in drawn])
            settings = {name: _setting(value) for name, value in group["settings"].items() if name in known}
            groups.append({"params": made, **settings})
        self.optimizer = kind(groups)
        self.start = [each.detach().clone() for each in self.stepped]

    def changes(self) -> list[Any]:
        """How far each parameter has come after all steps."""
        for step in range(STEPS):
            self.step(step)
        return [each.detach() - start for each, start in zip(self.stepped, self.start)]

    def step(self, which: int = 0) -> None:
        """One step with one of the drawn gradients."""
        for each, drawn in zip(self.stepped, self._gradients):
            each.grad = drawn[which].clone()
        self.optimizer.step()

    def ready(self) -> Any:
        """A call that steps, with gradients that are there already."""
        import torch

        for each in self.stepped:
            each.grad = torch.randn_like(each)

        def call(_: Any = None) -> tuple[Any, ...]:
            self.optimizer.step()
            return ()

        return call


def _setting(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def judged(told: Mapping[str, Any], changes: Sequence[Any], device: str) -> judging.Errors:
    """How far some changes of the parameters are from float64, beside those of the plain way."""
    import torch

    plain = {**told, "groups": [{**group, "settings": {**group["settings"], "foreach": False, "fused": False}}
                                for group in told["groups"]]}  # fmt: skip
    own, exact = Made(plain, device).changes(), Made(plain, device, torch.float64).changes()
    told_of = {"original": 0.0, "rewrite": 0.0, "allowed": 0.0, "against": 0.0}
    why = None if len(changes) == len(exact) else f"{len(changes)} parameters instead of {len(exact)}"
    for mine, its, truth in zip(changes, own, exact):
        norm = float(truth.norm())
        if not norm:
            continue
        far, base = (float((each.double() - truth).norm()) / norm for each in (mine, its))
        if base > _MOST:
            raise judging.CannotRun("its steps are too small beside the weights to be compared")
        kind = str(its.dtype).replace("torch.", "")
        allowed = max(judging.TIMES * base, judging.UNITS * judging.EPSILON[kind])
        told_of["original"], told_of["allowed"] = max(told_of["original"], base), max(told_of["allowed"], allowed)
        told_of["rewrite"] = max(told_of["rewrite"], far)
        told_of["against"] = max(told_of["against"], float((mine.double() - its.double()).norm()) / norm)
        if not far <= allowed and why is None:
            why = f"the error of a parameter's change is {far:.2g} of it, {allowed:.2g} is allowed"
    if not exact:
        raise judging.CannotRun("no parameter of it has a gradient")
    return judging.Errors(
        why is None, why, None if why is None else "stepped", told_of["original"], told_of["rewrite"],
        told_of["allowed"], told_of["against"], STEPS,
    )  # fmt: skip


def measured(
    told: Mapping[str, Any], now: Mapping[str, Any], about: Subject, backend: Backend, pairs: int, seconds: float
) -> measuring.Speed:
    """Steps of the optimiser as it was heard, and in the other way."""
    alone = replace(about.about, gradients=False, shapes=(Shape((), 1),), calls=1)
    steps = Subject(Path(), alone, None, ((),), (None,))
    return measuring.measured(
        steps, backend, lambda: Made(told, backend.device).ready(), lambda: Made(now, backend.device).ready(), pairs,
        seconds,
    )  # fmt: skip
