"""Which commit it was that made a task slower: each one that is tried is measured against the good one, in turns.

First bad against good: unless head is shown to be worse, there is nothing to look for. Then the middle of what is left,
again and again. A commit is bad if it has more than half of the whole change, and good if it has less. Asked like that,
more pairs always tell, be the commit good or bad. "Is it slower at all" could never be answered with no.

Pairs come in the looks of a night: ten, twenty, forty (analysis/regression/looks.py). A commit that does not run is
skipped, and so is one that forty pairs cannot place. Then the answer may be several commits, as with git bisect.

Every session is in a journal before the next begins. A search that was killed, or is asked again with another end,
takes what is there.
"""

from __future__ import annotations

import hashlib
import math
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace as with_fields

from npulens.analysis.regression.looks import LOOKS, Decision, Pairs, decide, tick_of
from npulens.analysis.regression.verdict import Verdict
from npulens.app.nightly import dating, place, steps, tonight
from npulens.app.nightly.by_commit import commits
from npulens.app.nightly.by_commit.commits import Commit
from npulens.app.nightly.config import Config, Job, Watch, Workload
from npulens.app.nightly.dating import Which
from npulens.app.nightly.gathering.gather import PATIENCE, Gather
from npulens.app.nightly.journal import Journal
from npulens.app.nightly.night import Said
from npulens.app.nightly.steps import Step
from npulens.app.nightly.tonight import Measured
from npulens.app.nightly.written import night_text
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

#: Below the nights of the configuration, where no night is looked for.
_HOME = ".bisects"
#: A commit that the last look leaves in doubt stays on its side with so small a chance to be wrong. A night's limits
#: are far lower, because a night has nothing to look for.
_PLACED = 0.01
#: The metric that a task's others are parts of.
_STEP = "step_ns"

Tell = Callable[[str, Step], None]


@dataclass(frozen=True)
class Change:
    """By how much a commit is apart from the good one, as head / base."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int


@dataclass(frozen=True)
class Tried:
    """A commit that was tried, and what it turned out to be."""

    commit: Commit
    said: Literal["good", "bad", "skipped", "unclear"]
    change: Change | None = None
    reason: Said | None = None


@dataclass(frozen=True)
class Found:
    """The answer: one first bad commit, several that may be it, or none because nothing differs."""

    task: str
    metric: str
    good: str
    bad: str
    between: int
    tried: tuple[Tried, ...]
    first_bad: tuple[Commit, ...]

    @property
    def outcome(self) -> Literal["found", "nothing", "unclear"]:
        return "nothing" if not self.first_bad else "found" if len(self.first_bad) == 1 else "unclear"

    @property
    def status(self) -> int:
        """The exit code."""
        return {"found": 0, "nothing": 1, "unclear": 2}[self.outcome]


@dataclass(frozen=True)
class Asked:
    """Where to look: a task, a good and a bad commit of its repository, and those between."""

    config: Config
    path: Path
    store: Path
    task: Job | Workload
    good: str
    bad: str
    commits: tuple[Commit, ...]  # after good, the oldest first; the last is bad
    metric: str = ""

    @property
    def home(self) -> Path:
        return place.home(self.store, self.config.night.name) / _HOME


def asked(config: Config, path: Path, store: Path, name: str, good: str, bad: str, metric: str) -> Asked:
    """What is to be looked for; raises where it cannot be."""
    task = next((task for task in config.tasks if task.title == name), None)
    if task is None:
        known = ", ".join(task.title for task in config.tasks)
        raise IngestError("bisect", Message("there_is_no_task", {"name": repr(name), "known": known}), str(path))
    if isinstance(task, Watch):
        raise IngestError("bisect", Message("is_a_watched_folder", {"name": name}), str(path))
    directory = path.parent / task.directory
    first, last = commits.full(directory, good), commits.full(directory, bad)
    values = {"good": commits.short(first), "bad": commits.short(last)}
    if first != last and not commits.before(directory, first, last):
        raise IngestError("bisect", Message("is_not_before", values), str(path))
    return Asked(config, path, store, task, first, last, tuple(commits.between(directory, first, last)), metric)


def search(wanted: Asked, tell: Tell) -> Iterator[Tried | Found]:
    """Each commit as it has been tried, and the answer at the end."""
    if not wanted.commits:
        yield _found(wanted, (), ())
        return
    last = wanted.commits[-1]
    trial = _trial(wanted, last, tell, 0.0)
    if isinstance(trial, Said):
        values = {"commit": last.short, "reason": night_text.said(trial, "en")}
        raise IngestError("bisect", Message("bad_cannot_run", values))
    wanted = replace(wanted, metric=trial.metric)
    whole = trial.verdict(0.0)
    moved = whole.said == "regressed"
    end = Tried(last, "bad" if moved else "unclear" if whole.said == "ambiguous" else "good", trial.change)
    yield end
    if not moved:
        yield _found(wanted, (end,), ())
        return
    half = math.log(whole.ratio or 1.0) / 2
    said: dict[int, Tried] = {}
    low, high = -1, len(wanted.commits) - 1  # the newest that is good, the oldest that is bad
    while (middle := _middle(low, high, said)) is not None:
        said[middle] = tried = _placed(wanted, wanted.commits[middle], tell, half)
        yield tried
        if tried.said == "good":
            low = middle
        elif tried.said == "bad":
            high = middle
    yield _found(wanted, (end, *said.values()), wanted.commits[low + 1 : high + 1])


def _found(wanted: Asked, tried: Sequence[Tried], first_bad: Sequence[Commit]) -> Found:
    return Found(wanted.task.title, wanted.metric, wanted.good, wanted.bad, len(wanted.commits), tuple(tried),
                 tuple(first_bad))  # fmt: skip


def _middle(low: int, high: int, said: Mapping[int, Tried]) -> int | None:
    """The commit nearest to the middle that was not tried yet."""
    left = [place for place in range(low + 1, high) if place not in said]
    return min(left, key=lambda place: abs(2 * place - low - high), default=None)


def _placed(wanted: Asked, commit: Commit, tell: Tell, half: float) -> Tried:
    """A commit with what it is: beyond half of the change, within it, or neither."""
    trial = _trial(wanted, commit, tell, half)
    if isinstance(trial, Said):
        return Tried(commit, "skipped", reason=trial)
    found = trial.verdict(half)
    placed = found.said in ("regressed", "improved") or (found.p is not None and found.p <= _PLACED)
    worse = (found.ratio or 1.0) > 1
    return Tried(commit, ("bad" if worse else "good") if placed else "unclear", trial.change)


@dataclass(frozen=True)
class _Trial:
    """The pairs of a commit against good: log(head / base) of each, turned so that more is worse."""

    metric: str
    logs: tuple[float, ...]
    tick: float
    down: bool  # whether less is worse
    rounds: int

    def decision(self, than: float) -> Decision:
        """What the pairs say of the question whether the change is more than this."""
        return decide([Pairs([log - than for log in self.logs], False, self.tick)], self.rounds)

    def verdict(self, than: float) -> Verdict:
        return self.decision(than).verdicts[0]

    @property
    def change(self) -> Change | None:
        found = self.verdict(0.0)
        if found.ratio is None:
            return None
        if not self.down:
            return Change(found.ratio, found.low, found.high, found.n)
        low, high = (1 / edge if edge else None for edge in (found.high, found.low))
        return Change(1 / found.ratio, low, high, found.n)


def _trial(wanted: Asked, commit: Commit, tell: Tell, than: float) -> _Trial | Said:
    """Measures a commit against good until its change is placed; why it cannot be measured, if it cannot."""
    task = commits.sided(wanted.task, wanted.good, commit.sha, wanted.config.night.rounds)
    jobs, workloads = ((task,), ()) if isinstance(task, Job) else ((), (task,))
    config = with_fields(wanted.config, watch=(), job=jobs, workload=workloads)
    label = _label(task, wanted.good, commit)
    folder = wanted.home / label
    facts = dating.begin(folder, Which(label, time.time_ns(), "new", ()), 0)
    gathering = Gather(config, wanted.path.parent, wanted.store, wanted.home, folder, facts,
                       lambda step, number, of: tell(commit.short, step))  # fmt: skip
    gathering.resume()
    rounds = steps.rounds(task, 0)
    try:
        for between in pairwise((0, *LOOKS)):
            for step in steps.more(config, {task.title}, between, label):
                gathering.work([step])
                if (wrong := _failing(facts, step)) is not None:
                    return _skipped(wanted, step, wrong)
            numbers = tonight.measured(config, facts, {}, wanted.store)
            trial = _chosen(wanted, numbers, rounds)
            if isinstance(trial, Said) or _placed_by(trial, than):
                break
        return trial
    finally:
        tonight.forget(wanted.store, facts)
        for room in ("trees", "steps"):
            shutil.rmtree(folder / room, ignore_errors=True)


def _placed_by(trial: _Trial, than: float) -> bool:
    """Whether more pairs are needless: of good against bad they may also be hopeless."""
    found = trial.decision(than)
    return found.verdicts[0].said in ("regressed", "improved") or (not than and not found.goes_on)


def _failing(facts: Journal, step: Step) -> Said | None:
    """Why a side cannot be measured, if its first sessions all failed."""
    mine = [fact for name, fact in facts.done().items() if name.endswith(f"/{step.side}")]
    failed = len(mine) >= PATIENCE and not any(fact["ok"] for fact in mine)
    return Said(**mine[-1]["reason"]) if failed else None


def _skipped(wanted: Asked, step: Step, why: Said) -> Said:
    """A commit that does not run is skipped; without good there is nothing to compare with."""
    if step.side == "base":
        values = {"commit": commits.short(wanted.good), "reason": night_text.said(why, "en")}
        raise IngestError("bisect", Message("good_cannot_run", values))
    return why


def _chosen(wanted: Asked, numbers: Sequence[Measured], rounds: int) -> _Trial | Said:
    """The pairs of the metric that is asked for, else of the step, else of the only one there is."""
    there = {each.metric: each for each in numbers if each.logs(0)}
    if not there:
        return Said("no_time", {})
    name = wanted.metric or (_STEP if _STEP in there else next(iter(there)) if len(there) == 1 else "")
    if name not in there:
        raise IngestError("bisect", Message("name_a_metric", {"known": ", ".join(sorted(there))}))
    each = there[name]
    tick = tick_of([*each.base.values(), *each.head.values()]) if each.like.unit else 0.0
    return _Trial(name, tuple(each.logs(0)), tick, each.like.better == "higher", rounds)


def _label(task: Job | Workload, good: str, commit: Commit) -> str:
    """The same for the same commits, task and host: what was measured then holds."""
    asked = msgspec.json.encode((task, platform.node()))
    return f"{commits.short(good)}-{commit.short}-{hashlib.sha256(asked).hexdigest()[:8]}"
