"""The collectors at work: a process of their own, because they import torch and this one never does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, verbatim

#: Run as a folder: the interpreter may be one without npulens.
COLLECTORS = Path(__file__).resolve().parent.parent / "collectors"


def ask(arguments: list[str], quiet_out: bool = True, python: Path | None = None) -> dict[str, Any]:
    """What the collectors answer. What they or a job print goes through: to stderr, or to stdout without ``quiet_out``.

    ``python`` is another interpreter than this one: that of the jobs, where torch is.
    An interrupt reaches the child as well, which ends in its own way; this process waits for its answer.
    """
    answer: dict[str, Any] = {}
    command = [str(python or sys.executable), str(COLLECTORS), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = iter(child.stdout)
        while True:
            try:
                line = next(lines, None)
                if line is None:
                    break
                if found := _answer(line):
                    answer = found
                else:
                    click.echo(line, nl=False, err=quiet_out)
            except KeyboardInterrupt:
                continue
    if "error" in answer:
        raise IngestError(answer["error"]["kind"], verbatim(answer["error"]["message"]))
    if "status" not in answer:
        raise IngestError("failed", Message("collector_ended_with_status", {"status": child.returncode}))
    return answer


def _answer(line: bytes) -> dict[str, Any]:
    """The answer in a line; nothing where the line is the job's own and only looks like one."""
    if not line.startswith(b'{"'):
        return {}
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
