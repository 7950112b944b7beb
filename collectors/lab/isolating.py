"""Trials in a process of their own: a rewrite that ends it, or never ends, takes none of the others with it.

The worker says on a channel what it begins and what became of it. Where it dies or takes too long, the rewrite it was
at is refused, and a new worker goes on with the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from npulens.collectors.lab.trial import REFUSED, Trial

#: How long one rewrite may take with everything that is done to it, in seconds; compilers take minutes.
LIMIT = 1800.0
#: A worker that has said everything gets so long to end.
_END_S = 20.0
_TOO_LONG = "takes too long"


class Broken(ValueError):
    """The worker ended before it came to any rewrite."""


class Worker:
    """The end of the channel that the worker writes to."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        threading.Thread(target=_ends_with_its_parent, daemon=True).start()

    def say(self, kind: str, what: Any) -> None:
        """One line, whole or not at all where nobody listens any more."""
        line = memoryview((json.dumps({kind: what}) + "\n").encode())
        while line:
            line = line[os.write(self._descriptor, line) :]


def _ends_with_its_parent() -> None:
    """The parent holds the other end of stdin; it closes when the parent is gone, however that came."""
    while os.read(0, 4096):
        pass
    os._exit(1)


def supervised(
    command: Sequence[str], names: Sequence[str], limit: float, heard: Callable[[dict[str, Any], list[Any]], None]
) -> dict[str, Any]:
    """Runs ``command --try NAMES`` until every rewrite was tried; what the worker told, and all trials.

    ``heard`` gets both after every trial.
    """
    told: dict[str, Any] = {}
    trials: list[dict[str, Any]] = []
    left = list(names)
    while left:
        now, ended, before = None, "ended", len(trials)
        for kind, what in _said(command, left, limit):
            if kind in ("error", "failed"):
                return {**told, **what}
            if kind == "told":
                told = what
            elif kind == "begin":
                now = what
                print(f"npulens: {now} ...", file=sys.stderr, flush=True)
            elif kind == "trial":
                trials.append(what)
                left.remove(what["rewrite"])
                now = None
                heard(told, trials)
            elif kind == "over":
                ended = what
        if not left:
            break
        if now is None and len(trials) > before:
            continue  # it gave up by itself: what it was at had broken its device
        if now is None:
            raise Broken(f"the process of the trials {ended} before any rewrite was tried")
        trials.append(_refused(now, ended, limit))
        left.remove(now)
        heard(told, trials)
    return {**told, "status": "complete", "reason": None, "trials": trials}


def _refused(name: str, ended: str, limit: float) -> dict[str, Any]:
    why: dict[str, Any] = {"name": "crashes", "values": {"ended": ended}}
    if ended == _TOO_LONG:
        why = {"name": "endless", "values": {"limit": f"{limit:g}"}}
    return Trial(name, REFUSED, why).as_dict()


def _said(command: Sequence[str], names: Sequence[str], limit: float) -> Iterator[tuple[str, Any]]:
    """Everything that one worker says, and at last how it ended where it did not say everything."""
    read, write = os.pipe()
    told = [word for name in names for word in ("--try", name)]
    child = subprocess.Popen(
        [*command, *told, "--answer-to", str(write)], stdin=subprocess.PIPE, pass_fds=(write,), start_new_session=True
    )
    os.close(write)
    try:
        with open(read, "rb", buffering=0) as channel:
            rest, deadline = b"", time.monotonic() + limit
            while True:
                part = _part(channel, deadline)
                if part is None:
                    yield "over", _TOO_LONG
                    return
                if not part:
                    break
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    ((kind, what),) = json.loads(line).items()
                    deadline = time.monotonic() + limit
                    yield kind, what
        yield "over", _ended(child)
    finally:
        _end(child)


def _part(channel: Any, deadline: float) -> bytes | None:
    """What comes next; nothing at the end, None where it does not come in time."""
    with selectors.DefaultSelector() as chosen:
        chosen.register(channel, selectors.EVENT_READ)
        if not chosen.select(max(0.0, deadline - time.monotonic())):
            return None
    found: bytes = channel.read(65536)
    return found


def _ended(child: subprocess.Popen[bytes]) -> str:
    """How a process ended, in words."""
    try:
        status = child.wait(_END_S)
    except subprocess.TimeoutExpired:
        return "says nothing any more"
    if status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name if -status in list(signal.Signals) else f"signal {-status}"
    return f"ended by {name}" + (", as when memory runs out" if name == "SIGKILL" else "")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the worker with all that it has started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    if child.stdin is not None:
        child.stdin.close()
    child.wait()
