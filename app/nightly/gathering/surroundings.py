"""What the configuration says about the machine and the software: a word, or a command whose answer is the word."""

from __future__ import annotations

import platform
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from npulens.app.nightly.config import Config

_PATIENCE = 60


def conditions(config: Config, base: Path) -> dict[str, str]:
    """Every condition of tonight by name; those of [machine] carry that in their name."""
    found = {"host": platform.node()}
    found |= {f"machine.{name}": text for name, text in _answers(config.machine, base).items()}
    return found | _answers(config.software, base)


def _answers(wanted: Mapping[str, str], base: Path) -> dict[str, str]:
    return {name: _answer(text[1:], base) if text.startswith("!") else text for name, text in wanted.items()}


def _answer(command: str, base: Path) -> str:
    """The first line a command prints; why there is none is an answer too."""
    try:
        done = subprocess.run(shlex.split(command), cwd=base, capture_output=True, timeout=_PATIENCE)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"({type(error).__name__})"
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:200] if lines and done.returncode == 0 else f"(status {done.returncode})"
