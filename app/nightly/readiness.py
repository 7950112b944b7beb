"""Whether a night can do what its configuration asks: tried before two in the morning, and in part before each night.

Two things end a night before it begins. One is a condition of the software that cannot be asked, the other a receiver
that cannot be told. Both would be found out in the morning only. Everything else costs a night a task at most, and is
tried by --check.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from npulens.app.nightly import place
from npulens.app.nightly.config import Config, Job, Notify, Side, Watch, Workload
from npulens.app.nightly.night import Said
from npulens.app.nightly.repository import sha
from npulens.app.nightly.written import figures, notify

#: Seconds a command of [machine] or [software] may take.
_PATIENCE = 60
#: With less room than this a night of captures fills the disk.
_ROOM = 1 << 30


@dataclass(frozen=True)
class Answer:
    """What a condition is tonight; ``wrong`` where the command that tells it did not."""

    text: str
    wrong: bool = False


@dataclass(frozen=True)
class Check:
    """One thing that was tried, and what is wrong with it."""

    what: Said
    wrong: Said | None = None


def conditions(config: Config, base: Path) -> dict[str, str]:
    """Every condition of tonight by name; those of [machine] carry that in their name."""
    found = {"host": platform.node()}
    found |= {f"machine.{name}": _answer(text, base).text for name, text in config.machine.items()}
    return found | {name: _answer(text, base).text for name, text in config.software.items()}


def _answer(text: str, base: Path) -> Answer:
    """A condition as it stands in the file, or the first line that its command prints."""
    if not text.startswith("!"):
        return Answer(text)
    try:
        done = subprocess.run(shlex.split(text[1:]), cwd=base, capture_output=True, timeout=_PATIENCE)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Answer(f"({type(error).__name__})", True)
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    if not lines or done.returncode:
        return Answer(f"(status {done.returncode})", True)
    return Answer(lines[0][:200])


def before(config: Config, base: Path, tells: bool) -> list[Check]:
    """What must hold before a night begins; those that do not."""
    found = [*_asked(config.software, "software", base), *(receivers(config.notify) if tells else ())]
    return [check for check in found if check.wrong]


def checks(config: Config, base: Path, store: Path) -> Iterator[Check]:
    """Everything a night needs, tried one after another."""
    yield from _asked(config.machine, "machine", base)
    yield from _asked(config.software, "software", base)
    for task in config.tasks:
        yield from _task(task, base)
    yield _folder("check_store", place.home(store, config.night.name))
    if config.night.out:
        yield _folder("check_out", base / config.night.out)
    yield _room(store)
    yield from receivers(config.notify)


def _asked(wanted: Mapping[str, str], table: str, base: Path) -> Iterator[Check]:
    for name, text in wanted.items():
        answer = _answer(text, base)
        what = Said("check_condition", {"name": f"[{table}] {name}", "answer": answer.text})
        yield Check(what, Said("no_answer", {"command": text[1:], "answer": answer.text}) if answer.wrong else None)


def receivers(settings: Notify) -> Iterator[Check]:
    """Who would be told; a URL holds secrets and is never shown."""
    for receiver, wrong in notify.receivers(settings):
        yield Check(Said("check_receiver", {"receiver": receiver}), wrong)


def _task(task: Workload | Job | Watch, base: Path) -> Iterator[Check]:
    what = Said("check_task", {"task": task.title})
    if isinstance(task, Watch):
        watched = base / task.path
        readable = watched.is_dir() and os.access(watched, os.R_OK | os.X_OK)
        yield Check(what, None if readable else Said("no_folder", {"path": watched}))
        return
    directory = base / task.directory
    if not directory.is_dir():
        yield Check(what, Said("no_folder", {"path": directory}))
        return
    wrong = next((found for side in (task.base, task.head) if side and (found := _side(side, directory))), None)
    if wrong is None and isinstance(task, Job):
        first = task.command[0]
        runs = first == "{python}" or shutil.which(first, path=None) or os.access(directory / first, os.X_OK)
        wrong = None if runs else Said("no_command", {"command": first})
    yield Check(what, wrong)


def _side(side: Side, directory: Path) -> Said | None:
    if side.commit and sha(directory, side.commit) is None:
        return Said("no_commit", {"commit": side.commit, "path": directory})
    if side.python and shutil.which(side.python) is None:
        return Said("no_command", {"command": side.python})
    return None


def _folder(key: str, folder: Path) -> Check:
    what = Said(key, {"path": folder})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check(what, Said("not_writable", {"why": error.strerror or str(error)}))
    return Check(what)


def _room(store: Path) -> Check:
    there = next((folder for folder in (store, *store.parents) if folder.is_dir()), Path("/"))
    free = shutil.disk_usage(there).free
    what = Said("check_room", {"free": figures.number(free, "bytes")})
    return Check(what, None if free >= _ROOM else Said("little_room", {"least": figures.number(_ROOM, "bytes")}))
