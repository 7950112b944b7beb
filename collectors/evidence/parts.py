"""The parts of the evidence, in the order of their weight: each runs in a process of its own and may fail alone.

What is recorded again and again is one training step, once with every setting that the installed profiler has.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from npulens.collectors import kernels
from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.backends.probe import choose
from npulens.collectors.doctor import self_test
from npulens.collectors.doctor.visit import visit
from npulens.collectors.evidence import faults
from npulens.collectors.evidence.capture import record
from npulens.collectors.evidence.cases import cases
from npulens.collectors.evidence.drawn import SETTINGS
from npulens.collectors.profilers import dynamic_profile
from npulens.collectors.settings import LEVELS, METRICS, Settings
from npulens.collectors.workloads.workload import NotHere, workload

NUMERICS = "numerics.jsonl"
#: What torch, a driver and a profiler raise when something does not exist on a machine or breaks there.
FAILURES = (NotHere, RuntimeError, OSError, ValueError, TypeError, AttributeError, ImportError, AssertionError)
_STEP = "train_step"
_TRITON = (
    ("matmul_layernorm_gelu", "epilogue"), ("matmul_layernorm_gelu", "triton"), ("cross_modal_attention", "triton"),
    ("depthwise_conv", "triton"), ("embedding_dense_grad", "atomic"), ("embedding_dense_grad", "sorted"),
)  # fmt: skip
#: Steps that torch_npu's watcher may take until it has begun and ended.
_WATCHED_STEPS, _PAUSE_S = 150, 0.05


@dataclass(frozen=True)
class Asked:
    """What a part is given."""

    home: Path
    name: str  # of the backend
    plan: Mapping[str, Any]

    def backend(self) -> Backend:
        return open_backend(self.name)

    def recording(self, name: str) -> Path:
        return self.home / "recordings" / name


def machine(asked: Asked) -> None:
    """What this machine is: software, driver, devices."""
    self_test.write_machine(asked.home / "machine", visit(asked.home), choose(asked.name), asked.backend())


def planted(asked: Asked) -> list[str]:
    """The jobs with planted faults, one process for all of them; on a CPU on one thread, which is steadier."""
    import torch

    if asked.name == "cpu":
        torch.set_num_threads(1)
    backend, wanted = asked.backend(), SETTINGS
    if backend.name == "npu":
        wanted = replace(wanted, level="Level2", export=("text", "db"))
    return _each(asked, {
        name: partial(job, asked.recording(name), backend, asked.plan, wanted) for name, job in faults.FAULTS.items()
    })  # fmt: skip


def timed(asked: Asked) -> None:
    """A step by the device's own events, without a profiler; then the same step recorded."""
    backend = asked.backend()
    name, shape = "matmul_layernorm_gelu", "small" if backend.name == "cpu" else "vit"
    sizes, seed = dict(workload(name).SHAPES[shape]), asked.plan["seed"]
    about = {"workload": name, "event_ns": self_test.step_ns(backend, name, sizes)}
    case = workload(name).build("unfused", sizes, "float32", backend.device, seed)
    record(asked.recording("timed"), backend, self_test.settings(backend.name), lambda _: case.step(), about)


def settings(asked: Asked) -> list[str]:
    """Every level, every group of counters and every export that the installed profiler has."""
    backend = asked.backend()

    def recorded(name: str, wanted: Settings) -> None:
        case = workload(_STEP).build("unfused", dict(workload(_STEP).SHAPES["small"]), "float32", backend.device, seed)
        record(asked.recording(name), backend, wanted, lambda _: case.step(), {"setting": name})

    seed = asked.plan["seed"]
    return _each(asked, {name: partial(recorded, name, wanted) for name, wanted in settings_of(backend.name)})


def settings_of(backend: str) -> Iterator[tuple[str, Settings]]:
    """Names and settings; those that the installed torch_npu does not know are left out when recorded, and named."""
    plain = Settings()
    if backend != "npu":
        yield "plain", plain
        for name in ("stacks", "memory", "modules", "flops"):
            yield name, replace(plain, **{name: True})  # type: ignore[arg-type]
        return
    both = replace(plain, export=("text", "db"))
    for level in LEVELS:
        yield f"{level.lower()}_both", replace(both, level=level)
    for kind in both.export:
        yield f"level1_{kind}", replace(plain, export=(kind,))
    for metric in METRICS:
        if metric not in ("AiCoreNone", plain.metrics):
            yield f"metric_{metric.lower()}", replace(both, metrics=metric)
    yield "l2_cache", replace(both, l2_cache=True)
    yield "memory_and_stacks", replace(both, memory=True, stacks=True)
    yield "not_simplified", replace(both, simplify=False)


def triton(asked: Asked) -> list[str]:
    """The workloads whose kernels are ours, in Triton, recorded on the device."""
    if asked.name == "cpu":
        raise NotHere("on a CPU triton only interprets: the numerics have it, and there is no kernel to record")
    backend, seed = asked.backend(), asked.plan["seed"]

    def recorded(place: str, name: str, variant: str) -> None:
        case = workload(name).build(variant, dict(workload(name).SHAPES["small"]), "float32", backend.device, seed)
        record(asked.recording(place), backend, self_test.settings(backend.name), lambda _: case.step())

    return _each(asked, {
        f"{variant}_{name}": partial(recorded, f"{variant}_{name}", name, variant) for name, variant in _TRITON
    })  # fmt: skip


def _each(asked: Asked, jobs: Mapping[str, Callable[[], None]]) -> list[str]:
    """Every recording by itself: one that fails is told with its reason, and leaves nothing."""
    failed = []
    for name, job in jobs.items():
        print(name, file=sys.stderr, flush=True)
        try:
            job()
        except FAILURES as error:
            failed.append(f"{name}: {first_line(error)}")
            shutil.rmtree(asked.recording(name), ignore_errors=True)
    if failed and len(failed) == len(jobs):
        raise RuntimeError("; ".join(failed))
    return failed


def first_line(error: BaseException) -> str:
    """What an error says, in a line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def numerics(asked: Asked) -> None:
    """Every workload, variant and type, a line each as soon as it is known: what is cut short keeps its beginning."""
    if asked.name == "cpu":
        os.environ.setdefault(kernels.INTERPRET, "1")
    with (asked.home / NUMERICS).open("w", encoding="utf-8") as out:
        for each in cases(asked.name, asked.plan["seed"], values=True):
            out.write(json.dumps(each) + "\n")
            out.flush()


def watched(asked: Asked) -> None:
    """A job that runs already, and torch_npu's own watcher that begins a recording in it."""
    if asked.name != "npu":
        raise NotHere("dynamic profile is torch_npu's")
    try:  # a module of its own, which the oldest releases do not have
        theirs = importlib.import_module("torch_npu.profiler.dynamic_profile")
    except ImportError as error:
        raise NotHere("this torch_npu has no dynamic profile") from error
    backend, place = asked.backend(), asked.recording("watched")
    watch = asked.home / "watch"
    watch.mkdir()
    case = workload(_STEP).build("unfused", workload(_STEP).SHAPES["small"], "float32", backend.device)
    begun = {"wall_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
    theirs.init(str(watch))
    for number in range(_WATCHED_STEPS):
        if number == 2:
            dynamic_profile.begin(watch, Settings(), place / "capture")
        case.step()
        backend.synchronize()
        theirs.step()
        time.sleep(_PAUSE_S)
    if not list(place.rglob("*_ascend_pt")):
        raise RuntimeError(f"torch_npu's watcher recorded nothing in {_WATCHED_STEPS} steps")
    ended = {"wall_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
    told: dict[str, Any] = {
        "pid": os.getpid(),
        "rank": None,
        "backend": "npu",
        "begun": begun,
        "ended": ended,
        "steps": [],
    }
    (place / "truth.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


#: Part -> what it does. Ranks are started by whoever runs the parts.
PARTS: dict[str, Callable[[Asked], list[str] | None]] = {
    "machine": machine, "planted": planted, "timed": timed, "numerics": numerics, "settings": settings,
    "triton": triton, "watched": watched,
}  # fmt: skip
ORDER = ("machine", "planted", "timed", "ranks", "numerics", "settings", "triton", "watched")


def about(part: str) -> str:
    """A part in a line."""
    if part == "ranks":
        return "An all-reduce between processes."
    return (inspect.getdoc(PARTS[part]) or "").partition("\n")[0]
