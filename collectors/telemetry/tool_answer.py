"""Runs a driver's command line tool and returns what it printed, or why it printed nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

PATIENCE_S = 20.0  # npu-smi takes two to three seconds for eight devices


@dataclass(frozen=True)
class ToolAnswer:
    """One call: what it printed on both channels, and its exit status; None: it did not run or did not end."""

    command: tuple[str, ...]
    text: str
    status: int | None

    @property
    def answered(self) -> bool:
        return self.status == 0


def ask(command: Sequence[str], patience_s: float = PATIENCE_S) -> ToolAnswer:
    """Runs it in the C locale. Bytes that are no UTF-8, as of a process name in GBK, are replaced."""
    told = tuple(command)
    if shutil.which(told[0]) is None:
        return ToolAnswer(told, f"{told[0]} is not on PATH", None)
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=patience_s,
            env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ToolAnswer(told, f"{' '.join(told)} did not answer within {patience_s:.0f} s", None)
    except OSError as error:
        return ToolAnswer(told, f"{told[0]} cannot be run: {error.strerror}", None)
    return ToolAnswer(told, done.stdout.decode("utf-8", "replace"), done.returncode)
