"""How each kind of task is measured: the numbers of one session, or a sentence that says why there are none."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from npulens import ingest
from npulens.app.nightly.config import Job, Workload, seconds
from npulens.app.nightly.gathering import process, results
from npulens.app.nightly.gathering.results import Result, Value
from npulens.app.nightly.gathering.runs import of_run
from npulens.app.nightly.night import Said, because
from npulens.app.nightly.repository import sha, tree
from npulens.app.nightly.steps import Step
from npulens.app.run_collectors import COLLECTORS
from npulens.ingest.store.history import AA


class Failed(Exception):
    """A step without a result, and why."""

    def __init__(self, said: Said) -> None:
        super().__init__(said.key)
        self.said = said


@dataclass(frozen=True)
class Session:
    """Where one step works, and how long it may."""

    step: Step
    store: Path
    folder: Path  # of the night
    base: Path  # what paths of the configuration are relative to
    limit_s: float
    mark: str
    notices: list[Said] = field(default_factory=list)

    @property
    def place(self) -> Path:
        """What this step leaves."""
        return self.folder / "steps" / self.step.name


def measured(session: Session) -> Result:
    """One session of a workload or a job."""
    task, side = session.step.task, session.step.of
    assert isinstance(task, Workload | Job)
    directory = session.base / task.directory
    commit = sha(directory)
    if side.commit:
        commit, directory = tree(directory, side.commit, session.folder / "trees")
    session.place.mkdir(parents=True, exist_ok=True)
    python = side.python or sys.executable
    if isinstance(task, Workload):
        found = _workload(session, task, python, directory)
    else:
        ways = {"profile": _profile, "capture": _capture, "result": _result, "time": _time}
        found = ways[task.measure](session, task, python, directory)
    if all(name.endswith(AA) for name in found.metrics):  # how noisy it is, and nothing that was measured
        raise Failed(because("no_numbers", found.why))
    covariates = {**({"commit": commit} if commit else {}), **found.covariates}
    covariates |= {"python": side.python} if side.python else {}
    return _with(found, covariates | dict(side.env))


def _with(found: Result, covariates: dict[str, str]) -> Result:
    return Result(
        found.metrics, found.hardware, found.host, found.shapes, found.configuration, covariates, found.run_id,
        found.usable, found.reason, found.said,
    )  # fmt: skip


def _workload(session: Session, task: Workload, python: str, directory: Path) -> Result:
    out = session.place / "capture"
    verb = "bench" if task.measure == "bench" else "workload"
    command = [python, str(COLLECTORS), verb, task.run, "-o", str(out), *task.options]
    paths = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH", "")]))
    _ran(session, command, task.timeout, None, {"PYTHONPATH": paths} if session.step.of.commit else None)
    return loaded(session, out)


def _profile(session: Session, task: Job, python: str, directory: Path) -> Result:
    out = session.place / "capture"
    own = [python, str(COLLECTORS), "own", "-o", str(out), *task.options, "--"]
    _ran(session, [*own, *_command(task, python)], task.timeout, directory)
    told = json.loads((out / "manifest.json").read_text("utf-8"))
    if told["status"] == "failed":  # the status of the process is the job's
        raise Failed(because("broken", told["reason"]))
    return loaded(session, out)


def _capture(session: Session, task: Job, python: str, directory: Path) -> Result:
    out = session.place / "capture"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    _ran(session, _command(task, python), task.timeout, directory, {results.CAPTURE: str(out)})
    return loaded(session, out)


def _result(session: Session, task: Job, python: str, directory: Path) -> Result:
    written = session.place / "result.json"
    written.unlink(missing_ok=True)
    _ran(session, _command(task, python), task.timeout, directory, {results.RESULT: str(written)})
    return results.written(written)


def _time(session: Session, task: Job, python: str, directory: Path) -> Result:
    ended = _ran(session, _command(task, python), task.timeout, directory)
    return Result({"wall": Value(ended.seconds * 1e9, "ns")})


def _command(task: Job, python: str) -> list[str]:
    return [word.replace("{python}", python) for word in task.command]


def _ran(
    session: Session, command: list[str], timeout: str, directory: Path | None, env: Mapping[str, str] | None = None
) -> process.Ended:
    """A command that ended well; else why not."""
    limit = min(seconds(timeout), session.limit_s)
    env = {**session.step.of.env, "NPULENS_SIDE": session.step.side, **(env or {})}
    ended = process.run(command, session.place / "log.txt", limit, session.mark, env, directory)
    if ended.status is None:
        raise Failed(Said("cut" if limit < seconds(timeout) else "too_long", {"limit": f"{limit:.0f} s"}))
    if ended.status:
        raise Failed(Said("ended", {"status": ended.status, "tail": ended.tail or "-"}))
    return ended


def loaded(session: Session, capture: Path) -> Result:
    """The numbers of the one run that a capture holds."""
    report = ingest.load(capture, session.store)
    kept = [run.run_id for run in report.runs if run.run_id is not None]
    if not kept:
        raise Failed(because("refused", report.runs[0].reason if report.runs else None))
    found = of_run(session.store, kept[0])
    if not found.usable:
        session.notices.append(because("lost_partial", found.why, {"run": session.step.name}))
    return found
