"""What other tools say of the same captures, put into our causes as kindly as their words allow.

Neither names a time window or a rank for most of what it says, so only the cause is compared: a
saying counts as right when the cause is planted, wherever it points. msprof-analyze advisor lists
problems; the ones it lists on every capture (settings, a table of bandwidths) are not counted
against it. traceinsight judges nothing: a figure of its tables above 1 % of the window is taken
as a finding.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.bench.rivals import MSPROF_ANALYZE, TRACEINSIGHT, environment

#: Beginning of an advisor category -> causes it may be about. Categories that are not here judge nothing of ours.
ADVISOR = {
    "slow rank": ("late_rank", "imbalance"),
    "aicpu": ("aicpu",),
    "dynamic shape": ("compile",),
    "fusible operator": ("unfused", "launch_overhead", "host_late"),
    "affinity api": ("unfused",),
    "affinity training api": ("unfused",),
    "affinity optimizer": ("unfused", "launch_overhead"),
    "block dim": ("idle_cores",),
    "operator no bound": ("idle_cores", "pipe_stall"),
    "ai core frequency": ("frequency_drop",),
    "aicore frequency": ("frequency_drop",),
    "slow dataloader": ("dataloader",),
    "gc": ("gc",),
    "conjectured gc": ("gc", "host_late"),
    "synchronizestream": ("sync_stall",),
    "operator dispatch": ("compile", "host_late"),
    "memory": ("memory_alloc",),
    "packet": ("small_packets", "comm_exposed"),
    "bandwidth contention": ("contention", "comm_exposed"),
}
QUIET = re.compile(r"there is no|no slow|没有", re.IGNORECASE)
SHARE = 0.01
PROGRAM = Path(__file__).with_name("traceinsight_shares.py")


@dataclass(frozen=True)
class Said:
    """One thing a rival said: any of these causes would make it right."""

    what: str
    causes: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What a rival said of one capture; `failure` if it said nothing because it fell over."""

    said: tuple[Said, ...]
    failure: str | None = None


def advisor(capture: Path) -> Verdict:
    """msprof-analyze advisor on a directory of ranks."""
    tool = environment(MSPROF_ANALYZE) / "msprof-analyze"
    with tempfile.TemporaryDirectory() as out:
        copy = shutil.copytree(capture, Path(out) / "capture")  # it writes into what it reads
        done = subprocess.run(
            [tool, "advisor", "all", "-d", copy, "--agent", "-l", "en", "--force", "-o", Path(out) / "out"],
            capture_output=True, text=True, timeout=600, cwd=out,
        )  # fmt: skip
    start = done.stdout.rfind('{"status"')
    if start < 0:
        return Verdict((), (done.stderr or done.stdout).strip()[-200:] or "no answer")
    answer = json.loads(done.stdout[start:].splitlines()[0])
    message = answer.get("message")
    if not isinstance(message, dict) or not message:
        return Verdict((), str(message)[:200])
    rows = next(iter(message.values()))["data"]
    return Verdict(tuple(_said(str(row[0]), str(row[1])) for row in rows if _speaks(str(row[0]), str(row[1]))))


def _speaks(category: str, description: str) -> bool:
    return _cause(category) is not None and not QUIET.search(description)


def _said(category: str, description: str) -> Said:
    return Said(f"{category}: {description[:80]}", _cause(category) or ())


def _cause(category: str) -> tuple[str, ...] | None:
    plain = re.sub(r"^rank \d+ ", "", category.lower())
    return next((causes for name, causes in ADVISOR.items() if plain.startswith(name)), None)


def traceinsight(traces: dict[int, Path]) -> Verdict:
    """traceinsight on the Kineto traces of some ranks."""
    done = subprocess.run(
        [environment(TRACEINSIGHT) / "python", PROGRAM, json.dumps({rank: str(p) for rank, p in traces.items()})],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if done.returncode:
        return Verdict((), done.stderr.strip()[-200:])
    shares: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    of = {
        "host_wait": ("host_late", "sync_stall", "dataloader", "gc", "compile", "memory_alloc", "step_jitter"),
        "kernel_wait": ("launch_overhead",),
        "exposed_comm": ("comm_exposed", "late_rank", "pipeline_bubble", "imbalance"),
        "exposed_memory": ("copy_exposed",),
        "stragglers": ("late_rank", "imbalance"),
    }
    return Verdict(tuple(Said(f"{n} {shares[n]:.1%}", c) for n, c in of.items() if shares.get(n, 0.0) >= SHARE))
