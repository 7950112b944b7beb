"""The whole way once, on whatever device there is: from the probe to a profile on disk, with a number for every step.

What needs no torch of its own - loading the profile, splitting its steps - is done by whoever started this.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from npulens.collectors import kernels, manifest, our_job, own_job
from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.backends.probe import Choice, choose, probe
from npulens.collectors.collected import Collected
from npulens.collectors.doctor.check import FAIL, PASS, SKIP, WARN, Check
from npulens.collectors.doctor.visit import visit
from npulens.collectors.environment import environment
from npulens.collectors.harness.numerics import compare, tolerance
from npulens.collectors.harness.versus import judge, versus
from npulens.collectors.settings import Settings
from npulens.collectors.telemetry import npu_smi
from npulens.collectors.telemetry.tool_answer import ask
from npulens.collectors.workloads.workload import Case, NotHere, names, workload

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
        operators, event_and_wall, twice_the_work, same_twice, clocks_under_load,
        memory, triton,
    ]  # fmt: skip
    checks += [_tried(each.__name__, each, backend) for each in timed]
    captures: dict[str, Any] = {}
    for name, shape in _SMALL if choice.actual == "cpu" else _RECORDED:
        place = home / "traces" / name
        record = partial(our_workload, backend, choice, place, name, shape)
        checks.append(_recorded(captures, name, record))
    place = home / "traces" / "own_script"
    checks.append(_recorded(captures, "own_script", partial(own_script, choice, backend.device, place)))
    write_machine(home, visited, choice, backend)
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


def write_machine(home: Path, visited: dict[str, Any], choice: Choice, backend: Backend) -> None:
    """What the machine is: software, devices, and what the driver's tools say of them."""
    home.mkdir(parents=True, exist_ok=True)
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


# Whether a device computes what it should, and whether its memory is accounted for.
_BLOCK = 64 << 20
_KERNELS = "matmul_layernorm_gelu"


def operators(backend: Backend) -> Check:
    """Every workload's plain code in float32, at its small size, against the same in float64 on the processor."""
    allowed, errors, wrong, left_out = tolerance("float32", backend.properties()), {}, [], []
    for name in names():
        try:
            told = compare(_small(name, "unfused", backend.device).step(), _truth(name), "float32", allowed)
        except NotHere as error:
            left_out.append(f"{name} ({error})")
            continue
        errors[name] = told.relative_error
        if not told.ok:
            wrong.append(f"{name}: {told.why}")
    seen = {"count": len(errors), "errors": errors, "allowed": allowed, "wrong": wrong, "left_out": left_out}
    if not errors:
        return Check("operators", SKIP, "none", seen)
    return Check("operators", FAIL if wrong else PASS, "wrong" if wrong else "right", seen)


def triton(backend: Backend) -> Check:
    """A fused kernel is compiled, runs, and is right."""
    try:
        kernels.load("layernorm_gelu", backend.device)
        found = _small(_KERNELS, "epilogue", backend.device).step()
    except NotHere as error:
        return Check("triton_kernel", SKIP, "not_here", {"reason": str(error)})
    told = compare(found, _truth(_KERNELS), "float32", tolerance("float32", backend.properties()))
    seen = {"error": told.relative_error, "allowed": told.tolerance}
    return Check("triton_kernel", PASS if told.ok else FAIL, "right" if told.ok else "wrong", seen)


def memory(backend: Backend) -> Check:
    """What is allocated shows in the device's own account."""
    if backend.memory() is None:
        return Check("memory_account", SKIP, "none")
    import torch

    backend.forget_peak()
    before = backend.memory()
    held = torch.zeros(_BLOCK, dtype=torch.uint8, device=backend.device)
    backend.synchronize()
    after = backend.memory()
    assert before is not None and after is not None
    seen = {"asked": held.numel(), "allocated": after.allocated - before.allocated, "peak": after.peak}
    right = seen["allocated"] >= held.numel() and after.peak >= after.allocated
    return Check("memory_account", PASS if right else FAIL, "grew", seen)


def _small(name: str, variant: str, device: str) -> Case:
    found = workload(name)
    return found.build(
        variant if variant in found.VARIANTS else found.VARIANTS[-1], found.SHAPES["small"], "float32", device
    )


def _truth(name: str) -> Any:
    found = workload(name)
    return found.build("reference", found.SHAPES["small"], "float64", "cpu").step()


# Whether a profile comes out whole: one of our workloads, and a plain script as its owner would write it.
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
    took_ns = step_ns(backend, name, sizes)
    found = our_job.run(name, "unfused", sizes, "float32", backend.name, wanted, home)
    command = ["npulens", "collect", name, "--shape", shape]
    _describe(home, f"workload {name}", command, choice, wanted, found)
    return _judged(name, found, wanted), {"path": str(home), "steps": wanted.active, "step_ns": took_ns}


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


def step_ns(backend: Backend, name: str, sizes: dict[str, int]) -> int:
    """A step by the device's own events, without a profiler: the median of twenty."""
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


# Whether the clocks of a device can be believed: against the wall, against twice the work, against itself.
WIDTH = 512  # of the square matrices that are multiplied; kernels long enough not to be all launch
ENOUGH_NS = 20_000_000
REPEATS = 9
#: Between the device's clock and the wall around it lie one launch and one synchronise.
WALL = (0.90, 1.02)
TWICE = (1.8, 2.2)
#: An interval so many times as high as low hides anything worth measuring.
NOISY = 1.2
HELD_BACK = 0.97
BUSY = 0.5


def work(backend: Backend) -> tuple[Callable[[int], None], int]:
    """Something to do in rounds, each needing the result of the one before, and rounds that last long enough."""
    import torch

    torch.manual_seed(0)
    weight = torch.randn(WIDTH, WIDTH, device=backend.device)
    held = [torch.randn(WIDTH, WIDTH, device=backend.device)]

    def run(rounds: int) -> None:
        for _ in range(rounds):
            held[0] = (held[0] @ weight) * WIDTH**-0.5  # scaled, so that it neither grows nor vanishes

    run(3)
    rounds = 1
    while _wall(backend, run, rounds) < ENOUGH_NS and rounds < 1 << 16:
        rounds *= 2
    return run, rounds


def event_and_wall(backend: Backend) -> Check:
    """The device's clock runs as fast as the wall's."""
    run, rounds = work(backend)
    shares = []
    for _ in range(REPEATS):
        first, last = backend.marks(2)
        backend.synchronize()
        begun = time.time_ns()
        backend.mark(first)
        run(rounds)
        backend.mark(last)
        backend.synchronize()
        ended = time.time_ns()
        shares.append(backend.between_ns(first, last) / (ended - begun))
    share = median(shares)
    seen = {"share": round(share, 4), "repeats": REPEATS, "low": WALL[0], "high": WALL[1]}
    return Check("event_and_wall", PASS if WALL[0] <= share <= WALL[1] else FAIL, "ratio", seen)


def twice_the_work(backend: Backend) -> Check:
    """Twice the work takes twice the time; taken in turns, because machines drift."""
    run, rounds = work(backend)
    ratios = [_event(backend, run, 2 * rounds) / _event(backend, run, rounds) for _ in range(REPEATS)]
    ratio, verdict = median(ratios), judge(ratios)
    seen = {"ratio": round(ratio, 3), "repeats": REPEATS, "low": round(verdict.low, 3), "high": round(verdict.high, 3)}
    if TWICE[0] <= ratio <= TWICE[1]:
        return Check("twice_the_work", PASS, "ratio", seen)
    if verdict.low <= 2 <= verdict.high or verdict.high / verdict.low > NOISY:
        return Check("twice_the_work", WARN, "noisy", seen)
    return Check("twice_the_work", FAIL, "ratio", seen)


def same_twice(backend: Backend) -> Check:
    """The same step against itself is not called different."""
    found = workload("train_step")
    case = found.build("unfused", found.SHAPES["small"], "float32", backend.device)
    for _ in range(30):
        case.step()

    def block() -> list[int]:
        return [_wall(backend, lambda _: case.step(), 1) for _ in range(40)]

    verdict = versus(block, block)
    seen = {"said": verdict.said, "ratio": round(verdict.ratio, 4), "low": round(verdict.low, 4),
            "high": round(verdict.high, 4), "pairs": verdict.pairs}  # fmt: skip
    if verdict.said == "different":
        return Check("same_twice", FAIL, "different", seen)
    noisy = verdict.high / verdict.low > NOISY
    return Check("same_twice", WARN if noisy else PASS, "noisy" if noisy else "alike", seen)


def clocks_under_load(backend: Backend) -> Check:
    """A busy device keeps its rated clock."""
    run, rounds = work(backend)
    backend.telemetry()
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        run(rounds)
    told = backend.telemetry()  # queued work still runs while it is asked
    backend.synchronize()
    seen: dict[str, Any] = {
        "clock_mhz": told.clock_mhz, "rated_mhz": told.rated_mhz, "busy": told.busy_share,
        "temperature_c": told.temperature_c, "held_by": list(told.throttled_by or ()),
    }  # fmt: skip
    if told.throttled_by:
        return Check("clocks_under_load", WARN, "held_by", seen)
    if told.clock_mhz is None or told.rated_mhz is None:
        return Check("clocks_under_load", SKIP, "untold", seen)
    if told.clock_mhz < HELD_BACK * told.rated_mhz and (told.busy_share or 0) > BUSY:
        return Check("clocks_under_load", WARN, "slow", seen)
    return Check("clocks_under_load", PASS, "rated", seen)


def _event(backend: Backend, run: Callable[[int], None], rounds: int) -> int:
    first, last = backend.marks(2)
    backend.mark(first)
    run(rounds)
    backend.mark(last)
    backend.synchronize()
    return backend.between_ns(first, last)


def _wall(backend: Backend, run: Callable[[int], None], rounds: int) -> int:
    backend.synchronize()
    begun = time.perf_counter_ns()
    run(rounds)
    backend.synchronize()
    return time.perf_counter_ns() - begun
