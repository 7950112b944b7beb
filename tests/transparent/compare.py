"""A job as it is and the same job recorded: what the job saw, and what became of it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.transparent.jobs import Job, Step

#: After this a job is one that hangs; the longest of them takes a tenth of it on two busy cores.
PATIENCE_S = 120
#: So many steps a recording wants.
_RECORDED = 3
#: A disk of this size takes the notes of a recording and no trace.
DISK = "8k"


@dataclass(frozen=True)
class Ran:
    """One run. ``status`` is as a shell says it; None: it did not end."""

    status: int | None
    out: bytes
    err: bytes
    seconds: float


@dataclass(frozen=True)
class Steps:
    """The recorded steps of one trace: who ended them, and what begins within each."""

    by: str
    names: tuple[Counter[str], ...]
    operators: tuple[int, ...]

    def are(self, wanted: Step) -> bool:
        """Whether there are three, and each is what it should be."""
        held = self.operators if not wanted.name else [each[wanted.name] == wanted.times for each in self.names]
        return self.by == wanted.by and len(self.names) == _RECORDED and all(held)


@dataclass(frozen=True)
class Pair:
    """One job, with and without."""

    job: Job
    plain: Ran
    recorded: Ran
    traces: int
    left: bool  # whether the recording's directory holds anything
    steps: tuple[Steps, ...] = ()  # of each trace

    def differences(self) -> list[str]:
        """What the job would have noticed, and what the recording owes."""
        found = []
        if self.plain.status is None:
            found.append("hangs without us")
        if self.recorded.status is None:
            found.append("hangs")
        elif self.recorded.status != self.plain.status:
            found.append(f"status {self.recorded.status}, alone {self.plain.status}")
        if self.recorded.out != self.plain.out:
            found.append(f"stdout {self.recorded.out[-200:]!r}, alone {self.plain.out[-200:]!r}")
        if self.job.traces is not None and self.traces != self.job.traces:
            found.append(f"{self.traces} traces, not {self.job.traces}")
        return found


    def wrong_steps(self) -> list[str]:
        """What is recorded and is no step of this job."""
        wanted = self.job.step
        if wanted is None:
            return []
        told = [f"by {each.by}, {[step[wanted.name] for step in each.names] if wanted.name else each.operators}"
                for each in self.steps if not each.are(wanted)]  # fmt: skip
        return told or ([] if self.steps else ["no steps"])


def steps_of(out: Path) -> Iterator[Steps]:
    """What every trace of a recording holds, by its time stamps; who ended the steps stands in the manifest."""
    manifest = out / "manifest.json"
    processes = json.loads(manifest.read_text())["processes"] if manifest.exists() else []
    by = {str(each["pid"]): str(each.get("steps_by")) for each in processes}
    for path in sorted(out.glob("*.pt.trace.json.gz")):
        told = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        events = [each for each in told if each["ph"] == "X"]
        steps = [each for each in events if each.get("cat") == "user_annotation" and "ProfilerStep#" in each["name"]]
        marks = sorted((each["ts"], each["ts"] + each["dur"]) for each in steps)
        held = [[each for each in events if begin <= each["ts"] < end] for begin, end in marks]
        names = tuple(Counter(each["name"] for each in step) for step in held)
        operators = tuple(sum(each.get("cat") == "cpu_op" for each in step) for step in held)
        yield Steps(by.get(path.name.split(".")[0].rpartition("_")[2], ""), names, operators)


def pair(job: Job, place: Path) -> Pair:
    """Runs a job twice, each time in an empty directory."""
    for name in ("plain", "recorded"):
        (place / name).mkdir(parents=True)
        (place / name / "job.py").write_text(job.source)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(job.ranks)]
    command = [sys.executable, *(launcher if job.ranks > 1 else []), "job.py"]
    environment = {**os.environ, "NPULENS_STORE": str(place / "store"), "OMP_NUM_THREADS": "1"}
    plain = ran(command, place / "plain", environment, job)
    out = place / "out"
    collect = [sys.executable, "-m", "npulens.app.cli", "collect", "--no-load", "--backend", "cpu", "-o", str(out)]
    if job.full:
        out.mkdir()
        collect += ["--keep-free", "0"]  # otherwise it would end before the disk is full
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(out)], check=True)
    try:
        recorded = ran([*collect, "--", *command], place / "recorded", environment, job)
        traces = len(list(out.glob("*.pt.trace.json.gz")))
        left = out.exists() and any(out.iterdir())
        steps = tuple(steps_of(out))
    finally:
        if job.full:
            subprocess.run(["umount", str(out)], check=True)
    return Pair(job, plain, recorded, traces, left, steps)


def ran(command: Sequence[str], place: Path, environment: Mapping[str, str], job: Job) -> Ran:
    """Runs a command to its end and sends it the job's signals: to that process and no other."""
    begun = time.monotonic()
    with (place / "out.bin").open("wb") as out, (place / "err.txt").open("wb") as err:
        child = subprocess.Popen(
            list(command), cwd=place, env=dict(environment), stdin=subprocess.PIPE, stdout=out, stderr=err
        )
        assert child.stdin is not None
        try:
            child.stdin.write(job.stdin)
            child.stdin.close()
        except BrokenPipeError:
            pass  # it ended without reading
        for sent, number in enumerate(job.signals):
            while (place / "out.bin").read_bytes().count(b"ready") <= sent and child.poll() is None:
                if time.monotonic() - begun > PATIENCE_S:
                    break
                time.sleep(0.02)
            child.send_signal(number)
        try:
            status: int | None = child.wait(max(1.0, PATIENCE_S - (time.monotonic() - begun)))
        except subprocess.TimeoutExpired:
            status = None
            _end(child.pid)
            child.wait()
    if status is not None and status < 0:
        status = 128 - status
    return Ran(status, (place / "out.bin").read_bytes(), (place / "err.txt").read_bytes(), time.monotonic() - begun)


def _end(pid: int) -> None:
    """Ends a process and all that it has started."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        _end(int(child))
    os.kill(pid, 9)
