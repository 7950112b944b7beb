"""Whether a rewrite is right, before anything is timed.

The original program runs in float64: that is the truth. How far the original in its own type is from it says what
rounding costs here, and a rewrite may be a few times as far. Three kinds of numbers are computed with: the job's own
batches, fresh batches of the same shapes, and weights that were drawn anew. A weight that is zero, a mask that hides
nothing or a statistic that is one would hide a mistake; drawn ones do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npulens.collectors.harness.numerics import SHORT_PRODUCTS, TOLERANCES, compare
from npulens.collectors.lab import graph
from npulens.collectors.lab.subject import Subject

#: A rewrite may be so many times as far from float64 as the original is. What Inductor makes of exp was six times as
#: far (torch 2.13 on a CPU); a mistake shows on drawn weights, and there it is larger by orders of magnitude.
TIMES = 16.0
#: Below so many units of the type's last place nobody can tell rounding from a mistake.
UNITS = 32
#: Fresh batches, and sets of weights drawn anew: as large as the job's, then each up to a hundred times smaller.
FRESH = 2
REDRAWN = 2
#: More than so many of the harness's tolerances is never allowed for a result, however uncertain the original is.
MOST = 10.0
#: A gradient that is small beside the largest one is judged by a share of that one: some are zero but for rounding.
LEAST_GRADIENT = 1e-3
#: Beside an input that is so small an epsilon counts.
SMALL = 1e-3
#: What code of somebody's model, or of a compiler over it, may raise here.
FAILURES = (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError, KeyError, AttributeError,
            AssertionError, MemoryError, ArithmeticError)  # fmt: skip
#: Half a unit of the last place.
EPSILON = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}
Model = Callable[..., Any]


class CannotRun(RuntimeError):
    """A program that does not run here, so that nothing can be compared."""


@dataclass(frozen=True)
class Errors:
    """How far a rewrite is from float64 and from the original; the worst of all runs, each as a share of the norm."""

    ok: bool
    why: str | None  # what is wrong first
    where: str | None  # captured, fresh, reshaped, redrawn
    of_original: float
    of_rewrite: float | None
    allowed: float
    against_original: float | None
    runs: int

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Truth:
    """One set of numbers: the program and batch, what float64 says, and what the original says in its own type."""

    where: str
    program: Any
    batch: tuple[Any, ...]
    exact: Found
    own: Found


@dataclass(frozen=True)
class Found:
    """What one call gave: its results, and where gradients were on those of the weights, in the weights' order."""

    results: tuple[Any, ...]
    gradients: tuple[Any, ...] = ()
    shared: frozenset[str] = frozenset()  # results that are the memory of an input, a weight or another result
    written: frozenset[str] = frozenset()  # inputs that the call has changed


def watched(model: Model, batch: Sequence[Any], gradients: bool, program: Any = None) -> Found:
    """One call, and what it did besides: a caller that writes into a result must not change something else by it."""

    given = tuple(each.clone() for each in batch)
    found = run(lambda _: model(given), given, gradients, program)
    memory = {f"input {place}": _memory(each) for place, each in enumerate(given)}
    weights = [] if program is None else [*program.parameters(), *program.buffers()]
    memory.update({f"weight {place}": _memory(each) for place, each in enumerate(weights)})
    memory.update({f"result {place}": _memory(each) for place, each in enumerate(found.results)})
    shared = {
        ("a weight" if what.startswith("weight") else what, place) for place, each in enumerate(found.results)
        for what, its in memory.items() if its is not None and its == _memory(each) and what != f"result {place}"
    }  # fmt: skip
    written = frozenset(str(place) for place, (one, two) in enumerate(zip(given, batch)) if not _same(one, two))
    aliased = frozenset(f"result {place} is the memory of {what}" for what, place in shared)
    return Found(found.results, found.gradients, aliased, written)


def _memory(tensor: Any) -> int | None:
    """Where a tensor lies; None where that cannot be told."""
    import torch

    if tensor.layout != torch.strided or not tensor.numel():
        return None
    return int(tensor.untyped_storage().data_ptr())


def _same(one: Any, two: Any) -> bool:
    return bool(((one == two) | ((one != one) & (two != two))).all())


def run(model: Model, batch: Sequence[Any], gradients: bool, program: Any = None) -> Found:
    """One call, and where gradients were on a call backwards over the weights of ``program``; dense gradients."""
    import torch

    weights = list(program.parameters()) if gradients and program is not None else []
    wanted = [weight for weight in weights if weight.requires_grad]
    with torch.set_grad_enabled(gradients):
        found = tuple(model(tuple(each.clone() for each in batch)))
        loss = _loss(found) if wanted else None
        made = [] if loss is None else torch.autograd.grad(loss, wanted, allow_unused=True)
    whole = (torch.zeros_like(weight) if each is None else each for each, weight in zip(made, wanted))
    dense = tuple(each.to_dense() if each.layout != torch.strided else each for each in whole)
    return Found(tuple(each.detach() for each in found), dense)


def _loss(found: Sequence[Any]) -> Any:
    """A sum in which every element counts differently, the same in every type."""
    import torch

    total = None
    for each in found:
        if each.is_floating_point() and each.requires_grad:
            count = torch.arange(each.numel(), device=each.device, dtype=torch.float64)
            share = torch.cos(count).to(each.dtype).reshape(each.shape)
            total = (each * share).sum() if total is None else total + (each * share).sum()
    return total


def replayed(subject: Subject) -> tuple[float | None, str | None]:
    """How far the captured program is from what the job itself got; why it was not compared where it was not."""
    compared = None
    for batch, output in zip(subject.batches, subject.outputs):
        try:
            found = run(subject.program, batch, False).results
        except FAILURES as error:
            raise CannotRun(f"the captured program does not run: {first_line(error)}") from error
        if output is None or len(output) != len(found):
            continue
        for mine, its in zip(found, output):
            if mine.is_floating_point():
                away = compare(mine, its, _kind(its), 1.0).relative_error
                if away is None:
                    raise CannotRun("the captured program gives other numbers than the job got")
                compared = max(compared or 0.0, away)
            elif not bool((mine.cpu() == its.cpu()).all()):
                raise CannotRun("the captured program gives other numbers than the job got")
    if graph.is_graph(subject.program) and any(graph.draws(subject.program)):
        return None, "random"
    if compared is None:
        return None, "changed"
    if compared > _worst_type(subject):
        raise CannotRun(f"the captured program is {compared:.1g} of the result away from what the job got")
    return compared, None


def _worst_type(subject: Subject) -> float:
    kinds = {subject.about.autocast or "float32", *(each for each in subject.about.dtypes if each in TOLERANCES)}
    return max(TOLERANCES[kind] for kind in kinds)


def truths(subject: Subject, seed: int = 0) -> list[Truth]:
    """Everything that a rewrite is compared with. A drawn batch on which float64 itself is not finite is left out."""
    program = graph.without_dropout(subject.program)
    if not graph.is_graph(program):
        _repeatable(program, subject.batches[0])
    drawn = [("fresh", program, batch) for batch in fresh(subject.batches, seed)]
    if subject.about.dynamic:
        drawn += [("reshaped", program, batch) for batch in reshaped(subject.batches, seed)]
    for again in range(REDRAWN):
        other = redrawn(program, seed + 1 + again, bool(again))
        one, two = fresh(subject.batches[:1], seed + 1 + again)
        small = tuple(each * SMALL if each.is_floating_point() else each for each in two)
        drawn += [("redrawn", other, batch) for batch in (subject.batches[0], one, small)]
    found = []
    for where, one, batch in [*(("captured", program, batch) for batch in subject.batches), *drawn]:
        try:
            found.append(_truth(where, one, batch, subject.about.gradients))
        except CannotRun:
            if where == "captured":
                raise
    return found


def _repeatable(program: Any, batch: tuple[Any, ...]) -> None:
    """A module that was kept whole may draw random numbers unseen."""
    try:
        one, two = (run(graph.copied(program), batch, False).results for _ in range(2))
    except FAILURES as error:
        raise CannotRun(f"the original does not run: {first_line(error)}") from error
    if len(one) != len(two) or not all(a.shape == b.shape and _same(a, b) for a, b in zip(one, two)):
        raise CannotRun("two runs of it give other numbers, so nothing can be compared with it")


def _truth(where: str, program: Any, batch: tuple[Any, ...], gradients: bool) -> Truth:
    import torch

    try:
        exact_of = graph.in_type(program, torch.float64) if graph.is_graph(program) else graph.copied(program).double()
        exact = run(exact_of, graph.cast(batch, torch.float64), gradients, exact_of)
        own_of = graph.copied(program)
        own = watched(own_of, batch, gradients, own_of)
    except FAILURES as error:
        raise CannotRun(f"the original does not run in float64: {first_line(error)}") from error
    if not all(bool(each.isfinite().all()) for each in (*exact.results, *own.results)):
        raise CannotRun("the original, or the same in float64, is not finite on these numbers")
    return Truth(where, program, batch, exact, own)


def judged(
    make: Callable[[Any], Model], found: Sequence[Truth], gradients: bool, dtype: str | None, short: bool = False,
    allow: float | None = None,
) -> Errors:  # fmt: skip
    """Makes the rewrite of each program and compares it.

    ``dtype``: a type that it computes in on purpose. ``short``: products may be rounded on this device. ``allow``: what
    somebody allows a type of that kind instead.
    """
    import torch

    if dtype is not None:  # what a short type does to numbers that the job does not have is no matter
        found = [truth for truth in found if truth.where != "redrawn"]
    told: dict[str, float] = {"rewrite": 0.0, "original": 0.0, "against": 0.0, "allowed": 0.0}
    made: dict[int, Model] = {}
    for done, truth in enumerate(found, 1):
        if id(truth.program) not in made:
            made[id(truth.program)] = make(truth.program)
        model = made[id(truth.program)]
        own = _errors(truth.own, truth)
        allowed = [
            _allowed(own[place], result, dtype, short, allow, place < len(truth.own.results))
            for place, result in enumerate(_all(truth.own))
        ]
        told["original"] = max(told["original"], *own, 0.0)
        told["allowed"] = max(told["allowed"], *allowed, 0.0)
        try:
            mine = watched(model, truth.batch, gradients, model if isinstance(model, torch.nn.Module) else None)
        except FAILURES as failed:
            return _wrong(f"it fails: {first_line(failed)}", truth.where, told, done)
        why = _unlike(mine, truth)
        if why is not None:
            return _wrong(why, truth.where, told, done)
        errors = _errors(mine, truth)
        told["rewrite"] = max(told["rewrite"], *errors, 0.0)
        for place, (error, limit) in enumerate(zip(errors, allowed)):
            if not error <= limit:
                which = "result" if place < len(mine.results) else "gradient"
                why = f"the error of a {which} is {error:.2g} of it, {limit:.2g} is allowed"
                return _wrong(why, truth.where, {**told, "allowed": limit}, done, error)
        told["against"] = max(told["against"], *_errors(mine, truth, truth.own), 0.0)
    return Errors(True, None, None, told["original"], told["rewrite"], told["allowed"], told["against"], len(found))


def error_of(truth: Truth) -> float:
    """How far the original is from float64 on one set of numbers."""
    return max([0.0, *_errors(truth.own, truth)])


def _wrong(why: str, where: str, told: Mapping[str, float], runs: int, error: float | None = None) -> Errors:
    return Errors(False, why, where, told["original"], error, told["allowed"], None, runs)


def _all(found: Found) -> tuple[Any, ...]:
    return (*found.results, *found.gradients)


def _allowed(own: float, found: Any, dtype: str | None, short: bool, allow: float | None, result: bool) -> float:
    """What rounding explains: some times the original's own distance from float64.

    A gradient that is zero but for rounding may be anything as small; a result as uncertain would prove nothing.
    """
    kind = _kind(found)
    if kind not in TOLERANCES:
        return 0.0
    if dtype is None:
        rounding = max(TIMES * own, UNITS * EPSILON[kind], SHORT_PRODUCTS if short else 0.0)
        most = max(MOST * TOLERANCES[kind], SHORT_PRODUCTS if short else 0.0)
        return min(rounding, most) if result else 1.0 if own > most else rounding
    if allow is not None:
        return allow
    share = EPSILON[dtype] / EPSILON[kind]
    return min(TOLERANCES[dtype], max(TIMES * own * share, UNITS * EPSILON[dtype]))


def _unlike(mine: Found, truth: Truth) -> str | None:
    """What is wrong besides errors: numbers, shapes and types of results, and whole numbers, which have to be equal."""
    for ours, theirs, what in ((mine.results, truth.own.results, "results"),
                               (mine.gradients, truth.own.gradients, "gradients")):  # fmt: skip
        if len(ours) != len(theirs):
            return f"{len(ours)} {what} instead of {len(theirs)}"
    for place, (one, its) in enumerate(zip(_all(mine), _all(truth.own))):
        if one.shape != its.shape:
            return f"result {place} has the shape {list(one.shape)} instead of {list(its.shape)}"
        if one.dtype != its.dtype:
            return f"result {place} is {_kind(one)} instead of {_kind(its)}"
        if not one.is_floating_point() and not bool((one == its).all()):
            return f"result {place} has other whole numbers"
    for what in sorted(mine.shared - truth.own.shared):
        return what
    for changed in sorted(mine.written ^ truth.own.written):
        return f"input {changed} is {'written to' if changed in mine.written else 'no longer written to'}"
    return None


def _errors(mine: Found, truth: Truth, base: Found | None = None) -> list[float]:
    """The error of each result as a share of its norm; infinite where something is not finite."""
    base = truth.exact if base is None else base
    largest = max((float(each.double().norm()) for each in truth.exact.gradients), default=0.0)
    found = []
    for place, (ours, theirs) in enumerate(zip(_all(mine), _all(base))):
        if not ours.is_floating_point():
            found.append(0.0)
            continue
        error = compare(ours, theirs, _kind(ours), float("inf")).relative_error
        norm = float(theirs.double().norm())
        if place >= len(mine.results) and error is not None and norm < LEAST_GRADIENT * largest:
            error = (error * norm if norm else error) / (LEAST_GRADIENT * largest)
        found.append(float("inf") if error is None else error)
    return found


def fresh(batches: Sequence[Sequence[Any]], seed: int) -> Iterator[tuple[Any, ...]]:
    """Batches of the same shapes and types with other numbers."""
    import torch

    numbers = torch.Generator().manual_seed(1000 + seed)
    for again in range(FRESH):
        batch = batches[again % len(batches)]
        yield tuple(_drawn(each, numbers) for each in batch)


def reshaped(batches: Sequence[Sequence[Any]], seed: int) -> Iterator[tuple[Any, ...]]:
    """A batch of sizes that the job did not have, where its sizes differ: one more than the largest of each."""
    import torch

    numbers = torch.Generator().manual_seed(3000 + seed)
    made = []
    for place, tensor in enumerate(batches[0]):
        for dim in range(tensor.dim()):
            sizes = {batch[place].shape[dim] for batch in batches}
            if len(sizes) > 1:
                rows = torch.arange(max(*sizes, 1) + 1, device=tensor.device) % max(1, tensor.shape[dim])
                tensor = tensor.index_select(dim, rows)
        made.append(_drawn(tensor, numbers))
    if any(one.shape != two.shape for one, two in zip(made, batches[0])):
        yield tuple(made)


def _drawn(tensor: Any, numbers: Any) -> Any:
    import torch

    if tensor.is_floating_point():
        plain = tensor.double().cpu()
        mean, spread = (float(plain.mean()), float(plain.std())) if tensor.numel() > 1 else (0.0, 1.0)
        drawn = torch.randn(tensor.shape, generator=numbers, dtype=torch.float64) * (spread or 1.0) + mean
        return drawn.to(tensor.device, tensor.dtype)
    if tensor.dtype == torch.bool or (tensor.numel() and int(tensor.min()) >= 0 and int(tensor.max()) <= 1):
        mask = torch.rand(tensor.shape, generator=numbers) < 0.7
        if mask.dim():
            mask[..., 0] = True  # somebody has to be looked at
        return mask.to(tensor.device, tensor.dtype)
    if tensor.is_complex() or not tensor.numel():
        return tensor.clone()
    low, high = int(tensor.min()), int(tensor.max())
    return torch.randint(low, high + 1, tensor.shape, generator=numbers, dtype=torch.int64).to(
        tensor.device, tensor.dtype
    )


def redrawn(program: Any, seed: int, smaller: bool = False) -> Any:
    """The program with other weights, as large as its own: none is zero, one or the same as its neighbour.

    Statistics of a normalisation go down to its epsilon, so that a wrong epsilon shows. ``smaller``: tables and
    matrices are up to a hundred times smaller, each by a number of its own, so that what is normalised is small too.
    """
    import torch

    numbers = torch.Generator().manual_seed(2000 + seed)
    made = graph.copied(program)
    done: set[int] = set()
    weights = dict(made.named_parameters())
    for name, weight in [*weights.items(), *made.named_buffers()]:
        place = weight.untyped_storage().data_ptr()
        if not weight.is_floating_point() or place in done or name.startswith("_lab_"):
            continue
        done.add(place)
        shape, kind = weight.shape, weight.dtype
        with torch.no_grad():
            if "running_var" in name:  # its scale goes with it, or a deep network would leave the range of float32
                drawn = 10.0 ** (torch.rand(shape, generator=numbers) * 5 - 5)
                gamma = weights.get(name.replace("running_var", "weight"))
                if gamma is not None:
                    spread = 0.1 * torch.randn(shape, generator=numbers)
                    gamma.copy_((torch.sqrt(drawn + 1e-5) * (1 + spread)).to(gamma.device, gamma.dtype))
            elif weight.dim() == 1 and bool((weight == weight.flatten()[0]).all()):
                drawn = weight.double().cpu() + 0.2 * torch.randn(shape, generator=numbers)
            elif "running_mean" in name or bool((weight == 0).all()):
                drawn = 0.2 * torch.randn(shape, generator=numbers)
            elif name in weights:
                size = float(weight.double().std(unbiased=False)) or 0.1
                shrink = 10.0 ** -(2.0 * float(torch.rand((), generator=numbers))) if smaller else 1.0
                drawn = torch.randn(shape, generator=numbers) * size * shrink
            else:
                continue  # a table or a mask: it belongs to the program
            weight.copy_(drawn.to(weight.device, kind))
    return made


def _kind(tensor: Any) -> str:
    return str(tensor.dtype).replace("torch.", "")


def first_line(error: BaseException) -> str:
    """An error in one line of readable length."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
