"""What a night means: pairs of base and head judged by themselves, and every metric against its own history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import cast

from msgspec.structs import replace

from npulens.analysis.regression.baseline import baseline
from npulens.analysis.regression.change_point import LEAST
from npulens.analysis.regression.covariates import Suspect, suspects_of
from npulens.analysis.regression.discoveries import Alarm, standing
from npulens.analysis.regression.floor import Floor, margin, noise_floor
from npulens.analysis.regression.looks import LOOKS, Pairs, decide, tick_of
from npulens.analysis.regression.series import LIMITS, Change, SeriesVerdict, judge_all
from npulens.analysis.regression.verdict import Verdict as OfPairs
from npulens.analysis.say import share
from npulens.app.nightly.confirm import confirm
from npulens.app.nightly.knowledge import Known
from npulens.app.nightly.night import MAYBE_CHANCE, OUTSIDE, Hint, Row, Said, Spot, Verdict
from npulens.app.nightly.tonight import Measured
from npulens.ingest.store import history
from npulens.ingest.store.history import Identity, Point

#: Nights of a series that are judged, and those that a report draws.
_JUDGED, _DRAWN = 240, 90
_MOVED = ("regressed", "improved")
#: The metric of a task that its other metrics are parts of.
_STEP = "step_ns"
#: Nights for which a change that nobody was told of is news.
_NEWS = 30
#: A condition explains a change this much better than another before it is taken instead of it.
_BETTER = 0.3
#: Beyond the band by less than this share of the level is not worth a word.
_BARELY = 0.005


@dataclass(frozen=True)
class Court:
    """Everything a judgement needs beside the numbers."""

    store: Path
    at_ns: int
    rounds: dict[str, int]  # of each task: the pairs of its first look
    known: Known
    config: str  # the file, for the command that confirms
    history: bool  # whether tonight is in the history
    sided: frozenset[str] = frozenset()  # the tasks that can be given a base and a head
    accepted: Mapping[tuple[str, str], float] = field(default_factory=dict)  # of an identity and a metric: head / base
    among: int = 1  # tasks that share one budget of false alarms; in a night each has its own


@dataclass(frozen=True)
class _Case:
    """One metric with its history up to tonight."""

    tonight: Measured
    points: tuple[Point, ...]
    equal: tuple[float, ...]  # log-ratios of equal sides, one a night
    before: Identity | None  # the machine the task ran on until tonight, if tonight is the first on this one

    @property
    def usable(self) -> list[Point]:
        return [point for point in self.points if point.usable]


def rows(court: Court, numbers: Sequence[Measured]) -> tuple[Row, ...]:
    """One row a metric. The history holds tonight already."""
    cases = _cases(court, numbers)
    series = judge_all([[point.value for point in case.usable] for case in cases], LIMITS,
                       [case.tonight.like.better for case in cases])  # fmt: skip
    paired = _paired(court, numbers)
    found = []
    for case, said in zip(cases, series, strict=True):
        row, each = _against_history(court, case, said), case.tonight
        found.append(_against_base(court, case, row, paired[_name(each)]) if each.base else row)
    return tuple(_standing(found))


def suspects(court: Court, numbers: Sequence[Measured], look: int) -> set[str]:
    """The tasks whose pairs leave a doubt at a look that more pairs may settle."""
    return {
        task for task, mine in _by_task(numbers).items()
        if decide(_pairs(court, mine, look), court.rounds[task], court.among).goes_on
    }  # fmt: skip


def _paired(court: Court, numbers: Sequence[Measured]) -> dict[tuple[str, str], OfPairs]:
    """What all pairs of each metric say, its task being judged as a whole."""
    found: dict[tuple[str, str], OfPairs] = {}
    for task, mine in _by_task(numbers).items():
        said = decide(_pairs(court, mine, len(LOOKS) - 1), court.rounds[task], court.among).verdicts
        found |= {_name(each): verdict for each, verdict in zip(mine, said, strict=True)}
    return found


def _by_task(numbers: Sequence[Measured]) -> dict[str, list[Measured]]:
    of: dict[str, list[Measured]] = {}
    for each in numbers:
        if each.base:
            of.setdefault(each.task, []).append(each)
    return of


def _pairs(court: Court, numbers: Sequence[Measured], look: int) -> list[Pairs]:
    """The pairs of a task up to a look, beyond what has been accepted. A number without a unit is a count: exact."""
    found = []
    for each in numbers:
        accepted = _worse(each, court.accepted.get(_name(each), 1.0))
        logs = [log - accepted for log in each.logs(0, LOOKS[look] * court.rounds[each.task])]
        tick = tick_of([*each.base.values(), *each.head.values()]) if each.like.unit else 0.0
        found.append(Pairs(logs, each.metric == _STEP, tick))
    return found


def _name(each: Measured) -> tuple[str, str]:
    return each.identity.key, each.metric


def _cases(court: Court, numbers: Sequence[Measured]) -> list[_Case]:
    held: dict[str, dict[str, list[Point]]] = {}
    everyone = history.identities(court.store) if court.history else []
    cases = []
    for each in numbers:
        key = each.identity.key
        if court.history and key not in held:
            held[key] = {metric: points for (_, metric), points in history.everything(court.store, key).items()}
        mine = held.get(key, {})
        points = tuple(point for point in mine.get(each.metric, ()) if point.at_ns <= court.at_ns)[-_JUDGED:]
        equal = tuple(point.value for point in mine.get(each.metric + history.AA, ()) if point.at_ns <= court.at_ns)
        before = _before(court, each.identity, everyone) if len(points) == 1 else None
        cases.append(_Case(each, points, equal, before))
    return cases


def _before(court: Court, mine: Identity, everyone: Sequence[Identity]) -> Identity | None:
    """What the same task ran on before tonight."""
    moments: dict[Identity, int] = {}
    for other in everyone:
        alike = (other.workload, other.configuration, other.shapes) == (mine.workload, mine.configuration, mine.shapes)
        if alike and (other.hardware, other.host) != (mine.hardware, mine.host):
            series = history.everything(court.store, other.key).values()
            moments[other] = max((p.at_ns for points in series for p in points if p.at_ns < court.at_ns), default=0)
    last = max(moments, key=lambda other: moments[other], default=None)
    return last if last is not None and moments[last] else None


def _against_history(court: Court, case: _Case, found: SeriesVerdict) -> Row:
    each, usable = case.tonight, case.usable
    row = _row(case, found)
    if case.before is not None:
        point = case.points[0]
        return replace(row, verdict="machine", fresh=True, since=_night(point), since_ns=point.at_ns,
                       hints=_machine(case.before, each.identity))  # fmt: skip
    change = _news(court, case, found)
    if change is None:
        return _of_machine(case, found, row) if row.verdict in _MOVED else _suspect(row, usable)
    beside = _beside(case, found, change)
    verdict = _of_change(change, each, beside)
    return replace(
        row, verdict=verdict, fresh=True, since=_night(usable[change.index]), since_ns=usable[change.index].at_ns,
        ratio=change.ratio, low=change.low, high=change.high, p=change.p, hints=tuple(_hint(one) for one in beside),
        confirm=confirm(beside, each.task, court.config) if each.task in court.sided else "",
        base_run=usable[change.index - 1].run_id,
        level=_level(case, change), settles=Said("settles_apart", {}) if verdict == "likely" else None,
        slope=change.slope,
    )  # fmt: skip


def _beside(case: _Case, found: SeriesVerdict, change: Change) -> list[Suspect]:
    return suspects_of([point.covariates for point in case.usable], found.changes, found.changes.index(change))


def _of_machine(case: _Case, found: SeriesVerdict, row: Row) -> Row:
    """A level that is known stays the machine's in the table where it was the machine's when it was told."""
    change = found.changes[-1]
    beside = _beside(case, found, change)
    if _of_change(change, case.tonight, beside) != "machine":
        return row
    return replace(row, verdict="machine", ratio=change.ratio, low=change.low, high=change.high,
                   level=_level(case, change), hints=tuple(_hint(one) for one in beside))  # fmt: skip


def _level(case: _Case, change: Change) -> float:
    """What a change is measured against: the nights before it."""
    return median(point.value for point in case.usable[max(0, change.index - _DRAWN) : change.index])


def _suspect(row: Row, usable: Sequence[Point]) -> Row:
    """A night outside the band of those before is no change yet, and nothing to keep quiet about."""
    stands = baseline([point.value for point in usable[:-1]])
    apart = stands is not None and stands.low is not None and stands.high is not None and stands.n >= LEAST and not (
        stands.low * (1 - _BARELY) <= row.value <= stands.high * (1 + _BARELY))  # fmt: skip
    if row.verdict not in ("same", "ambiguous") or stands is None or not apart:
        return row
    ratio = row.value / stands.level if stands.level else None
    return replace(row, verdict="ambiguous", level=stands.level, ratio=ratio, settles=Said(OUTSIDE, {}))


def _row(case: _Case, found: SeriesVerdict) -> Row:
    """What is known before any change is looked at."""
    each, usable = case.tonight, case.usable
    where = (each.identity.hardware, each.identity.shapes, each.identity.configuration)
    level = found.baseline.level if found.baseline is not None else None
    settles = None
    if found.settles is not None:
        settles = Said("settles_nights", {"n": len(usable) + found.settles, "have": len(usable)})
    return Row(
        task=each.task, identity=each.identity.key, where=" · ".join(filter(None, where)), metric=each.metric,
        unit=each.like.unit, better=each.like.better, value=each.value, by="history", n=len(usable), level=level,
        verdict="young" if len(usable) < LEAST else found.verdict, run_id=each.run_id,
        floor=each.error if found.floor is None else found.floor,
        ratio=each.value / level if level else None, settles=settles,
        since=_night(usable[found.changes[-1].index]) if found.verdict in _MOVED else None,
        series=tuple(Spot(_night(point), point.value, point.usable) for point in case.points[-_DRAWN:]),
        changes=tuple(_night(usable[change.index]) for change in found.changes),
    )  # fmt: skip


def _news(court: Court, case: _Case, found: SeriesVerdict) -> Change | None:
    """The newest change, if no night before has told it. Its date may have moved since: any night that may be it."""
    usable = case.usable
    for change in found.changes[::-1]:
        near = [point.at_ns for point in usable[max(0, min(change.first, change.index - 2)) :
                                                max(change.last, change.index + 2) + 1]]  # fmt: skip
        mine = case.tonight.identity.key, case.tonight.metric, near, change.ratio > 1
        new = len(usable) - (change.seen if change.drift else change.index) <= _NEWS
        if not court.known.told(*mine) and (new or court.known.doubted(*mine)):
            return change
    return None


def _of_change(change: Change, each: Measured, beside: Sequence[Suspect]) -> Verdict:
    """Regressed or improved; the machine's where a condition of it fits best; likely where two fit alike."""
    machine = max((one.tells for one in beside if one.machine and one.sure), default=0.0)
    others = max((one.tells for one in beside if not one.machine and (one.sure or one.commit)), default=0.0)
    if machine and machine >= others + _BETTER:
        return "machine"
    if machine and others < machine + _BETTER:
        return "likely"
    return "regressed" if (change.ratio > 1) == (each.like.better == "lower") else "improved"


def _against_base(court: Court, case: _Case, row: Row, whole: OfPairs) -> Row:
    """The word of the pairs; what the history says of head is the surroundings' if base did the same."""
    each = case.tonight
    said, settles = _word(whole, noise_floor(case.equal))
    if row.fresh and said not in _MOVED:
        return replace(row, verdict="machine", hints=()) if row.verdict in _MOVED else row
    down = each.like.better == "higher"
    low, high = (whole.high, whole.low) if down else (whole.low, whole.high)
    ratio, low, high = (1 / edge if edge and down else edge for edge in (whole.ratio, low, high))
    since = _streak(court, case, (ratio or 1.0) > 1) if said in _MOVED else None
    return replace(
        row, verdict=said, by="pairs", fresh=False, since=since and _night(since), since_ns=since and since.at_ns,
        ratio=ratio, low=low, high=high, p=whole.p, n=whole.n, settles=settles, level=median(each.base.values()),
        hints=(), confirm="", base_run=each.base_run,
    )  # fmt: skip


def _worse(each: Measured, ratio: float) -> float:
    """The logarithm of head / base, turned so that more is worse."""
    return math.log(ratio) * (1 if each.like.better == "lower" else -1)


def _word(whole: OfPairs, floor: Floor | None) -> tuple[Verdict, Said | None]:
    """Moved is only what moved further than equal sides ever did here."""
    reach = margin(floor, 0.0)
    if whole.said in _MOVED and whole.ratio is not None and abs(whole.ratio - 1) < reach:
        return "ambiguous", Said("settles_floor", {"floor": share(reach)})
    if whole.settles is None:
        return cast(Verdict, whole.said), None
    if whole.settles.n is None:
        return "ambiguous", Said("settles_never", {})
    return "ambiguous", Said("settles_pairs", {"n": whole.settles.n, "have": whole.n})


def _standing(found: list[Row]) -> list[Row]:
    """The dated changes that stand when every task is counted; one that does not is likely.

    Pairs are not counted again: each task's have a budget of alarms of their own."""
    moved = [row.verdict in _MOVED and row.fresh for row in found]
    stand = standing([
        Alarm(row.task, row.metric == _STEP, row.p if alarm and row.p is not None else 1.0)
        for row, alarm in zip(found, moved, strict=True)
    ])  # fmt: skip
    many = {"n": len({row.task for row in found})}
    return [
        replace(row, verdict="likely", settles=Said(MAYBE_CHANCE, many)) if alarm and not stands else row
        for row, alarm, stands in zip(found, moved, stand, strict=True)
    ]


def _streak(court: Court, case: _Case, more: bool) -> Point | None:
    """The first night in a row up to tonight whose pairs said the same."""
    before = [point.at_ns for point in case.points if point.at_ns < court.at_ns]
    first = court.known.streak(case.tonight.identity.key, case.tonight.metric, more, before) or court.at_ns
    return next((point for point in case.points if point.at_ns >= first), None)


def _hint(one: Suspect) -> Hint:
    return Hint(one.name, one.before or "", one.after or "", one.machine, round(one.tells, 3))


def _machine(before: Identity, now: Identity) -> tuple[Hint, ...]:
    both = (("hardware", before.hardware, now.hardware), ("host", before.host, now.host))
    return tuple(Hint(name, old, new, True, 1.0) for name, old, new in both if old != new)


def _night(point: Point) -> str:
    """The night of a point; a run that no night brought has the day it was measured."""
    return point.night or f"{datetime.fromtimestamp(point.at_ns / 1e9, UTC):%Y-%m-%d}"
