"""The numbers of a night, sorted by what they may be compared with, and how they enter the history."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from npulens.app.nightly import parts
from npulens.app.nightly.config import Config
from npulens.app.nightly.gathering.gather import sessions
from npulens.app.nightly.gathering.results import Result, Value
from npulens.app.nightly.journal import Journal
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import spoken
from npulens.ingest.store import history
from npulens.ingest.store.history import Identity, Point


@dataclass(frozen=True)
class Measured:
    """One metric of one thing tonight: the sessions of both sides, by round."""

    task: str
    identity: Identity
    metric: str
    like: Value  # its unit, and which way is good
    head: Mapping[int, float]
    base: Mapping[int, float]
    run_id: str | None  # the run whose value is nearest to the night's
    base_run: str | None
    covariates: Mapping[str, str]
    usable: bool
    reason: str
    share: float | None = None  # of the step, where it is a part of one
    error: float | None = None  # standard error within a session of head, as a share: all the noise a first night knows

    @property
    def value(self) -> float:
        """Tonight's: the median of the sessions of head."""
        return median(self.head.values())

    def logs(self, first: int, last: int | None = None) -> list[float]:
        """log(head / base) of the pairs of these rounds, turned so that more is worse."""
        sign = 1 if self.like.better == "lower" else -1
        turns = sorted(self.head.keys() & self.base.keys())
        return [
            sign * math.log(self.head[turn] / self.base[turn])
            for turn in turns
            if first <= turn < (last or turn + 1) and self.head[turn] > 0 and self.base[turn] > 0
        ]

    @property
    def equal_sides(self) -> float | None:
        """log of base against base: its even rounds against its odd ones. What the machine does to equal things."""
        sides = [[value for turn, value in self.base.items() if turn % 2 == odd and value > 0] for odd in (0, 1)]
        return math.log(median(sides[0]) / median(sides[1])) if all(sides) else None


def measured(config: Config, facts: Journal, machine: Mapping[str, str], store: Path) -> list[Measured]:
    """Everything that tonight's sessions hold; ``machine`` is what is known of the machine beside them."""
    found: list[Measured] = []
    for task in config.tasks:
        head, base = (sessions(facts, task.title, side) for side in ("head", "base"))
        groups: dict[Identity, dict[int, Result]] = {}
        for number, result in enumerate(_flat(head)):
            turn = result[0] if base else number
            groups.setdefault(_identity(task.title, result[1]), {})[turn] = result[1]
        opposite = {turn: result for turn, result in _flat(base)}
        for identity, results in groups.items():
            heads, bases = ([each.metrics for each in side.values()] for side in (results, opposite))
            named = parts.chosen(heads, bases, _known(store, identity))
            found += _metrics(task.title, identity, _folded(results, named), _folded(opposite, named), machine)
    return found


def _known(store: Path, identity: Identity) -> list[str]:
    """What the nights before measured. A history that cannot be read is told where the night enters it."""
    with suppress(IngestError):
        return history.metrics(store, identity.key)
    return []


def _folded(results: Mapping[int, Result], named: Collection[str]) -> dict[int, Result]:
    return {turn: replace(result, metrics=parts.folded(result.metrics, named)) for turn, result in results.items()}


def _flat(by_round: Mapping[int, list[Result]]) -> Iterator[tuple[int, Result]]:
    return ((turn, result) for turn, results in sorted(by_round.items()) for result in results)


def _identity(task: str, result: Result) -> Identity:
    return Identity(task, result.configuration, result.shapes, result.hardware, result.host)


def _metrics(
    task: str, identity: Identity, results: Mapping[int, Result], opposite: Mapping[int, Result],
    machine: Mapping[str, str],
) -> Iterator[Measured]:  # fmt: skip
    usable = {turn: result for turn, result in results.items() if result.usable} or results
    whole = next(iter(usable.values())).usable
    last = list(usable.values())[-1]
    reason = "" if whole else spoken(last.said) or last.reason
    named = dict.fromkeys(name for result in usable.values() for name in result.metrics)
    for name in (name for name in named if not name.endswith(history.AA)):
        head = {turn: result.metrics[name].value for turn, result in usable.items() if name in result.metrics}
        base = {turn: result.metrics[name].value for turn, result in opposite.items() if name in result.metrics}
        like = next(result.metrics[name] for result in usable.values() if name in result.metrics)
        mine = [result.metrics[name] for result in usable.values() if name in result.metrics]
        yield Measured(
            task, identity, name, like, head, base, _nearest(usable, head), _nearest(opposite, base),
            {**machine, **last.covariates}, whole, reason,
            _middle([value.share for value in mine]), _middle([value.error for value in mine]),
        )  # fmt: skip


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _nearest(results: Mapping[int, Result], values: Mapping[int, float]) -> str | None:
    """The run to look at for a value: the one nearest to the middle."""
    known = {turn: value for turn, value in values.items() if results[turn].run_id is not None}
    if not known:
        return None
    middle = median(values.values())
    return results[min(known, key=lambda turn: abs(known[turn] - middle))].run_id


def forget(store: Path, facts: Journal) -> None:
    """Takes the night's runs out of the history, where loading has put each by itself: the night is one point."""
    runs = {str(each["run_id"]) for fact in facts.done().values() for each in fact.get("results", ())} - {"None"}
    for run_id in sorted(runs):
        history.replace_run(store, run_id, Identity(""), [])


def keep(store: Path, numbers: list[Measured], label: str, at_ns: int) -> None:
    """Puts the night into the history: one point a metric. Doing it again replaces the same points."""
    of: dict[Identity, list[Point]] = {}
    for each in numbers:
        points = of.setdefault(each.identity, [])
        points.append(Point(
            each.identity.key, each.metric, each.like.unit, each.like.better, each.value, at_ns, label, each.run_id,
            each.usable, each.covariates, each.reason or None,
        ))  # fmt: skip
        if (equal := each.equal_sides) is not None:
            points.append(Point(each.identity.key, each.metric + history.AA, "log", "lower", equal, at_ns, label))
    for identity, points in of.items():
        history.add(store, identity, points)
