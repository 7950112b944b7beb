"""Run in a process of its own with triton-ascend: every kernel of the workloads, as far as it compiles without CANN.

The launches are those of the workloads themselves; each stops at Linalg for the chip, which triton-ascend writes by
itself. What comes after, the machine code, ships with CANN only. Printed as JSON, one entry a kernel and signature.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import subprocess
from typing import Any

import triton
import triton.compiler
from triton._C.libtriton import ir
from triton.backends.ascend import compiler as ascend
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from npulens.collectors import kernels
from npulens.collectors.workloads.workload import NotHere, names, workload

CHIP = "Ascend910B2"
found: dict[str, dict[str, Any]] = {}
#: The workload and variant that is built just now.
running: list[str] = []


class Chip:
    """A driver that knows which chip it is for, and has none."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("npu", CHIP, 0)


class Launched:
    """A kernel that does nothing when it is launched."""

    function = packed_metadata = None

    def launch_metadata(self, *_: object) -> None:
        return None

    def _init_handles(self) -> None:
        return None

    def run(self, *_: object) -> None:
        return None


def lowered(source: Any, target: GPUTarget, options: dict[str, Any]) -> Launched:
    """Instead of triton's compile: Triton IR, then Linalg."""
    backend = triton.compiler.make_backend(target)
    parsed = backend.parse_options(options)
    metadata = {"target": target, **parsed.__dict__}
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    types = ",".join(str(kind) for kind in source.signature.values())
    key = f"{source.name}({types})"
    try:
        module = source.make_ir(parsed, backend.get_codegen_implementation(), backend.get_module_map(), context)
        linalg = ascend.ttir_to_linalg(ascend.make_ttir(module, metadata, parsed), metadata, parsed)
    except subprocess.CalledProcessError as error:
        found[key] = {"failed": error.stderr.decode(errors="replace")[-600:]}
        return Launched()
    found[key] = {
        "of": list(running), "operations": dict(_counted(linalg)),
        "mode": re.findall(r'mix_mode = "(\w+)"', linalg), "bytes": len(linalg),
    }  # fmt: skip
    return Launched()


def _counted(linalg: str) -> dict[str, int]:
    """How often the operations stand in it that say what kind of work it is."""
    return {name: len(re.findall(rf"\b{re.escape(name)}\b", linalg)) for name in ("linalg.matmul", "linalg.generic")}


def loaded(name: str, device: str) -> Any:
    """Instead of the collectors' load, which asks for a device."""
    return importlib.import_module(f"npulens.collectors.kernels.{name}")


def main() -> None:
    driver.set_active(Chip())
    triton.compiler.compile = lowered
    kernels.load = loaded
    for name in names():
        module = workload(name)
        for variant in set(module.VARIANTS) - {"reference", "compiled"}:
            running[:] = [name, variant]
            for dtype in module.DTYPES:
                with contextlib.suppress(NotHere):  # a variant of another device's
                    module.build(variant, module.SHAPES["small"], dtype, "cpu").step()
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
