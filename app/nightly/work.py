"""One night from its configuration to its report: gather, judge, write, tell. Whatever fails on the way is in it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from npulens.analysis.regression.change import Change, Contribution, change
from npulens.analysis.regression.looks import LOOKS
from npulens.analysis.serving.compared import Side, made_of, side
from npulens.analysis.serving.slo import USUAL
from npulens.app import run_compare
from npulens.app.nightly import advice, judge, knowledge, parts, place, readiness, regressions, steps, tonight
from npulens.app.nightly.config import Config, Watch, seconds
from npulens.app.nightly.dating import Which
from npulens.app.nightly.gathering import folder, gather
from npulens.app.nightly.gathering.gather import Gather
from npulens.app.nightly.journal import Journal
from npulens.app.nightly.judge import Court
from npulens.app.nightly.night import Night, Regression, Row, Said, Share, because, by_kernel
from npulens.app.nightly.steps import Step
from npulens.app.report.as_html import made_by
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs as stores

_PATIENCE = 60


@dataclass
class Work:
    """What a night works with, and what it has to say so far."""

    config: Config
    path: Path  # of the configuration
    store: Path
    home: Path
    which: Which
    facts: Journal
    tell: gather.Tell
    history: bool = True  # whether the night enters the history, and is judged against it
    among: int = 1  # tasks that share one budget of false alarms
    notices: list[Said] = field(default_factory=list)
    full: bool = False
    regressions: tuple[Regression, ...] = ()

    def __post_init__(self) -> None:
        if self.history:
            every = regressions.before(regressions.read(self.home), self.which.label)
            self.regressions = regressions.expired(every, datetime.now().date())

    @property
    def folder(self) -> Path:
        return self.home / self.which.label


def done(work: Work) -> Night:
    """The whole night. Nothing short of a defect leaves it: what failed is said in what it returns."""
    began = datetime.now().astimezone().isoformat(timespec="seconds")
    machine = readiness.conditions(work.config, work.path.parent)
    gathering = Gather(
        work.config, work.path.parent, work.store, work.home, work.folder, work.facts, work.tell,
    )  # fmt: skip
    if work.which.state == "resumed":
        gathering.resume()
    plan = steps.planned(work.config, work.which.label)
    plan = _gathered(work, gathering, plan, machine)
    numbers = tonight.measured(work.config, work.facts, machine, work.store)
    shares = {(each.identity.key, each.metric): each.share for each in numbers if each.share is not None}
    rows = parts.beside_step(_with_regressions(work, _judged(work, numbers)), shares)
    rows = advice.advised(work.config, work.path, rows)
    return Night(
        name=work.config.night.name, label=work.which.label, at_ns=work.which.at_ns, began=began,
        ended=datetime.now().astimezone().isoformat(timespec="seconds"), seconds=round(gathering.spent_s, 3),
        budget_s=seconds(work.config.night.budget), tasks=gather.tasks(work.config, work.facts, plan, _cut(work)),
        rows=rows, notices=(*work.which.notices, *gathering.notices, *_told(work), *work.notices),
        dashboard=work.config.night.dashboard, made_by=made_by(),
    )  # fmt: skip


def _gathered(work: Work, gathering: Gather, plan: list[Step], machine: dict[str, str]) -> list[Step]:
    """Measures, and measures more pairs of what is in doubt, look by look; the steps that were to be done."""
    court = _court(work)
    tasks = {task.title for task in work.config.tasks}
    try:
        gathering.work(plan)
        for look, between in enumerate(pairwise(LOOKS)):
            numbers = tonight.measured(work.config, work.facts, machine, work.store)
            tasks &= judge.suspects(court, numbers, look)
            plan = plan + steps.more(work.config, tasks, between, work.which.label)
            gathering.work(plan)
    except OSError as error:
        if not place.is_full(error):
            raise
        work.full = True
    finally:
        shutil.rmtree(work.folder / "trees", ignore_errors=True)
    many: dict[str, Any] = {"done": len(work.facts.done()), "planned": len(plan)}
    if work.full:
        work.notices.append(Said("lost_disk", many))
    elif gathering.left_s <= 0 and many["done"] < many["planned"]:
        work.notices.append(Said("lost_budget", many | {"budget": work.config.night.budget}))
    return plan


def _court(work: Work) -> Court:
    turns = {task.title: steps.rounds(task, work.config.night.rounds) for task in work.config.tasks}
    known = knowledge.known(work.home, work.which.label)
    sided = frozenset(task.title for task in work.config.tasks if not isinstance(task, Watch))
    accepted = {
        (each.identity, each.metric): each.ratio
        for each in work.regressions if each.state == "accepted" and each.by == "pairs"
    }  # fmt: skip
    return Court(work.store, work.which.at_ns, turns, known, str(work.path), work.history, sided, accepted,
                 work.among)  # fmt: skip


def _with_regressions(work: Work, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows with what is known of the regressions of the nights before; a task alone leaves them as they are."""
    if not work.history or work.full:
        return rows
    work.regressions, told = regressions.tonight(work.regressions, rows, work.which.label, work.which.at_ns)
    return told


def _judged(work: Work, numbers: Sequence[tonight.Measured]) -> tuple[Row, ...]:
    """Puts the night into the history and judges it there; one that stopped for want of room goes on another time."""
    if work.full:
        return ()
    try:
        tonight.forget(work.store, work.facts)
        if work.history:
            tonight.keep(work.store, list(numbers), work.which.label, work.which.at_ns)
        return explained(work.store, judge.rows(_court(work), numbers))
    except IngestError as error:
        work.full = place.is_full(error)
        work.notices.append(because("lost_history", error))
        return ()


def _cut(work: Work) -> Said:
    return Said("no_room" if work.full else "no_time", {})


def _told(work: Work) -> list[Said]:
    """What single steps had to say beside their numbers."""
    found = [Said("lost_lines", {"n": work.facts.torn})] if work.facts.torn else []
    for fact in work.facts.done().values():
        found += [Said(**said) for said in fact.get("notices", ())]
    return found


def remember(work: Work, night: Night) -> None:
    """Closes the night: what was told, what was read, and that it is done."""
    if work.full:
        return
    knowledge.tell(work.home, knowledge.known(work.home, night.label), night)
    if work.history:
        regressions.write(work.home, work.regressions)
    for fact in work.facts.done().values():
        folder.remember(work.home, fact.get("read") or {})
    work.facts.add({"what": "end", "clock_ns": time.time_ns(), "outcome": night.outcome})
    shutil.rmtree(work.folder / "steps", ignore_errors=True)


# Where a change of the step comes from: the run before it against tonight's, kernel by kernel and gap by gap.
#: Kernels and gaps that are kept, and shapes of each; the sum of the others is one more.
_MOST, _SHAPES = 12, 6
_WIDEST = 160  # characters of a part's name
#: The metric whose change is made of parts.
_STEP = "step_ns"
#: Percentiles are made of parts too: their measure and percent.
_OF_REQUESTS = re.compile(r"(ttft|tpot)_p(\d+)_ns")


@dataclass(frozen=True)
class _Pair:
    """Two runs, base first."""

    base: str
    head: str


def explained(store: Path, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows that moved, with what their change is made of where there are runs of both sides to look at."""
    seen: dict[_Pair, Change | None] = {}
    return tuple(_explained(store, row, seen) for row in rows)


def _explained(store: Path, row: Row, seen: dict[_Pair, Change | None]) -> Row:
    told = row.verdict in ("regressed", "improved", "machine", "likely") and (row.fresh or row.by == "pairs")
    if not told or row.run_id is None or row.base_run is None:
        return row
    if of_requests := _OF_REQUESTS.fullmatch(row.metric):
        return _of_requests(store, row, of_requests[1], int(of_requests[2]))
    if row.metric != _STEP:
        return row
    pair = _Pair(row.base_run, row.run_id)
    if pair not in seen:
        seen[pair] = _change(store, pair)
    found = seen[pair]
    if found is None:
        return row
    kept = by_kernel([_share(one) for one in found.contributions if one.delta_ns])[:_MOST]
    parts = tuple(part for kernel in kept for part in _shortened(kernel))
    rest = sum(one.delta_ns for one in found.contributions) - sum(part.delta_ns for part in parts)
    return replace(row, parts=parts, rest_ns=rest, residual_ns=found.residual_ns, parts_ns=found.delta_ns)


def _of_requests(store: Path, row: Row, measure: str, percent: int) -> Row:
    """What the change of a percentile is made of: parts of the requests around it."""
    sides: list[Side] = []
    for run_id in (row.base_run, row.run_id):
        try:
            with stores.open_run(store, str(run_id)) as con:
                found = side(con)
        except IngestError:
            return row
        if found is None:
            return row
        sides.append(found)
    values = [one.value(f"{measure}_p{percent}", USUAL) for one in sides]
    deltas = [(one.kind, round(one.head - one.base)) for one in made_of(sides[:1], sides[1:], measure, percent)]
    parts = tuple(Share("request", kind, ns) for kind, ns in deltas if ns)
    whole = round(values[1]) - round(values[0])
    return replace(row, parts=parts, rest_ns=0, residual_ns=whole - sum(ns for _, ns in deltas), parts_ns=whole)


def _shortened(kernel: Sequence[Share]) -> list[Share]:
    """The shapes of a kernel that moved most, and the others in one, so that the sum stays exact."""
    if len(kernel) <= _SHAPES:
        return list(kernel)
    shown = sorted(kernel, key=lambda one: -abs(one.delta_ns))
    rest = sum(one.delta_ns for one in shown[_SHAPES - 1 :])
    return [*shown[: _SHAPES - 1], Share(kernel[0].kind, kernel[0].what, rest, "…")]


def _share(one: Contribution) -> Share:
    plain = one.kind not in ("gap", "copy") and not one.parts and one.members is None
    return Share(one.kind, _what(one), one.delta_ns, str(one.shapes or "")[:_WIDEST] if plain else "")


def _what(one: Contribution) -> str:
    """A kernel by its short name; causes and directions stay the words they are.

    Kernels that were fused, split or renamed go by the names of both sides."""
    if one.kind in ("gap", "copy") or one.parts:
        return one.what
    if one.members is not None:
        names = [run_compare.names_of(side) for side in (one.members.base, one.members.head)]
        return " → ".join(names)[:_WIDEST]
    return run_compare.short(one.what)[:_WIDEST]


def _change(store: Path, pair: _Pair) -> Change | None:
    """The change between two runs; None where one is gone or cannot be split."""
    try:
        base, head = run_compare.halves(store, (pair.base, pair.head), (None, None), (None, None), False)
    except IngestError:
        return None
    return change(base.runs, head.runs)
