"""What a command costs: CPU, wall clock and memory of it and of everything it starts.

CPU seconds (user and system) are the figure to trust: a busy machine stretches the wall clock more than them. Memory
is the largest sum over the whole process tree, sampled, of what is resident; a page that processes share counts once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.05


@dataclass(frozen=True)
class Cost:
    cpu_s: float
    wall_s: float
    tree_bytes: int  # largest sum of resident memory seen over the process tree, shared pages once
    process_bytes: int  # largest single process the kernel saw
    failure: str | None  # why it did not finish; then the rest is what it had used by then

    def __add__(self, later: Cost) -> Cost:
        """One after the other."""
        return Cost(
            self.cpu_s + later.cpu_s,
            self.wall_s + later.wall_s,
            max(self.tree_bytes, later.tree_bytes),
            max(self.process_bytes, later.process_bytes),
            self.failure or later.failure,
        )


@dataclass(frozen=True)
class Process:
    parent: int
    cpu_s: float  # its own and that of children it has waited for


def processes() -> dict[int, Process]:
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text()
        except OSError:  # it ended meanwhile
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        ticks = sum(map(int, fields[11:15]))
        found[int(entry)] = Process(int(fields[1]), ticks / TICK)
    return found


def proportional_bytes(pid: int) -> int:
    """Resident memory of a process, pages shared with others by their share."""
    return _rolled_up(pid, "Pss:")


def written_bytes(pid: int) -> int:
    """The same without pages of files: of libraries a process has the less, the more others run beside it."""
    return _rolled_up(pid, "Pss_Anon:", "Pss_Shmem:")


def _rolled_up(pid: int, *names: str) -> int:
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:  # it ended meanwhile
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))


def tree(root: int) -> dict[int, Process]:
    """A process and its descendants."""
    alive = processes()
    members = {root} & set(alive)
    grown = True
    while grown:
        more = {pid for pid, process in alive.items() if process.parent in members} - members
        members |= more
        grown = bool(more)
    return {pid: alive[pid] for pid in members}


def stop(root: int) -> None:
    """Ends a process we started and all it started."""
    for pid in tree(root):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def measure(command: list[str], log: Path, cwd: Path, limit_s: float) -> Cost:
    """Runs a command to its end or its limit; what it prints goes to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    peak, used, failure = 0, 0.0, None
    begin = time.monotonic()
    with log.open("ab") as out:
        child = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            alive = tree(child.pid)
            peak = max(peak, sum(map(proportional_bytes, alive)))
            used = max(used, sum(process.cpu_s for process in alive.values()))
            if failure is None and time.monotonic() - begin > limit_s:
                failure = f"stopped at {limit_s:.0f} s"
                stop(child.pid)
            time.sleep(SAMPLE_S)
    wall = time.monotonic() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode and failure is None:
        failure = f"failed, see {os.path.relpath(log, cwd)}"
    cpu = max(usage.ru_utime + usage.ru_stime, used)
    return Cost(cpu, wall, max(peak, usage.ru_maxrss * 1024), usage.ru_maxrss * 1024, failure)
