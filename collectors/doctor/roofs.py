"""The roofs of this machine, measured: how fast torch multiplies, moves and starts operators here.

Each roof is the best of many short shots. What disturbs a shot only makes it slower, so the best ones of a quiet
moment lie close together. Shots of all roofs take turns, and go on until the three best of each agree. The median with
its interval stands beside the best: it shows how quiet the machine was.

What was measured is kept in the user's cache, by machine, device and version of torch. `collect` copies it into its
manifest from there and never measures by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.backends.probe import Choice
from npulens.collectors.harness.quantiles import quantiles
from npulens.collectors.harness.unprofiled import refuse_profiled
from npulens.collectors.telemetry import machine
from npulens.collectors.telemetry.processor import Processor, our_cores

#: A shot lasts so long at least, and a single call so long at most: larger sizes are not tried.
SHOT_NS, LONGEST_NS = 10_000_000, 250_000_000
#: Shots of each roof, and seconds of all of them together: at least, and at most.
SHOTS, SECONDS, PATIENCE_S = 20, 10.0, 40.0
#: So many of the best shots must lie within this share of the best.
AGREEING, AGREEMENT = 3, 0.02
#: Sides of the square matrices.
SIDES = (256, 512, 1024, 2048, 4096, 8192, 16384)
#: An array for memory: so many times the last cache, and so much at least; together at most this part of what is free.
TIMES, LEAST_BYTES, PART = 4, 256 << 20, 0.5
#: Arrays that the memory's shots need.
_ARRAYS = 3
#: A type that multiplies slower than this share of fp32 has no kernel of its own here.
_NO_KERNEL = 0.5
#: After so many shots a size that reaches less than this share of the fastest is not tried again.
FEW, _FAR = 5, 0.7
#: As torch calls a type -> as the tables of peaks do. fp32 comes first: others are compared with it.
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "int8": "int8"}


@dataclass(frozen=True)
class Roof:
    """One roof. ``best`` is in operations or bytes a second, for ``launch`` in ns of a call."""

    kind: str  # matmul, memory, launch
    name: str  # fp32, copy, launch
    best: float
    median: float
    low: float | None  # of the median's 95 % interval; a few shots bound it on neither side
    high: float | None
    agree: bool  # whether the best shots lie close together
    shots: int
    size: int  # side of the matrices, or bytes of an array


@dataclass
class _Shots:
    """One thing to do again and again, and what it took each time, in ns of a call."""

    size: int
    amount: float  # operations or bytes of a call
    step: Callable[[], Any]
    calls: int = 0
    ns: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """In operations or bytes a ns."""
        return self.amount / min(self.ns)

    def shoot(self, backend: Backend) -> None:
        """Once more; the first time untimed, because it builds the kernel and tells how many calls make a shot."""
        if not self.calls:
            self.step()
            self.calls = _calls(backend, self.step)
        self.ns.append(_shot(backend, self.step, self.calls) / self.calls)

    def agree(self) -> bool:
        best = sorted(self.ns)[:AGREEING]
        return len(best) == AGREEING and best[-1] <= (1 + AGREEMENT) * best[0]


@dataclass
class _Target:
    """One roof while it is measured: it grows by sizes as long as a call is short, and its fastest size is the roof."""

    kind: str
    name: str
    sizes: list[_Shots]
    larger: Iterator[_Shots] = field(default_factory=lambda: iter(()))

    @property
    def first(self) -> _Shots:
        return max(self.sizes, key=lambda each: each.best)

    def shoot(self, backend: Backend) -> None:
        """A shot of every size that may still be the fastest; then perhaps a larger one."""
        for each in self.sizes:
            if len(each.ns) < FEW or each.best > _FAR * self.first.best:
                each.shoot(backend)
        if 8 * min(self.sizes[-1].ns) < LONGEST_NS and (more := next(self.larger, None)) is not None:
            try:
                more.shoot(backend)
            except RuntimeError:  # no memory for this size
                self.larger = iter(())
            else:
                self.sizes.append(more)

    def enough(self) -> bool:
        return len(self.first.ns) >= SHOTS

    def roof(self) -> Roof:
        first = self.first
        told = quantiles([round(1000 * ns) for ns in first.ns], (0.5,))[0]  # of a launch the tenths count
        median, high = self._rate(told.value / 1000), self._rate(told.low / 1000)
        low = None if told.high is None else self._rate(told.high / 1000)
        low, up = (high, low) if self.kind == "launch" else (low, high)
        best = self._rate(min(first.ns))
        return Roof(self.kind, self.name, best, median, low, up, first.agree(), len(first.ns), first.size)

    def _rate(self, ns: float) -> float:
        return ns if self.kind == "launch" else self.first.amount * 1e9 / ns


def measure(
    backend: Backend, choice: Choice, seconds: float = SECONDS, patience_s: float = PATIENCE_S
) -> dict[str, Any]:
    """Measures every roof of a device; what there is none of is among ``left_out``, with the reason."""
    import torch

    refuse_profiled()
    left_out: dict[str, str] = {}
    with torch.no_grad():
        targets = [*_matmuls(backend, left_out), *_streams(backend, left_out), _launch(backend)]
        begun = time.monotonic()
        while not _enough(targets, time.monotonic() - begun, seconds, patience_s):
            for each in targets:
                each.shoot(backend)
    refuse_profiled()
    roofs = list(_kept(targets, left_out))
    told = dict(backend.properties())
    return {
        "backend": backend.name, "device": told.get("name") or choice.capability.device or backend.device,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": dict(choice.capability.versions or {}), "threads": told.get("threads"),
        "seconds": round(time.monotonic() - begun, 1), "roofs": [asdict(each) for each in roofs],
        "left_out": left_out,
    }  # fmt: skip


def _enough(targets: Sequence[_Target], taken: float, seconds: float, patience_s: float) -> bool:
    """Every roof has its shots, and either they agree or patience is out."""
    if taken < seconds or not all(each.sizes[0].ns and each.enough() for each in targets):
        return False
    return taken >= patience_s or all(each.first.agree() for each in targets)


def _kept(targets: Sequence[_Target], left_out: dict[str, str]) -> Iterator[Roof]:
    """The roofs; not of a type that is multiplied slower than fp32, which no unit here is made for."""
    full = next((each.first.best for each in targets if each.kind == "matmul" and each.name == "fp32"), 0.0)
    for each in targets:
        if each.kind == "matmul" and each.first.best < _NO_KERNEL * full:
            left_out[each.name] = "no_kernel"
        else:
            yield each.roof()


def _shot(backend: Backend, step: Callable[[], Any], calls: int) -> int:
    """So many calls in a row by the device's own clock, in ns."""
    first, last = backend.marks(2)
    backend.synchronize()
    backend.mark(first)
    for _ in range(calls):
        step()
    backend.mark(last)
    backend.synchronize()
    return max(1, backend.between_ns(first, last))


def _calls(backend: Backend, step: Callable[[], Any]) -> int:
    """How many calls last as long as a shot."""
    calls = 1
    while (took := _shot(backend, step, calls)) < SHOT_NS and calls < 1 << 20:
        calls = min(1 << 20, max(2 * calls, int(calls * SHOT_NS / took)))
    return calls


# ---- Products of matrices


def _matmuls(backend: Backend, left_out: dict[str, str]) -> Iterator[_Target]:
    for torch_name, name in TYPES.items():
        own = _shorter(backend) if name == "fp32" else name
        if own is None:
            left_out[name] = "short_products"
            continue
        larger = _products(backend.device, torch_name)
        try:
            smallest = next(larger)
            smallest.step()
        except (RuntimeError, TypeError, AttributeError):  # torch's own: no such product on this device
            left_out[own] = "no_kernel"
            continue
        yield _Target("matmul", own, [smallest], larger)


def _shorter(backend: Backend) -> str | None:
    """What products of fp32 are computed in, as this process is set; None: nobody can tell."""
    told = backend.properties()
    if told.get("matmul_hf32"):
        return "hf32"
    short = told.get("matmul_precision", "highest") != "highest"
    return "fp32" if not short else "tf32" if backend.name == "cuda" else None


def _products(device: str, torch_name: str) -> Iterator[_Shots]:
    """Products of square matrices, the smallest first."""
    import torch

    dtype = getattr(torch, torch_name)
    for side in SIDES:
        torch.manual_seed(0)
        if torch_name == "int8":
            a, b = (torch.randint(-8, 8, (side, side), dtype=dtype, device=device) for _ in range(2))
            multiply: Callable[[Any, Any], Any] = torch._int_mm
            step: Callable[[], Any] = partial(multiply, a, b)
        else:
            a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
            step = partial(torch.mm, a, b, out=torch.empty(side, side, dtype=dtype, device=device))
        yield _Shots(side, 2.0 * side**3, step)


# ---- Memory, and what it costs to start something


def _streams(backend: Backend, left_out: dict[str, str]) -> Iterator[_Target]:
    """Arrays far beyond the last cache; bytes are counted as kernels are judged: read once, written once."""
    import torch

    size = max(LEAST_BYTES, TIMES * (backend.cache_bytes() or 0))
    free = _free_bytes(backend)
    if free is not None and _ARRAYS * size > PART * free:
        left_out["memory"] = "no_memory"
        return
    values = size // 4
    try:
        a, b, c = (torch.ones(values, device=backend.device) for _ in range(_ARRAYS))
    except RuntimeError:  # others hold what the device calls free
        left_out["memory"] = "no_memory"
        return
    steps: tuple[tuple[str, int, Callable[[], Any]], ...] = (
        ("copy", 2, lambda: c.copy_(a)), ("triad", 3, lambda: torch.add(a, b, alpha=2.0, out=c)), ("read", 1, a.sum),
    )  # fmt: skip
    for name, moved, step in steps:
        yield _Target("memory", name, [_Shots(4 * values, 4.0 * moved * values, step)])


def _free_bytes(backend: Backend) -> int | None:
    held = backend.memory()
    if held is not None:
        return None if held.total is None else held.total - held.allocated
    told = machine.memory()
    return None if told is None else told[0]


def _launch(backend: Backend) -> _Target:
    """An operator on one value, many times in a row: what it costs to start one where nothing waits."""
    import torch

    value = torch.zeros(1, device=backend.device)
    return _Target("launch", "launch", [_Shots(1, 1.0, partial(value.add_, 1))])


def against(
    found: Mapping[str, Any], dtype: str, flops: int | None, moved: int | None, ns: float | None
) -> dict[str, Any] | None:
    """What a step of a known work reaches of kept roofs; None where its work or a roof that it meets is not known."""
    best = {(each["kind"], each["name"]): each["best"] for each in found["roofs"]}
    peak = best.get(("matmul", TYPES.get(dtype, dtype)))
    memory = max((rate for (kind, _), rate in best.items() if kind == "memory"), default=None)
    if not ns or not peak or not memory or flops is None or moved is None:
        return None
    compute_ns, memory_ns = flops * 1e9 / peak, moved * 1e9 / memory
    least = max(compute_ns, memory_ns)
    bound = "compute" if compute_ns >= memory_ns else "memory"
    return {"least_ns": least, "share": least / ns, "bound": bound, "measured_at": found["measured_at"]}


# ---- Where it is kept


def keep(choice: Choice, found: Mapping[str, Any]) -> Path:
    """Writes what was measured for this machine; the path."""
    path = _path(choice)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}.half")
    half.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    half.replace(path)
    return path


def kept(choice: Choice) -> dict[str, Any] | None:
    """What was measured on this machine, with this device, torch and number of threads; None: nothing."""
    try:
        found = json.loads(_path(choice).read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: this user has no home
        return None
    return found if isinstance(found, dict) else None


def _path(choice: Choice) -> Path:
    capability = choice.capability
    same = {
        "backend": choice.actual, "device": capability.device, "versions": dict(capability.versions or {}),
        "node": platform.node(), "cpu": Processor().name(), "cores": len(our_cores()),
        "quota": machine.core_quota(), "threads": os.environ.get("OMP_NUM_THREADS"),
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:16]
    return cache_dir() / "roofs" / f"{choice.actual}-{digest}.json"


def cache_dir() -> Path:
    told = os.environ.get("XDG_CACHE_HOME")
    if told:
        return Path(told) / "npulens"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "npulens"
