"""A watched folder: every capture in it that the nights before have not seen."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from npulens import ingest
from npulens.app.nightly import place
from npulens.app.nightly.config import Watch
from npulens.app.nightly.gathering.measure import Failed, Session
from npulens.app.nightly.gathering.results import Result
from npulens.app.nightly.gathering.runs import of_run
from npulens.app.nightly.night import Said, because
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import settled

NAME = "seen.json"
#: Failures of the machine rather than of the capture: the next night tries again.
_PASSING = ("crashed", "system", "store", "defect", "disk_full")


def new(session: Session, seen: Mapping[str, str]) -> tuple[list[Result], dict[str, str]]:
    """What the new captures measured, and what every capture looked like when it was read."""
    task = session.step.task
    assert isinstance(task, Watch)
    watched = session.base / task.path
    if not watched.is_dir():
        raise Failed(Said("no_folder", {"path": watched}))
    found: list[Result] = []
    read: dict[str, str] = {}
    for path, print_ in _settled(session, task, watched).items():
        if seen.get(str(path)) == print_:
            continue
        try:
            report = ingest.load(path, session.store, called=path.name)
        except IngestError as error:
            if place.is_full(error):
                raise
            session.notices.append(because("lost_capture", error, {"path": path.name}))
            continue
        kinds = [str((run.error or {}).get("kind")) for run in report.runs if run.run_id is None]
        if "disk_full" in kinds:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if not any(kind in _PASSING for kind in kinds):
            read[str(path)] = print_
        for run in report.runs:
            if run.run_id is None:
                session.notices.append(because("lost_capture", run.reason, {"path": path.name}))
            else:
                found.append(of_run(session.store, run.run_id))
                if not found[-1].metrics:
                    session.notices.append(Said("lost_numbers", {"path": path.name}))
                if not found[-1].usable:
                    session.notices.append(because("lost_partial", found[-1].why, {"run": path.name}))
    return found, read


def _settled(session: Session, task: Watch, watched: Path) -> dict[Path, str]:
    """Every entry that has stopped changing, and how it looks; what has not by the time limit is left for later."""
    deadline = time.monotonic() + session.limit_s
    looks: dict[Path, tuple[str | None, float]] = {}
    while True:
        entries = [entry for entry in sorted(watched.iterdir()) if settled.candidate(entry)]
        now = time.monotonic()
        for entry in entries:
            look = settled.look(entry).print
            if entry not in looks or looks[entry][0] != look:
                looks[entry] = (look, now)
        young = [
            entry for entry in entries
            if looks[entry][0] is None or now - looks[entry][1] < task.settle or settled.being_written(entry)
        ]  # fmt: skip
        if not young or now >= deadline:
            session.notices.extend(Said("lost_growing", {"path": entry.name}) for entry in young)
            return {entry: str(looks[entry][0]) for entry in entries if entry not in young}
        time.sleep(min(2.0, max(0.05, task.settle / 4)))


def remembered(home: Path) -> dict[str, str]:
    """What the nights before have read."""
    try:
        return {str(path): str(look) for path, look in json.loads((home / NAME).read_text("utf-8")).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def remember(home: Path, read: Mapping[str, str]) -> None:
    """Keeps what tonight has read, once its results are in the history."""
    if read:
        place.write(home / NAME, json.dumps({**remembered(home), **read}, indent=1))
