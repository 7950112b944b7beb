"""The collectors at work: a process of their own, because they import torch and this one never does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, verbatim

#: Run as a folder: the interpreter may be one without npulens.
COLLECTORS = Path(__file__).resolve().parent.parent / "collectors"
#: A shell's statuses of what could not be started lie above this.
_NOT_STARTED = 125
#: What people, schedulers and servers send to a job (collectors/child.py).
_PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


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
    return _checked(answer, child.returncode)


def run_job(arguments: list[str], quiet_out: bool, verb: str = "own") -> dict[str, Any]:
    """What the collectors answer about a job of its owner's, which keeps this process's channels and signals.

    With ``quiet_out`` what the job prints goes to stderr. A job that cannot start, or a signal before it could, ends
    this process with the status that a shell would give.
    """
    read, write = os.pipe()
    command = [sys.executable, str(COLLECTORS), verb, "--answer-to", str(write), *arguments]
    out = sys.stderr.fileno() if quiet_out else None
    sys.stdout.flush()
    with open(read, encoding="utf-8") as channel:
        os.set_inheritable(write, True)
        with subprocess.Popen(command, stdout=out, close_fds=False) as child, _signals_to(child):
            os.close(write)
            told = channel.read()
            child.wait()
    answer = json.loads(told) if told else {}
    if "error" in answer and child.returncode > _NOT_STARTED:
        click.echo(f"npulens: {answer['error']['message']}", err=True)
        sys.exit(child.returncode)
    if not answer and child.returncode < 0:
        sys.exit(128 - child.returncode)
    return _checked(answer, child.returncode)


@contextmanager
def _signals_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """What is sent to this process reaches the child. What this one ignores (nohup) a job may still listen to."""

    def pass_on(number: int, _: object) -> None:
        child.send_signal(number)

    kept = {each: signal.signal(each, pass_on) for each in _PASSED}
    try:
        yield
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


def _checked(answer: dict[str, Any], status: int) -> dict[str, Any]:
    if "error" in answer:
        raise IngestError(answer["error"]["kind"], verbatim(answer["error"]["message"]))
    if "status" not in answer:
        raise IngestError("failed", Message("collector_ended_with_status", {"status": status}))
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
