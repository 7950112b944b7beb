"""Whether a device computes what it should, and whether its memory is accounted for."""

from __future__ import annotations

from typing import Any

from npulens.collectors import kernels
from npulens.collectors.backends.backend import Backend
from npulens.collectors.doctor.check import FAIL, PASS, SKIP, Check
from npulens.collectors.harness.numerics import compare, tolerance
from npulens.collectors.workloads.workload import Case, NotHere, names, workload

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
