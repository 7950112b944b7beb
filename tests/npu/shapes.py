"""Run in a process of its own with the real torch_npu: every variant of every workload, on tensors without numbers.

torch_npu's shape functions answer for its operators, so a wrong argument shows without a device. Printed as JSON:
shapes, the operators that were asked for and whether torch_npu has a kernel for each, or why a variant did not run.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import torch
import torch_npu  # noqa: F401
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from npulens.collectors.workloads.workload import NotHere, Workload, names, workload


class Asked(TorchDispatchMode):
    """Notes which operators reach the device."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        if any(each.device.type == "npu" for each in tensors(out)):
            self.operators.add(function._schema.name + ("." + function._overloadname).removesuffix(".default"))
        return out


def tensors(out: Any) -> list[Any]:
    return [each for each in (out if isinstance(out, tuple | list) else [out]) if isinstance(each, torch.Tensor)]


def kernel(operator: str) -> str:
    """Who answers for an operator on an NPU; "cpu" is torch_npu's fall-back, which copies there and back."""
    for whose, keys in {
        "npu": ("PrivateUse1", "AutogradPrivateUse1"),
        "composite": ("CompositeImplicitAutograd", "CompositeExplicitAutograd"),
    }.items():
        if any(torch._C._dispatch_has_kernel_for_dispatch_key(operator, key) for key in keys):
            return whose
    out = operator.partition(".")[0].removesuffix("_") + ".out"  # torch makes the others of it, where it is structured
    structured = torch._C._dispatch_has_kernel_for_dispatch_key(operator, "CompositeExplicitAutogradNonFunctional")
    return "npu" if structured and torch._C._dispatch_has_kernel_for_dispatch_key(out, "PrivateUse1") else "cpu"


def run(module: Workload, variant: str) -> dict[str, Any]:
    """One variant on a device without numbers."""
    dtype = "float16" if "float16" in module.DTYPES else module.DTYPES[0]
    asked = Asked()
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), asked:
            out = module.build(variant, module.SHAPES["small"], dtype, "npu:0").step()
    except NotHere as reason:
        return {"not_here": str(reason)}
    except (RuntimeError, NotImplementedError, AssertionError, ValueError, TypeError, AttributeError) as error:
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    return {"shapes": [list(each.shape) for each in tensors(out)], "asked": sorted(asked.operators),
            "devices": sorted({each.device.type for each in tensors(out)})}  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    torch.npu.current_device()  # its shape functions want to know the chip
    told = {}
    for name in names():
        module = workload(name)
        plain = module.build("reference", module.SHAPES["small"], "float32", "cpu").step()
        told[name] = {
            "reference": [list(each.shape) for each in tensors(plain)],
            "variants": {variant: run(module, variant) for variant in module.VARIANTS},
        }
    asked = {each for one in told.values() for said in one["variants"].values() for each in said.get("asked", ())}
    print("\n" + json.dumps({"workloads": told, "kernels": {each: kernel(each) for each in sorted(asked)}}))


if __name__ == "__main__":
    main()
