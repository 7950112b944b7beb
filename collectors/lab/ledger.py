"""The ledger: what was predicted of each trial and what was measured, a line each, in one file of the user's.

It lies beside the store, not in the cache: nobody can measure yesterday again. Lines are only ever added, each with one
write under a lock, so that trials at the same time lose none. ``NPULENS_LEDGER`` names another file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.collectors.lab.subject import PROGRAM
from npulens.collectors.telemetry.processor import Processor

FORMAT = 1
#: What is claimed, and what it would be by classes.
WAYS = ("predicted", "by_class")
#: A prediction is near where it is off by no more than this.
NEAR = 0.25


def path() -> Path:
    """Where it lies."""
    told = os.environ.get("NPULENS_LEDGER")
    if told:
        return Path(told)
    home = os.environ.get("XDG_DATA_HOME")
    if home:
        return Path(home) / "npulens" / "ledger.jsonl"
    return Path.home() / ("Library/Application Support" if sys.platform == "darwin" else ".local/share") / (
        "npulens/ledger.jsonl"
    )  # fmt: skip


def subject_hash(place: Path) -> str:
    """What a subject's program and weights are, in sixteen digits."""
    digest = hashlib.sha256()
    with open(place, "rb") as program:
        while part := program.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()[:16]


def entry(subject: str, about: Mapping[str, Any], trial: Mapping[str, Any]) -> dict[str, Any] | None:
    """One line; None where a trial was not timed, because there is nothing to compare."""
    speed, said = trial.get("speed"), trial.get("predicted")
    if speed is None or said is None:
        return None
    guess, clock = said["guess"], said.get("clock")
    ratio, low, high = speed["by_clock"].get(clock) or (speed["ratio"], speed["low"], speed["high"])
    return {
        "format": FORMAT, "at": about["made_at"], "subject": subject, "module": about["module"],
        "rewrite": trial["rewrite"], "verdict": trial["verdict"], "clock": clock or speed["clock"],
        "predicted": guess, "claimed": said["claimed"], "by_class": said.get("by_class"), "why": said["why"],
        "ratio": ratio, "low": low, "high": high,
        "device": about["device"], "machine": Processor().name(),
        "torch": about["environment"].get("versions", {}).get("torch"),
    }  # fmt: skip


def add(line: Mapping[str, Any], where: Path) -> None:
    """Adds a line. Where it cannot be written the trial goes on without it, and says so."""
    data = (json.dumps(line) + "\n").encode()
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        with open(where, "ab", buffering=0) as file:
            _lock(file.fileno())
            if file.tell() and not _whole(where):  # a write that was cut off: its line is lost, ours is not
                data = b"\n" + data
            file.write(data)
    except OSError as error:
        print(f"npulens: the ledger {where} cannot be written: {error.strerror}", file=sys.stderr)


def _whole(where: Path) -> bool:
    with open(where, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _lock(descriptor: int) -> None:
    with contextlib.suppress(ImportError, OSError):  # no such locks on this system or this disk
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def read(where: Path) -> tuple[list[dict[str, Any]], int]:
    """All lines, and how many cannot be read."""
    found, lost = list[dict[str, Any]](), 0
    try:
        lines = where.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return [], 0
    for line in lines:
        try:
            told = json.loads(line)
        except ValueError:
            lost += bool(line.strip())
            continue
        if isinstance(told, dict) and told.get("format") == FORMAT and told.keys() >= _NEEDED:
            found.append(told)
        else:
            lost += 1
    return found, lost


_NEEDED = {
    "rewrite",
    "module",
    "subject",
    "predicted",
    "claimed",
    "ratio",
    "low",
    "high",
    "verdict",
    "machine",
    "torch",
}


class Ledger:
    """The user's ledger while one subject is tried."""

    def __init__(self, subject: Path) -> None:
        self._subject, self._hash = subject, ""

    def add(self, about: Mapping[str, Any], trial: Mapping[str, Any]) -> None:
        """The line of one trial, where it has one."""
        self._hash = self._hash or subject_hash(self._subject / PROGRAM)
        line = entry(self._hash, about, trial)
        if line is not None:
            add(line, path())


def told(where: Path) -> dict[str, Any]:
    """The ledger as an answer: its lines and both scores."""
    lines, lost = read(where)
    scores = {way: vars(score(lines, way)) for way in WAYS}
    return {"status": "read", "path": str(where), "lines": lines, "lost": lost, "scores": scores}


@dataclass(frozen=True)
class Score:
    """How well was predicted what was claimed."""

    trials: int
    predicted: int
    claimed: int
    right_sign: int
    near_time: int  # the ratio of times within 25 % of the predicted one
    near_gain: int  # the gain, 1 - ratio, within 25 % of the predicted one
    against: int = 0  # the measured interval lies on the other side of 1
    apart: int = 0  # no gain in the measured interval is within 25 % of the predicted one


def score(lines: Sequence[Mapping[str, Any]], way: str = "predicted") -> Score:
    """Of the guesses of one way of pricing."""
    guessed = [line for line in lines if line.get(way)]
    claimed = [line for line in guessed if (line["claimed"] if way == "predicted" else line[way]["claimed"])]
    pairs = [(float(line[way]["mid"]), float(line["ratio"])) for line in claimed]
    return Score(
        len(lines), len(guessed), len(claimed),
        sum((mid < 1) == (ratio < 1) for mid, ratio in pairs),
        sum(abs(ratio / mid - 1) <= NEAR for mid, ratio in pairs),
        sum(abs((1 - ratio) / (1 - mid) - 1) <= NEAR for mid, ratio in pairs),
        sum(line["low"] > 1 if line[way]["mid"] < 1 else line["high"] < 1 for line in claimed),
        sum(_apart(line, float(line[way]["mid"])) for line in claimed),
    )  # fmt: skip


def _apart(line: Mapping[str, Any], mid: float) -> bool:
    """Whether every ratio in the measured interval has a gain too far from the predicted one."""
    one, other = (1 - (1 - mid) * (1 + off) for off in (-NEAR, NEAR))
    return bool(line["low"] > max(one, other) or line["high"] < min(one, other))
