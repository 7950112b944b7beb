"""``npulens collect -- python train.py``: somebody's job, unchanged, with a profiler around some of its steps.

The job runs as it was written, with one more directory on PYTHONPATH: Python itself then imports
collectors/inject/sitecustomize.py in every process of it, launchers and ranks alike.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from npulens.collectors import child
from npulens.collectors.collected import Collected, collected
from npulens.collectors.session import Session
from npulens.collectors.settings import Settings
from npulens.collectors.steps.stepping import VARIABLE

_HERE = Path(__file__).resolve().parent
#: The file that begins the recording of a job that was started with ``--armed``.
TRIGGER = ".begin"


def run(
    command: Sequence[str], directory: Path, backend: str, settings: Settings, by: str = "auto", armed: bool = False,
    parent: int | None = None,
) -> tuple[Collected, int]:  # fmt: skip
    """Runs the command to its end; what it left, and its exit status. What a job leaves that fails at once is nothing.

    ``parent`` is the process that passes its signals on to this one (child.py).
    """
    made = _made(directory)
    trigger = directory / TRIGGER
    trigger.unlink(missing_ok=True)
    session = Session(directory, time.time_ns())
    told = {**_told(directory, backend, settings, by, armed), "session": session.name, "since_ns": session.since_ns}
    try:
        status = child.run(list(command), {**os.environ, **_variables(os.environ, told)}, parent)
    except child.CannotStart:
        session.end()
        _remove(made)
        raise
    processes, others = session.end()
    found = collected(
        directory, backend, settings.active, session.since_ns, deferred=settings.defer, processes=processes,
        others=others,
    )  # fmt: skip
    if status and not found.traces and not found.processes and not others:
        trigger.unlink(missing_ok=True)
        _remove(made)
    return found, status


def environment(
    directory: Path, backend: str, settings: Settings, by: str = "auto", armed: bool = False
) -> dict[str, str]:
    """The variables that switch recording on in any process that Python starts with them.

    For processes that are nobody's children here: actors of Ray, containers, services. The directory has to be there.
    """
    _made(directory)
    (directory / TRIGGER).unlink(missing_ok=True)
    return _variables(os.environ, _told(directory, backend, settings, by, armed))


def _told(directory: Path, backend: str, settings: Settings, by: str, armed: bool) -> dict[str, object]:
    home = directory.resolve()
    trigger = str(home / TRIGGER) if armed else None
    return {"directory": str(home), "settings": asdict(settings), "backend": backend, "by": by, "trigger": trigger}


def _made(directory: Path) -> list[Path]:
    """Makes a directory; which of it and those above were not there, the innermost first."""
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    return missing


def _remove(made: Sequence[Path]) -> None:
    """Removes the directories that are still empty."""
    for place in made:
        try:
            place.rmdir()
        except OSError:  # somebody has put something into it
            return


def _variables(current: Mapping[str, str], told: Mapping[str, object]) -> dict[str, str]:
    """The injected directory in front of the job's own path, and what to record. Nothing else of ours gets there."""
    places = [str(_HERE / "inject"), current.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, places)), VARIABLE: json.dumps(told)}


def begin(directory: Path) -> None:
    """Begins the recording of a job that runs already and was started armed."""
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} is no directory of an armed job")
    (directory / TRIGGER).touch()
