"""A simulated lab: four jobs whose times drift from night to night, and what was done to them on which night.

Everything follows from a seed. Nights of a job differ by 0.5 % (AR(1), phi 0.5), sessions of one night by 0.5 % more.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NIGHTS, FIRST = 60, date(2026, 3, 1)
DRIFT, PHI, SESSION = 0.005, 0.5, 0.005
#: The job of the captures, without and with the fault that night LATE brings.
FAULT = "host_late"


@dataclass(frozen=True)
class Planted:
    """What happens to a task from a night on: its times are multiplied."""

    task: str
    night: int
    factor: float
    word: str  # what has to be said of it
    until: int = NIGHTS


CAUGHT_UP = 31  # the night on which base becomes what head is: a release was made
PLANTED = (
    Planted("matmul", 28, 1.05, "regressed"),
    Planted("llama", 42, math.nan, "regressed"),  # the captures of a job with a fault: its factor is what that costs
    Planted("attention", 34, 0.92, "improved"),
    Planted("embedding", 48, 1.05, "regressed"),
)
DRIVER_NIGHT, DRIVER_COSTS = 20, 1.04  # a new driver: everything is slower, base and head alike
KILLED, CORRUPT = 11, 54  # kill -9 in the middle; a capture cut off and a job that cannot run
EMPTY, FULL = 16, 24  # no capture came in; the store's disk is full, and has room again an hour later
JOBS = ("matmul", "attention", "embedding")
_USUAL = {"matmul": 12.5, "attention": 48.0, "embedding": 3.1}

JOB = '''
import json, os, sys
world = json.load(open("world.json"))
task, side = sys.argv[1], os.environ["NPULENS_SIDE"]
if task in world["broken"]:
    sys.exit("no device found")
step = world["steps"][task][side].pop()
json.dump(world, open("world.json", "w"))
rate = {"value": 1e6 / step, "unit": "samples/s", "better": "higher"}
metrics = {"step": {"value": step, "unit": "ms"}, "rate": rate}
json.dump({"metrics": metrics, "hardware": "Ascend 910B2 (simulated)", "shapes": "batch 64"},
          open(os.environ["NPULENS_RESULT"], "w"))
'''

CONFIG = """
[night]
name = "lab"
rounds = {rounds}
dashboard = "http://127.0.0.1:8501"
{watch}
{pairs}
[[job]]
name = "attention"
command = ["{{python}}", "-S", "job.py", "attention"]
measure = "result"

[[job]]
name = "embedding"
command = ["{{python}}", "-S", "job.py", "embedding"]
measure = "result"

[machine]
driver = "!cat driver.txt"

[software]
commit = "!cat commit.txt"
"""
_WATCH = """
[[watch]]
name = "llama"
path = "captures"
settle = 0.0
"""
_PAIRS = """
[[job]]
name = "matmul"
command = ["{python}", "-S", "job.py", "matmul"]
measure = "result"
base = { env = { RELEASE = "1" } }
"""


def label(night: int) -> str:
    return (FIRST + timedelta(days=night)).isoformat()


class World:
    """The folder of the configuration, laid out anew for every night."""

    def __init__(self, folder: Path, seed: int, captures: bool = True, pairs: bool = True, rounds: int = 10) -> None:
        self.folder, self.random, self.pairs, self.captures = folder, random.Random(seed), pairs, captures
        self.rounds = rounds
        self._drift = dict.fromkeys((*JOBS, "llama"), 0.0)
        folder.mkdir(parents=True)
        (folder / "job.py").write_text(JOB)
        text = CONFIG.format(rounds=rounds, watch=_WATCH if captures else "", pairs=_PAIRS if pairs else "")
        (folder / "nightly.toml").write_text(text)
        if captures:
            (folder / "captures").mkdir()
            self._whole, self._faulty = (simulated(folder / name, name) for name in ("clean", FAULT))
        self._commit = 0

    def night(self, number: int) -> None:
        """Lays out one night."""
        for task in self._drift:
            shock = self.random.gauss(0, DRIFT * math.sqrt(1 - PHI**2))
            self._drift[task] = PHI * self._drift[task] + shock
        slower = DRIVER_COSTS if number >= DRIVER_NIGHT else 1.0
        steps = {task: {side: self._sessions(task, side, number, slower) for side in ("base", "head")} for task in JOBS}
        broken = ["embedding"] if number == CORRUPT else []
        (self.folder / "world.json").write_text(json.dumps({"steps": steps, "broken": broken}))
        changes = {planted.night for planted in PLANTED} | {night for night in range(3, NIGHTS, 7)}
        self._commit = number if number in changes else self._commit
        (self.folder / "commit.txt").write_text(f"{self._commit:07x}\n")
        (self.folder / "driver.txt").write_text("24.1.0\n" if number < DRIVER_NIGHT else "24.1.rc3\n")
        if self.captures and number != EMPTY:
            self._capture(number, slower)

    def _sessions(self, task: str, side: str, number: int, slower: float) -> list[float]:
        usual = _USUAL[task] * slower * math.exp(self._drift[task])
        for planted in PLANTED:
            since = CAUGHT_UP if side == "base" else planted.night
            usual *= planted.factor if planted.task == task and number >= since else 1.0
        return [usual * math.exp(self.random.gauss(0, SESSION)) for _ in range(4 * self.rounds)]

    def _capture(self, number: int, slower: float) -> None:
        """The capture of a night: the simulated job's, with every time stretched by how slow the night is."""
        late = number >= next(planted.night for planted in PLANTED if planted.task == "llama")
        stretch = slower * math.exp(self._drift["llama"] + self.random.gauss(0, SESSION))
        trace = json.loads(json.dumps(self._faulty if late else self._whole))
        for event in trace["traceEvents"]:
            for key in ("ts", "dur"):
                if key in event:
                    event[key] = round(float(event[key]) * stretch, 3)
        raw = gzip.compress(json.dumps(trace).encode(), 1)
        raw = raw[: len(raw) // 3] if number == CORRUPT else raw
        (self.folder / "captures" / f"{label(number)}.pt.trace.json.gz").write_bytes(raw)


def simulated(folder: Path, scenario: str) -> dict[str, list[dict[str, object]]]:
    command = [sys.executable, "-m", "npulens.collectors.planting", scenario, "--seed", "3", "--ranks", "1",
               "--steps", "6", "--format", "kineto", "-o", str(folder)]  # fmt: skip
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = (folder / "capture").glob("*.gz")
    found: dict[str, list[dict[str, object]]] = json.loads(gzip.decompress(path.read_bytes()))
    return found
