"""Runs the sixty nights of a simulated lab and compares what was said with what was done to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from npulens.app.cli import main
from npulens.app.nightly import kept
from npulens.app.nightly.night import Night
from tests.nights import world
from tests.nights.world import World


@dataclass(frozen=True)
class Call:
    """A night that said something of a task, and the night it dated the change to."""

    night: int
    task: str
    word: str
    since: str


def run(folder: Path, seed: int = 7, captures: bool = True, pairs: bool = True, rounds: int = 10) -> Path:
    """Sixty nights through the command; the store they are in.

    A store on a disk of its own, which root can make, is full for one night: the same date goes on afterwards.
    """
    lab, store = World(folder / "lab", seed, captures, pairs, rounds), folder / "store"
    store.mkdir()
    own_disk = os.geteuid() == 0 and not subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "none", store],
                                                        capture_output=True).returncode  # fmt: skip
    try:
        for number in range(world.NIGHTS):
            lab.night(number)
            command = ["nightly", str(lab.folder / "nightly.toml"), "--night", world.label(number), "--store",
                       str(store)]  # fmt: skip
            if number == world.KILLED:
                _killed(command, store, number)
            elif number == world.FULL and own_disk:
                _full(command, store)
            else:
                _done(command)
        shutil.copytree(store, folder / "kept")
    finally:
        if own_disk:
            subprocess.run(["umount", "-l", store], check=True)
    return folder / "kept"


def _done(command: list[str]) -> int:
    """One night; its exit status."""
    done = CliRunner().invoke(main, command)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code


def _full(command: list[str], store: Path) -> None:
    """A night for which the store's disk has no room; with room again, the same date."""
    ballast = store / "ballast"
    with ballast.open("wb", buffering=0) as stream, suppress(OSError):
        while stream.write(b"\0" * 4096):
            pass
    status = _done(command)
    ballast.unlink()
    if status != 2:
        raise AssertionError(f"a night on a full disk ended with {status}")
    _done(command)


def _killed(command: list[str], store: Path, number: int) -> None:
    """A night that is ended with kill -9 after its second step."""
    process = subprocess.Popen([sys.executable, "-m", "npulens.app.cli", *command], cwd=world.ROOT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    path = store / ".nights" / "lab" / world.label(number) / "journal.jsonl"
    while process.poll() is None:
        if path.is_file() and sum('"what": "step"' in line for line in path.read_text().splitlines()) >= 2:
            os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.002)
    process.wait()


def calls(store: Path) -> list[Call]:
    """What the nights said: each change once, on the first night that said it."""
    labels = {world.label(number): number for number in range(world.NIGHTS)}
    found: dict[tuple[str, str, str], Call] = {}
    for label, night in kept.nights(store, "lab").items():
        for word in ("regressed", "improved", "machine"):
            for row in night.of(word) if night else ():
                since = row.since or label
                found.setdefault((row.task, word, since), Call(labels[label], row.task, word, since))
    return list(found.values())


def outcomes(store: Path) -> dict[str, str]:
    """The word of every night that began."""
    return {label: night.outcome if night else "missing" for label, night in kept.nights(store, "lab").items()}


def expected(captures: bool, pairs: bool) -> list[tuple[str, str, int]]:
    """(task, word, night) of everything that was done to the tasks that are measured."""
    here = {task for task in (*world.JOBS, "llama") if {"llama": captures, "matmul": pairs}.get(task, True)}
    done = [(p.task, p.word, p.night) for p in world.PLANTED if p.task in here]
    return done + [(task, "machine", world.DRIVER_NIGHT) for task in sorted(here)]


def compared(found: list[Call], wanted: list[tuple[str, str, int]], within: int = 1) -> tuple[list[str], list[Call]]:
    """What was done and not said (or not dated within so many nights), and what was said and not done."""
    labels = {world.label(number): number for number in range(world.NIGHTS)}
    missed, left = [], list(found)
    for task, word, night in wanted:
        mine = [call for call in left if call.task == task and call.word == word
                and abs(labels[call.since] - night) <= within]  # fmt: skip
        missed += [] if mine else [f"{task} {word} on night {night}"]
        left = [call for call in left if call not in mine]
    return missed, left


def notices(store: Path, label: str) -> list[str]:
    night: Night | None = kept.nights(store, "lab")[label]
    return [said.key for said in night.notices] if night else []


def table(store: Path) -> str:
    """Every call on a line."""
    lines = [f"{call.task:10} {call.word:10} dated {call.since}, said on night {call.night} ({world.label(call.night)})"
             for call in calls(store)]  # fmt: skip
    words = outcomes(store)
    return "\n".join([*lines, json.dumps({word: list(words.values()).count(word) for word in set(words.values())})])
