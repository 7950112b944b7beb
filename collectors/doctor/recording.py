"""Whether a profile comes out whole: one of our workloads, and a plain script as its owner would write it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from npulens.collectors import manifest, our_job, own_job
from npulens.collectors.backends.backend import Backend
from npulens.collectors.backends.probe import Choice
from npulens.collectors.collected import Collected
from npulens.collectors.doctor.check import FAIL, PASS, Check
from npulens.collectors.settings import Settings
from npulens.collectors.workloads.workload import workload

#: A script without a word about profilers; the device is its argument.
SCRIPT = """\
import sys
import torch
if sys.argv[1].startswith("npu"):
    import torch_npu
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(sys.argv[1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(8):
    loss = model(torch.randn(32, 256, device=sys.argv[1])).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_TIMED = 20


def settings(backend: str) -> Settings:
    """On an NPU both exports, so that one can be held against the other."""
    return Settings(export=("text", "db") if backend == "npu" else ("text",))


def our_workload(backend: Backend, choice: Choice, home: Path, name: str, shape: str) -> tuple[Check, dict[str, Any]]:
    """Three steps of a workload; beside the trace, what a step takes by the device's own clock, without a profiler."""
    wanted, sizes = settings(backend.name), dict(workload(name).SHAPES[shape])
    step_ns = _step_ns(backend, name, sizes)
    found = our_job.run(name, "unfused", sizes, "float32", backend.name, wanted, home)
    command = ["npulens", "collect", name, "--shape", shape]
    _describe(home, f"workload {name}", command, choice, wanted, found)
    return _judged(name, found, wanted), {"path": str(home), "steps": wanted.active, "step_ns": step_ns}


def own_script(choice: Choice, device: str, home: Path) -> tuple[Check, dict[str, Any]]:
    """A script, run by its own command line."""
    wanted = settings(choice.actual)
    home.mkdir(parents=True)
    script = home / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), device]
    found, status = own_job.run(command, home, choice.actual, wanted)
    _describe(home, "a job of its owner's", command, choice, wanted, found)
    check = _judged("own_script", found, wanted)
    if status:
        check = Check("recorded_own_script", FAIL, "ended", {"status": status})
    return check, {"path": str(home), "steps": wanted.active, "step_ns": None}


def _describe(home: Path, what: str, command: list[str], choice: Choice, wanted: Settings, found: Collected) -> None:
    told = {"status": found.status, "reason": found.reason, "settings": asdict(wanted)}
    manifest.write(home, what, command, choice, {**told, "traces": [asdict(trace) for trace in found.traces]})


def _judged(name: str, found: Collected, wanted: Settings) -> Check:
    seen = {
        "name": name, "status": found.status, "reason": found.reason, "wanted": wanted.active,
        "steps": sum(trace.steps for trace in found.traces), "host_ops": sum(trace.host_ops for trace in found.traces),
        "kernels": sum(trace.kernels or 0 for trace in found.traces),
    }  # fmt: skip
    whole = found.status == "complete" and seen["steps"] == wanted.active
    return Check(f"recorded_{name}", PASS if whole else FAIL, "whole" if whole else "lacking", seen)


def _step_ns(backend: Backend, name: str, sizes: dict[str, int]) -> int:
    step = workload(name).build("unfused", sizes, "float32", backend.device).step
    for _ in range(_TIMED):
        step()
    marks = [backend.marks(2) for _ in range(_TIMED)]
    backend.synchronize()
    for first, last in marks:
        backend.mark(first)
        step()
        backend.mark(last)
    backend.synchronize()
    return int(median(backend.between_ns(first, last) for first, last in marks))
