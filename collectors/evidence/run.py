"""Every part of the evidence within a budget of minutes, each in a process of its own.

A part that fails, does not exist here or has no time left is written down with its reason. The rest goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npulens.collectors.backends.probe import Choice, choose
from npulens.collectors.evidence import drawn, ranks
from npulens.collectors.evidence.parts import FAILURES, ORDER, first_line
from npulens.collectors.workloads.workload import NotHere

#: Less than this is no time for a part: torch alone takes seconds to start.
LEAST_S = 8.0
#: Every value of every case is worth half of what time is left; the recordings after it have the rest.
_SHARE = {"numerics": 0.5}


def run(
    home: Path, requested: str | None, minutes: float, world: int, challenge: str | None, only: Sequence[str] = ()
) -> dict[str, Any]:  # fmt: skip
    """Leaves the evidence in a directory; what the manifest will say of it."""
    if not 0 < minutes <= 240 or not 2 <= world <= 64:
        raise ValueError("evidence takes up to 240 minutes and 2 to 64 ranks")
    word, choice = drawn.word(challenge), choose(requested)
    home.mkdir(parents=True, exist_ok=True)
    begun, until = _now(), time.monotonic() + 60 * minutes
    parts: list[dict[str, Any]] = []
    recorded: list[list[str]] = []
    for part in ORDER:
        if only and part not in only:
            parts.append({"part": part, "outcome": "left out", "reason": "it was not asked for", "seconds": 0.0})
            continue
        left = (until - time.monotonic()) * _SHARE.get(part, 1.0)
        print(f"npulens: {part}", file=sys.stderr, flush=True)
        parts.append(_part(part, home, choice, word, world, left))
        _tidy(home, part, parts[-1]["outcome"] == "run")
        known = {name for name, _ in recorded}
        recorded += [[name, part] for name in recordings(home) if name not in known]
    return {
        "challenge": word, "challenge_given": challenge is not None, "backend": choice.actual,
        "device": choice.capability.device, "count": choice.capability.count,
        "versions": dict(choice.capability.versions or {}), "stub": any(each.stub for each in choice.tried),
        "tried": [asdict(each) for each in choice.tried], "begun": begun, "ended": _now(), "minutes": minutes,
        "parts": parts, "recordings": recorded,
    }  # fmt: skip


def recordings(home: Path) -> list[str]:
    """The names of all recordings, in the order in which they began."""
    found: dict[str, int] = {}
    for path in (home / "recordings").glob("*/truth*.json"):
        begun = json.loads(path.read_text(encoding="utf-8"))["begun"]["wall_ns"]
        found[path.parent.name] = min(begun, found.get(path.parent.name, begun))
    return sorted(found, key=lambda name: found[name])


def _tidy(home: Path, part: str, whole: bool) -> None:
    """Removes what a part began to record when it failed or its time was over; of ranks none is whole alone."""
    for place in (home / "recordings").glob("*"):
        if not list(place.glob("truth*.json")) or (place.name == part and not whole):
            shutil.rmtree(place, ignore_errors=True)


def _part(part: str, home: Path, choice: Choice, word: str, world: int, left_s: float) -> dict[str, Any]:
    """One part in its process; how it ended."""
    begun = time.monotonic()
    outcome: str = "run"
    reason: str | None = None
    left_out: list[str] = []
    try:
        if left_s < LEAST_S:
            raise subprocess.TimeoutExpired(part, left_s)
        arguments = ["-o", str(home), "--backend", choice.actual, "--challenge", word]
        if part == "ranks":
            command = [*program(), "evidence-rank", *arguments]
            ranks.started(home / "recordings" / part, choice.actual, choice.capability.count, world, command, left_s)
        else:
            outcome, reason, left_out = _child([*program(), "evidence-part", part, *arguments], left_s)
    except subprocess.TimeoutExpired:
        outcome, reason = "no time", f"{max(0.0, left_s):.0f} s were left for it"
    except NotHere as error:
        outcome, reason = "not here", first_line(error)
    except FAILURES as error:
        outcome, reason = "failed", first_line(error)
    seconds = round(time.monotonic() - begun, 1)
    return {"part": part, "outcome": outcome, "reason": reason, "left_out": left_out, "seconds": seconds}


def _child(command: list[str], left_s: float) -> tuple[str, str | None, list[str]]:
    """What a part answers. One that takes too long is ended with all that it has started."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            out, _ = child.communicate(timeout=left_s)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    lines = [line for line in out.splitlines() if line.startswith('{"part"')]
    if not lines:
        raise RuntimeError(f"the process ended with {child.returncode}")
    told = json.loads(lines[-1])
    return told["outcome"], told["reason"], told["left_out"]


def program() -> list[str]:
    """How this program is started again: as the folder that it is, or as the one file that holds it."""
    here = Path(__file__).resolve().parents[1]
    return [sys.executable, str(here if here.is_dir() else next(each for each in here.parents if each.exists()))]


def _now() -> dict[str, int]:
    return {"wall_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
