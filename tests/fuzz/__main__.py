"""Fuzz the targets, two side by side: `python -m tests.fuzz [--seconds N] [--only TARGET]... [--replay]`.

Everything lies in .fuzz/<target>: the corpus grows from run to run, findings/ holds one input of each kind that went
wrong and its traceback, crash-*, oom-* and timeout-* are inputs that took the interpreter with them. `--replay` runs
what lies there once more and nothing else. Ends with 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.targets import names, target

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".fuzz"
_SIDE_BY_SIDE = 2
_STATE = re.compile(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)
_DEAD = ("crash-*", "oom-*", "timeout-*")


@dataclass
class Tally:
    """What fuzzing one target came to."""

    name: str
    runs: int = 0
    edges: int = 0
    corpus: int = 0
    deaths: int = 0

    @property
    def findings(self) -> int:
        home = HOME / self.name
        return len(list((home / "findings").glob("*.bin"))) + sum(len(list(home.glob(each))) for each in _DEAD)

    def __str__(self) -> str:
        figures = f"{self.runs:9,} runs  {self.edges:5} edges  {self.corpus:5} inputs"
        return f"{self.name:12} {figures}  {self.findings} findings"


def fuzz(name: str, seconds: int) -> Tally:
    """One target until its time is up; a process that dies is started again."""
    tally, end = Tally(name), time.monotonic() + seconds
    home = HOME / name
    home.mkdir(parents=True, exist_ok=True)
    memory = Path("/dev/shm")
    while (left := int(end - time.monotonic())) > 0 and tally.deaths < 20:
        scratch = tempfile.mkdtemp(prefix="npulens-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)
        try:
            with (home / "log").open("wb") as log:
                died = subprocess.run(
                    [sys.executable, "-m", "tests.fuzz.drive", name, str(left), str(home), scratch],
                    cwd=ROOT, stdout=log, stderr=log, check=False, preexec_fn=lambda: os.nice(5),
                ).returncode  # fmt: skip
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        said = _STATE.findall((home / "log").read_text("utf-8", "replace"))
        if said:
            tally.runs += int(said[-1][0])
            tally.edges, tally.corpus = int(said[-1][1]), int(said[-1][3])
        tally.deaths += died != 0
        if not said:
            break  # it never began; the log says why
    return tally


def replay(name: str) -> Tally:
    """Every input that was kept, once more, in this process."""
    tally, this = Tally(name), target(name)
    home = HOME / name
    kept = [home.glob(each) for each in (*_DEAD, "findings/*.bin", "corpus/*")]
    for path in (path for paths in kept for path in sorted(paths)):
        with tempfile.TemporaryDirectory() as scratch:
            tally.runs += 1
            try:
                this.check(path.read_bytes(), Path(scratch))
            except Exception:
                tally.deaths += 1
                print(f"{path}:\n{traceback.format_exc()}", flush=True)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=int, default=600, help="for each target")
    parser.add_argument("--only", action="append", choices=names())
    parser.add_argument("--replay", action="store_true")
    asked = parser.parse_args()
    wanted = asked.only or names()
    if asked.replay:
        tallies = [replay(name) for name in wanted]
    else:
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            tallies = list(pool.map(lambda name: fuzz(name, asked.seconds), wanted))
    for tally in tallies:
        print(tally if not asked.replay else f"{tally.name:12} {tally.runs:6} inputs  {tally.deaths} wrong")
    for tally in () if asked.replay else tallies:
        for path in sorted((HOME / tally.name / "findings").glob("*.txt")):
            print(f"{path.with_suffix('.bin')}: {path.read_text().strip().splitlines()[-1][:200]}")
    sys.exit(any(tally.deaths if asked.replay else tally.findings or not tally.runs for tally in tallies))


if __name__ == "__main__":
    main()
