"""In a job's own process: hears its outermost modules and their batches, and writes subjects when it ends.

Nothing of the job changes: inputs are copied before the module sees them, random numbers are put back, and what a
second run of the module's code prints while it is captured is thrown away.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import shutil
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.modules.module as hooks

from npulens.collectors import launchers, limits, notes
from npulens.collectors.environment import variables
from npulens.collectors.lab import engines, optimizing, subject
from npulens.collectors.lab.flat import Call, Flat, Unreadable, taken_apart, tensors_of

#: Modules, patterns of calls of each, and shapes of each that are kept.
MODULES, PATTERNS, SHAPES = 4, 2, 6
#: Batches of one shape that are kept.
BATCHES = 2
#: What the kept batches, and the results beside them, may take in memory.
MEMORY = 1 << 30
#: Around a module, and not themselves what computes.
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
_TRACED = "OptimizedModule"
_AFTER = "register_optimizer_step_post_hook"


@dataclass
class Kept:
    """One batch with what the module gave back for it, and a sum over its weights at that moment."""

    call: Call
    weights: float
    output: tuple[Any, ...] | None = None


@dataclass
class Pattern:
    """The calls of one module that one program can answer."""

    training: bool
    gradients: bool
    autocast: tuple[Any, ...] | None
    counts: dict[tuple[tuple[int, ...], ...], int] = field(default_factory=dict)
    kept: dict[tuple[tuple[int, ...], ...], list[Kept]] = field(default_factory=dict)
    others: tuple[str, ...] = ()  # kinds of what is in a result besides tensors

    @property
    def calls(self) -> int:
        return sum(self.counts.values())


@dataclass
class Heard:
    """An outermost module and its calls."""

    module: weakref.ref[Any]
    strong: Any
    patterns: dict[tuple[object, ...], Pattern] = field(default_factory=dict)
    refused: str | None = None
    calls: int = 0


class Listening:
    """Listens from the first module on; writes at the end of the process, or after so many calls."""

    def __init__(self, directory: str, calls: int | None, max_disk: int | None, keep_free: int | None) -> None:
        self._directory, self._calls = Path(directory), calls
        self._max_disk, self._keep_free = max_disk, keep_free
        self._heard: dict[int, Heard] = {}
        self._now = threading.local()
        self._lock = threading.RLock()
        self._bytes = 0
        self._total = 0
        self._over = False
        self._removable: list[Any] = []
        self._optimizers: dict[int, tuple[int, Any, Any]] = {}  # steps, its parameters' addresses, what is told of it

    @staticmethod
    def from_environment() -> Listening:
        """As ``npulens lab`` describes it."""
        told = json.loads(os.environ[subject.VARIABLE])
        return Listening(told["directory"], told.get("calls"), told.get("max_disk"), told.get("keep_free"))

    def begin(self) -> None:
        """Hooks every module of this process. Only the first rank of a job is heard: the others have the same."""
        if launchers.rank() not in (None, 0):
            return
        engines.prepare()
        atexit.register(self.end)
        os.register_at_fork(after_in_child=self._forked)
        self._removable = [
            hooks.register_module_forward_pre_hook(self._begins),
            hooks.register_module_forward_hook(self._done, with_kwargs=True),
            hooks.register_module_forward_hook(self._ends, always_call=True),
        ]
        after = getattr(importlib.import_module("torch.optim.optimizer"), _AFTER, None)  # since 2.1
        if after is not None:
            self._removable.append(after(self._stepped))

    def _begins(self, module: Any, *_: object) -> None:
        if _compiling() or type(module).__name__ in _WRAPPERS:
            return
        depth = self._now.depth = getattr(self._now, "depth", 0) + 1
        if depth > 1 or self._over:
            return
        self._now.kept = None
        with self._lock:
            heard = self._heard.get(id(module))
            if heard is None or heard.module() is not module:
                self._heard[id(module)] = heard = Heard(weakref.ref(module), module)
                # Keywords are told to hooks of one module only. The first call of all is read when it has ended.
                self._removable.append(module.register_forward_pre_hook(self._enters, with_kwargs=True))
            heard.calls += 1
            self._total += 1

    def _enters(self, module: Any, args: Any, kwargs: Any) -> None:
        if not _compiling() and getattr(self._now, "depth", 0) == 1 and not self._over:
            self._keep(module, args, kwargs)

    def _keep(self, module: Any, args: Any, kwargs: Any) -> None:
        """Counts a call, and keeps its batch where none or only one of its shape is kept yet."""
        with self._lock:
            heard = self._heard[id(module)]
            try:
                call = taken_apart(args, kwargs)
            except Unreadable as error:
                heard.refused = str(error)
                return
            mode = (module.training, torch.is_grad_enabled(), _autocast(call))
            pattern = heard.patterns.setdefault((*call.pattern, *mode), Pattern(*mode))
            pattern.counts[call.shapes] = pattern.counts.get(call.shapes, 0) + 1
            kept = pattern.kept.get(call.shapes, [])
            size = sum(each.nbytes for each in call.tensors)
            full = len(pattern.kept) >= SHAPES and not kept
            if full or len(kept) >= BATCHES or self._bytes + size > MEMORY:
                return
            self._bytes += size
            with torch.inference_mode(False), torch.no_grad():
                copies = tuple(each.detach().clone() for each in call.tensors)
            one = Kept(Call(copies, call.spec, call.rest, call.places), _sum(module))
            pattern.kept.setdefault(call.shapes, []).append(one)
            self._now.kept = (pattern, one)

    def _done(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if _compiling() or self._over or getattr(self._now, "depth", 0) != 1 or type(module).__name__ in _WRAPPERS:
            return
        if self._heard[id(module)].calls == 1:
            self._keep(module, args, kwargs)
        now = self._now.kept
        if now is None:
            return
        pattern, one = now
        tensors, pattern.others = tensors_of(output)
        size = sum(each.nbytes for each in tensors)
        if self._bytes + size <= MEMORY:
            self._bytes += size
            with torch.inference_mode(False), torch.no_grad():
                one.output = tuple(each.detach().clone() for each in tensors)

    def _ends(self, module: Any, *_: object) -> None:
        if _compiling() or type(module).__name__ in _WRAPPERS:
            return
        self._now.depth = getattr(self._now, "depth", 1) - 1
        if self._now.depth == 0 and self._calls is not None and self._total >= self._calls and not self._over:
            self.end()

    def _stepped(self, optimizer: Any, *_: object) -> None:
        """Told anew after one, two, four steps and so on: settings change with a schedule."""
        if self._over or _compiling():
            return
        with self._lock:
            steps, _, _ = self._optimizers.get(id(optimizer), (0, None, None))
            steps += 1
            if steps & (steps - 1):
                self._optimizers[id(optimizer)] = (steps, *self._optimizers[id(optimizer)][1:])
                return
            places = frozenset(id(each) for group in optimizer.param_groups for each in group["params"])
            self._optimizers[id(optimizer)] = (steps, places, optimizing.heard(optimizer))

    def _optimizer_of(self, module: Any) -> dict[str, Any] | None:
        """The optimiser that has most of a module's parameters."""
        mine = {id(each) for each in module.parameters()}
        shared = [(len(mine & places), steps, told) for steps, places, told in self._optimizers.values()]
        most, steps, told = max(shared, key=lambda one: one[0], default=(0, 0, None))
        return {**dict(told or {}), "steps": steps} if most else None

    def _forked(self) -> None:
        """In a child that forked off: what was heard is its parent's."""
        self._lock, self._heard, self._bytes, self._total = threading.RLock(), {}, 0, 0

    def end(self) -> None:
        """Writes what was heard, once."""
        with self._lock:
            if self._over:
                return
            self._over = True
            for each in self._removable:
                each.remove()
            heard = sorted(self._heard.values(), key=lambda each: -each.calls)
            self._heard = {}
            if heard:
                with _unnoticed():
                    self._write(heard)

    def _write(self, heard: list[Heard]) -> None:
        told: list[dict[str, Any]] = []
        for place, each in enumerate(heard):
            name = type(_computing(each.strong)).__name__
            if place >= MODULES:
                told.append({"module": name, "calls": each.calls, "refused": f"more than {MODULES} modules"})
                continue
            patterns = sorted(each.patterns.values(), key=lambda one: -one.calls)
            if not patterns:
                told.append({"module": name, "calls": each.calls, "refused": each.refused or "no call of it ended"})
            for which, pattern in enumerate(patterns):
                more = {"module": name, "calls": pattern.calls}
                if which >= PATTERNS:
                    told.append({**more, "refused": f"more than {PATTERNS} patterns of calls"})
                    continue
                told.append({**more, **self._captured(each.strong, name, pattern)})
        said = self._directory / subject.HEARD
        said.mkdir(parents=True, exist_ok=True)
        (said / f"{notes.name()}.json").write_text(json.dumps({"begun_ns": time.time_ns(), "modules": told}), "utf-8")

    def _captured(self, module: Any, name: str, pattern: Pattern) -> dict[str, Any]:
        """Writes one subject; where it lies, or why there is none."""
        kept = _ordered(pattern)
        if not kept:
            return {"refused": "none of its batches fitted into the memory that is kept for them"}
        module = _computing(module)
        weights = [*module.parameters(), *module.buffers()]
        size = sum(each.nbytes for each in weights) + sum(t.nbytes for one in kept for t in one.call.tensors)
        reason = self._no_room(size)
        if reason:
            return {"refused": reason}
        place = self._directory / f"{name}_{'training' if pattern.training else 'eval'}_{notes.name()}"
        flat = Flat(module, kept[0].call, pattern.autocast)
        batches = [one.call.tensors for one in kept]
        try:
            with torch.set_grad_enabled(pattern.gradients):
                program = engines.capture(flat, batches)
            about = _about(module, pattern, program, kept, self._optimizer_of(module) if pattern.training else None)
            same = [one.output if one.weights == kept[-1].weights == _sum(module) else None for one in kept]
            subject.write(place, about, program.save, batches, same)
        except engines.CannotCapture as error:
            return {"refused": str(error)}
        except (OSError, RuntimeError) as error:
            shutil.rmtree(place, ignore_errors=True)
            return {"refused": f"it cannot be written: {(str(error).splitlines() or [type(error).__name__])[0]}"}
        return {"place": str(place)}

    def _no_room(self, size: int) -> str | None:
        if self._max_disk is not None and size > self._max_disk:
            return f"it takes {limits.amount(size)}, and --max-disk allows {limits.amount(self._max_disk)}"
        self._directory.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._directory).free - size
        keep = limits.KEEP_FREE if self._keep_free is None else self._keep_free
        if free < keep:
            return f"{limits.amount(max(0, free))} would stay free on the disk, and {limits.amount(keep)} should"
        if self._max_disk is not None:
            self._max_disk -= size
        return None


def _ordered(pattern: Pattern) -> list[Kept]:
    """One batch of every shape, the commonest first, then the second ones."""
    commonest = sorted(pattern.kept, key=lambda shape: -pattern.counts[shape])
    lists = [pattern.kept[shape] for shape in commonest]
    return [each[place] for place in range(BATCHES) for each in lists if len(each) > place]


def _about(module: Any, pattern: Pattern, program: engines.Program, kept: list[Kept], optimizer: Any) -> subject.About:
    weights = list(module.parameters())
    first = next(iter(weights), kept[0].call.tensors[0] if kept[0].call.tensors else torch.empty(0))
    shapes = sorted(pattern.counts.items(), key=lambda item: -item[1])
    return subject.About(
        module=type(module).__name__, engine=program.engine, training=pattern.training, gradients=pattern.gradients,
        device=str(first.device), threads=torch.get_num_threads(),
        dtypes=tuple(str(each.dtype).replace("torch.", "") for each in kept[0].call.tensors),
        shapes=tuple(subject.Shape(shape, calls) for shape, calls in shapes), calls=pattern.calls,
        parameters=sum(each.numel() for each in weights),
        weight_bytes=sum(each.nbytes for each in (*weights, *module.buffers())), dynamic=program.dynamic,
        autocast=None if pattern.autocast is None else str(pattern.autocast[1]).replace("torch.", ""),
        left_out=pattern.others, tried=program.tried, optimizer=optimizer,
        environment={"torch": torch.__version__, "python": sys.version.split()[0], "variables": variables(),
                     "matmul_precision": torch.get_float32_matmul_precision()},
    )  # fmt: skip


def _computing(module: Any) -> Any:
    """What a compiler was given, or what a wrapper holds."""
    while type(module).__name__ == _TRACED or type(module).__name__ in _WRAPPERS:
        module = module._orig_mod if type(module).__name__ == _TRACED else module.module
    return module


def _sum(module: Any) -> float:
    """Changes when the weights do."""
    with torch.no_grad():
        return sum(float(each.detach().double().sum()) for each in module.parameters())


def _autocast(call: Call) -> tuple[Any, ...] | None:
    """Device and type that the job casts to by itself just now."""
    device = next((each.device.type for each in call.tensors), "cpu")
    try:
        if torch.is_autocast_enabled(device):
            return (device, torch.get_autocast_dtype(device))
    except TypeError:  # releases before 2.4 do not take the device
        if device == "cpu" and torch.is_autocast_cpu_enabled():
            return (device, torch.get_autocast_cpu_dtype())
    return None


def _compiling() -> bool:
    asked = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return bool(asked is not None and asked())


class _Quiet:
    """A channel that drops what one thread writes to it."""

    def __init__(self, channel: Any) -> None:
        self._channel, self._thread = channel, threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else int(self._channel.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


@contextmanager
def _unnoticed() -> Iterator[None]:
    """The module's code runs once more to be captured: nobody sees what it prints, and random numbers are put back."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Quiet(out), _Quiet(err)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdout, sys.stderr = out, err
