"""The whole way once, on whatever device there is: from the probe to a profile on disk, with a number for every step.

What needs no torch of its own - loading the profile, splitting its steps - is done by whoever started this.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.backends.probe import Choice, choose, probe
from npulens.collectors.doctor import recording, results, timing
from npulens.collectors.doctor.check import FAIL, PASS, WARN, Check
from npulens.collectors.doctor.visit import visit
from npulens.collectors.environment import environment
from npulens.collectors.telemetry import npu_smi
from npulens.collectors.telemetry.asked import ask

#: What torch and a driver raise when a device does not do what it is told.
_FAILURES = (RuntimeError, OSError, ValueError, TypeError, AttributeError, ImportError, AssertionError)
#: (workload, shape) that is recorded: a training step, and three kernels long enough to be timed one by one.
_RECORDED = (("train_step", "mlp"), ("matmul_layernorm_gelu", "vit"))
_SMALL = (("train_step", "small"), ("matmul_layernorm_gelu", "small"))


def run(home: Path, requested: str | None = None) -> dict[str, Any]:
    """Leaves the evidence in a directory; what each check found."""
    home.mkdir(parents=True, exist_ok=True)
    visited = visit(home)
    choice = choose(requested)
    backend = open_backend(choice.actual)
    checks = [_probe(choice), _machine(visited)]
    timed: list[Callable[[Backend], Check]] = [
        results.operators, timing.event_and_wall, timing.twice_the_work, timing.same_twice, timing.clocks_under_load,
        results.memory, results.triton,
    ]  # fmt: skip
    checks += [_tried(each.__name__, each, backend) for each in timed]
    captures: dict[str, Any] = {}
    for name, shape in _SMALL if choice.actual == "cpu" else _RECORDED:
        place = home / "traces" / name
        record = partial(recording.our_workload, backend, choice, place, name, shape)
        checks.append(_recorded(captures, name, record))
    place = home / "traces" / "own_script"
    checks.append(_recorded(captures, "own_script", partial(recording.own_script, choice, backend.device, place)))
    _write(home, visited, choice, backend)
    return {
        "status": "usable" if not any(check.status == FAIL for check in checks) else "unusable",
        "backend": choice.actual, "device": choice.capability.device, "checks": [asdict(check) for check in checks],
        "captures": captures, "compatibility": visited["compatibility"],
    }  # fmt: skip


def _probe(choice: Choice) -> Check:
    """The backend, found by a process of its own; a stub is never one."""
    stub = next((each for each in choice.tried if each.stub), None)
    seen = {"name": choice.actual, "device": choice.capability.device, "count": choice.capability.count,
            "reasons": [f"{each.name}: {each.reason}" for each in choice.tried[:-1]]}  # fmt: skip
    if stub is None and choice.requested is None and choice.actual != "npu":
        stub = next((each for each in (probe("npu"),) if each.stub), None)
    return Check("probe", FAIL if stub else PASS, "stub" if stub else "uses", seen)


def _machine(visited: dict[str, Any]) -> Check:
    """The checks of an ordinary visit in one: versions, CANN, permissions, msprof, umask."""
    told = [check for check in visited["checks"] if check["status"] in (FAIL, WARN)]
    seen = {"failed": [check["name"] for check in told if check["status"] == FAIL],
            "warned": [check["name"] for check in told if check["status"] == WARN]}  # fmt: skip
    return Check("machine", FAIL if seen["failed"] else WARN if seen["warned"] else PASS, "visited", seen)


def _tried(name: str, check: Callable[[Backend], Check], backend: Backend) -> Check:
    try:
        return check(backend)
    except _FAILURES as error:
        return _broke(name, error)


def _recorded(captures: dict[str, Any], name: str, record: Callable[[], tuple[Check, dict[str, Any]]]) -> Check:
    try:
        check, capture = record()
    except _FAILURES as error:
        return _broke(f"recorded_{name}", error)
    captures[name] = capture
    return check


def _broke(name: str, error: Exception) -> Check:
    reason = f"{type(error).__name__}: {(str(error).splitlines() or ['no word'])[0][:300]}"
    return Check(name, FAIL, "broke", {"reason": reason})


def _write(home: Path, visited: dict[str, Any], choice: Choice, backend: Backend) -> None:
    told = {**environment(choice.capability.versions), "backend": dict(backend.properties())}
    (home / "environment.json").write_text(json.dumps(told, indent=2, default=str) + "\n", encoding="utf-8")
    (home / "visit.json").write_text(json.dumps(visited, indent=2) + "\n", encoding="utf-8")
    place = home / "tools"
    place.mkdir(exist_ok=True)
    first = ask(["npu-smi", "info"])
    commands = [["npu-smi", "info"], ["npu-smi", "info", "-m"], ["npu-smi", "info", "-t", "topo"], ["nvidia-smi", "-q"]]
    for card in sorted({chip.npu for chip in npu_smi.info(first.text).chips}):
        commands += [["npu-smi", "info", "-t", kind, "-i", str(card)] for kind in ("board", "common", "usages")]
    for command in commands:
        asked = ask(command)
        if asked.status is not None:
            name = "_".join(part.strip("-") for part in command)
            (place / f"{name}.txt").write_text(f"$ {' '.join(command)}\n{asked.text}", encoding="utf-8")
