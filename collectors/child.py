"""A job as a child that notices nothing of us. Every signal reaches it, and its end is told as a shell tells it."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Mapping, Sequence

#: What people, schedulers and servers send to a job.
PASSED = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
#: Python ignores them in itself; a program that we start must not inherit that.
_OURS = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name))
#: A signal that reached us directly this long ago has reached the whole process group. Passing it on takes
#: our parent under a millisecond; the rest is for a busy machine.
TOGETHER_S = 1.0


#: A thread of ours that was there before may swallow the word of a child's end, so it is also looked for.
_LOOK_S = 0.2


class CannotStart(OSError):
    """The job did not begin; ``status`` is what a shell would answer."""

    def __init__(self, command: str, error: OSError) -> None:
        super().__init__(f"{command} cannot be started: {os.strerror(error.errno or errno.EINVAL)}")
        self.status = 127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126


def run(command: Sequence[str], environment: Mapping[str, str], parent: int | None = None) -> int:
    """Runs a command to its end; its exit status, 128 and the number of the signal that ended it.

    ``parent`` is the process above us that passes its signals on to us. One that comes from elsewhere was then sent to
    the whole group, and the job has it already.
    """
    if not hasattr(signal, "sigwaitinfo"):
        return _run_plainly(command, environment)
    heard = {*PASSED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    try:
        child = _begun(command, environment, before)
        status = _followed(child, heard, parent)
        while signal.sigtimedwait(heard, 0) is not None:
            pass  # they were for the job
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return status


def _begun(command: Sequence[str], environment: Mapping[str, str], mask: set[signal.Signals] | set[int]) -> int:
    try:
        return os.posix_spawnp(command[0], list(command), dict(environment), setsigmask=mask, setsigdef=_OURS)
    except OSError as error:
        raise CannotStart(command[0], error) from error


def _followed(child: int, heard: set[signal.Signals], parent: int | None) -> int:
    """Waits for the child's end and passes on what comes meanwhile."""
    direct: dict[int, float] = {}
    while True:
        told = signal.sigtimedwait(heard, _LOOK_S)
        now = time.monotonic()
        if told is None or told.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return _as_a_shell(status)
        elif told.si_code > 0 or (parent is not None and told.si_pid != parent):
            direct[told.si_signo] = now  # from a terminal or to the whole group
        elif now - direct.get(told.si_signo, -TOGETHER_S) >= TOGETHER_S:
            os.kill(child, told.si_signo)


def _run_plainly(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Where a signal's sender cannot be told. A terminal interrupts the whole group, so an interrupt stays with us."""
    children: list[int] = []

    def pass_on(number: int, _: object) -> None:
        if children and number not in (signal.SIGINT, signal.SIGQUIT):
            os.kill(children[0], number)

    kept = {each: signal.signal(each, pass_on) for each in PASSED if signal.getsignal(each) is not signal.SIG_IGN}
    try:
        children.append(_begun(command, environment, set()))
        return _as_a_shell(os.waitpid(children[0], 0)[1])
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


def _as_a_shell(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
