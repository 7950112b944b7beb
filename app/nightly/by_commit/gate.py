"""A gate for a change that is not merged yet: every job of base against head.

They run in turns, as a night without a history.

It enters no history and opens no regression: what is not merged is nobody's baseline. All tasks together raise a false
alarm in at most 1 % of the gates. So each has its share of what a task of a night may raise
(analysis/regression/looks.py).

A gate that was killed goes on where it stopped, if commits, jobs and host are the same. One that is done is forgotten,
so that starting it again measures afresh.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from npulens.app.nightly import dating, lock, place, steps
from npulens.app.nightly.by_commit import commits
from npulens.app.nightly.config import Config, Job, Watch
from npulens.app.nightly.dating import Which
from npulens.app.nightly.gathering.gather import Tell
from npulens.app.nightly.night import Night
from npulens.app.nightly.repository import sha
from npulens.app.nightly.work import Work, done
from npulens.app.nightly.written import leave
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

#: Below the nights of the configuration, where no night is looked for.
_HOME = ".gates"
#: A gate that nobody went on with for so long is forgotten.
_FORGOTTEN_S = 7 * 86_400


@dataclass(frozen=True)
class Gate:
    """What is compared: the jobs with both commits as their sides, and the tasks that cannot take them."""

    config: Config
    base: str  # the last commit that the asked base and head have in common
    head: str
    left_out: tuple[str, ...]

    @property
    def label(self) -> str:
        """The same for the same commits, jobs and host, so that a killed gate finds what it had measured."""
        asked = msgspec.json.encode((self.config.job, platform.node()))
        return f"{commits.short(self.base)}-{commits.short(self.head)}-{hashlib.sha256(asked).hexdigest()[:8]}"


def prepared(config: Config, path: Path, base: str, head: str) -> Gate:
    """The gate of two commits over every job whose repository has both."""
    jobs: list[Job] = []
    left_out: list[str] = []
    pairs = set()
    for task in config.tasks:
        directory = path.parent / ("" if isinstance(task, Watch) else task.directory)
        both = [sha(directory, name) for name in (base, head)]
        if not isinstance(task, Job) or both[0] is None or both[1] is None:
            left_out.append(task.title)
            continue
        pair = (commits.fork(directory, both[0], both[1]), both[1])
        pairs.add(pair)
        sided = commits.sided(task, *pair, config.night.rounds)
        assert isinstance(sided, Job)
        jobs.append(sided)
    if not jobs:
        raise IngestError("gate", Message("no_job_takes_commits", {"base": repr(base), "head": repr(head)}), str(path))
    first, last = sorted(pairs)[0]
    if first == last:
        values = {"base": commits.short(first), "head": commits.short(last)}
        raise IngestError("gate", Message("nothing_between", values), str(path))
    alone = replace(config, workload=(), watch=(), job=tuple(jobs))
    return Gate(alone, first, last, tuple(left_out))


@contextmanager
def measured(gate: Gate, path: Path, store: Path, tell: Tell) -> Iterator[Night]:
    """The gate as a night of its own; what it measured is kept until its reports are written."""
    home = place.home(store, gate.config.night.name) / _HOME
    with lock.held(home, gate.label, f"{datetime.now():%Y-%m-%d %H:%M:%S}"):
        _forget(home)
        state = "resumed" if (home / gate.label).is_dir() else "new"
        which = Which(gate.label, time.time_ns(), state, ())
        facts = dating.begin(home / gate.label, which, len(steps.planned(gate.config, gate.label)))
        work = Work(gate.config, path, store, home, which, facts, tell, history=False, among=len(gate.config.job))
        night = done(work)
        yield leave.redacted(night) if gate.config.night.redact else night
        if not work.full:
            shutil.rmtree(work.folder, ignore_errors=True)


def _forget(home: Path) -> None:
    for label in place.labels(home):
        if time.time() - (home / label).stat().st_mtime > _FORGOTTEN_S:
            shutil.rmtree(home / label, ignore_errors=True)
