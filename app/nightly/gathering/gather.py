"""The night's work: every step that has no result yet, until all are done or the budget is spent."""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npulens.app.nightly import place
from npulens.app.nightly.config import Config, Watch, seconds
from npulens.app.nightly.gathering import folder as watched
from npulens.app.nightly.gathering import measure, process, results
from npulens.app.nightly.gathering.measure import Failed, Session
from npulens.app.nightly.gathering.results import Result
from npulens.app.nightly.journal import Journal
from npulens.app.nightly.night import Said, Status, Task, because
from npulens.app.nightly.steps import Step
from npulens.ingest.errors import IngestError

#: With less room than this a step that failed is not the step's fault.
_LEAST_ROOM = 1 << 16
#: Letters of a value that the journal keeps, and of a reason as data, of which a part would say nothing.
_MOST_TEXT, _MOST_DATA = 500, 4000
#: A task whose first sessions all fail is not tried any longer tonight.
PATIENCE = 2

Tell = Callable[[Step, int, int], None]


@dataclass
class Gather:
    """Works through steps; everything it learns is in the journal before it goes on."""

    config: Config
    base: Path
    store: Path
    home: Path
    folder: Path
    facts: Journal
    tell: Tell
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    notices: list[Said] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _retried: set[str] = field(default_factory=set)  # failed before the night was interrupted: they may try again

    def __post_init__(self) -> None:
        self._before = max((float(fact.get("spent_s", 0)) for fact in self.facts.facts), default=0.0)

    @property
    def spent_s(self) -> float:
        """What the night has taken so far, before it was killed included."""
        return self._before + time.monotonic() - self._began

    @property
    def left_s(self) -> float:
        return seconds(self.config.night.budget) - self.spent_s

    def resume(self) -> None:
        """Ends what a killed night left running, and says which steps are done again."""
        again = self.facts.interrupted()
        self._retried = {step for step, fact in self.facts.done().items() if not fact["ok"]}
        ended = sum(process.leftovers(str(fact["mark"])) for fact in self.facts.of("begin") if fact["step"] in again)
        for step in again:
            shutil.rmtree(self.folder / "steps" / step, ignore_errors=True)
        if again or self.facts.facts[1:]:
            values = {"done": len(self.facts.done()), "again": ", ".join(again) or "-", "ended": ended}
            self.notices.append(Said("resumed", values))

    def work(self, steps: list[Step]) -> None:
        """Does what is to be done. OSError where the disk takes no more: what was done is in the journal."""
        for number, step in enumerate(steps):
            if (step.name in self.facts.done() and step.name not in self._retried) or self._given_up(step):
                continue
            if self.left_s <= 0:
                return
            self.tell(step, number, len(steps))
            self.facts.add(self._fact("begin", step) | {"mark": self.mark}, safe=False)
            began = time.monotonic()
            told = self._one(step)
            self._room(told)
            self.facts.add(self._fact("step", step) | told | {"seconds": round(time.monotonic() - began, 3)})
            self._retried.discard(step.name)

    def _room(self, told: dict[str, Any]) -> None:
        if not told["ok"] and shutil.disk_usage(self.folder).free < _LEAST_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _fact(self, what: str, step: Step) -> dict[str, Any]:
        return {"what": what, "step": step.name, "clock_ns": time.time_ns(), "spent_s": round(self.spent_s, 3)}

    def _one(self, step: Step) -> dict[str, Any]:
        session = Session(step, self.store, self.folder, self.base, self.left_s, self.mark)
        try:
            if isinstance(step.task, Watch):
                found, read = watched.new(session, watched.remembered(self.home))
            else:
                found, read = [measure.measured(session)], {}
        except Failed as failure:
            return {"ok": False, "reason": _plain(failure.said)}
        except (IngestError, ValueError, OSError) as error:
            if place.is_full(error):
                raise OSError(errno.ENOSPC, str(error)) from error
            return {"ok": False, "reason": _plain(because("broken", error))}
        return {
            "ok": True, "results": [results.as_fact(each) for each in found], "read": read,
            "notices": [_plain(said) for said in session.notices],
        }  # fmt: skip

    def _given_up(self, step: Step) -> bool:
        told = [
            fact["ok"] for name, fact in self.facts.done().items()
            if name.startswith(f"{step.task.title}/") and name not in self._retried
        ]  # fmt: skip
        return len(told) >= PATIENCE and not any(told)


def _plain(said: Said) -> dict[str, Any]:
    return {"key": said.key, "values": {name: _text(name, value) for name, value in said.values.items()}}


def _text(name: str, value: object) -> object:
    return value if isinstance(value, int | float) else str(value)[: _MOST_DATA if name == "said" else _MOST_TEXT]


def sessions(facts: Journal, task: str, side: str) -> dict[int, list[Result]]:
    """The results of one side of a task by round."""
    found: dict[int, list[Result]] = {}
    for name, fact in facts.done().items():
        title, turn, which = name.rsplit("/", 2)
        if title == task and which == side and fact["ok"]:
            found[int(turn)] = [results.from_fact(each) for each in fact["results"]]
    return found


def tasks(config: Config, facts: Journal, steps: list[Step], cut: Said | None) -> tuple[Task, ...]:
    """What became of every task; ``cut`` says why steps were not reached, where some were not."""
    told = []
    for task in config.tasks:
        mine = [step.name for step in steps if step.task is task]
        facts_of = [facts.done()[name] for name in mine if name in facts.done()]
        done = sum(fact["ok"] for fact in facts_of)
        wrong = next((Said(**fact["reason"]) for fact in facts_of if not fact["ok"]), None)
        status: Status = "done" if done == len(mine) else "part" if done else "failed" if wrong else "unreached"
        spent = sum(float(fact["seconds"]) for fact in facts_of)
        kind = type(task).__name__.lower()
        if status == "done" and not any(fact["results"] for fact in facts_of):
            status, wrong = "unmeasured", Said("nothing_new")
        why = None if status == "done" else wrong or cut
        told.append(Task(task.title, kind, status, done, len(mine), round(spent, 3), why))
    return tuple(told)
