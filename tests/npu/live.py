"""Run in a process of its own with the real torch_npu: what it answers when it is asked, as JSON."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from pathlib import Path
from typing import Any

FACTS = json.loads(Path(__file__).with_name("facts.json").read_text("utf-8"))["has"]


def resolve(path: str) -> Any:
    """The object of a dotted name."""
    import torch
    import torch_npu
    import torch_npu.optim
    import torch_npu.profiler.profiler  # noqa: F401

    found: Any = {"torch": torch, "torch_npu": torch_npu}[path.split(".")[0]]
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    return found


def arguments(path: str) -> list[str] | None:
    """The arguments as the facts spell them; None where there is no such thing or Python cannot tell them."""
    try:
        taken = list(inspect.signature(resolve(path)).parameters.values())
    except (AttributeError, TypeError, ValueError):
        return None
    if taken and taken[0].name in ("self", "cls"):  # a method asked for at its class
        taken = taken[1:]
    if any(each.kind == each.VAR_POSITIONAL for each in taken):  # a wrapper that hands on what it is given
        return None
    placed = [each.name for each in taken if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    spelled = [f"{at:02d} {name}" for at, name in enumerate(placed)]
    return spelled + [f"-- {each.name}" for each in taken if each.kind == each.KEYWORD_ONLY]


def schema(name: str) -> list[str]:
    """Those of an operator, from its dispatcher's schema."""
    import torch

    taken = getattr(torch.ops.npu, name).default._schema.arguments
    return [f"{at:02d} {each.name}" for at, each in enumerate(taken)]


def registry() -> dict[str, int]:
    """How many of torch's operators have a kernel for the NPU, and how many are the NPU's own."""
    import torch

    names = torch._C._dispatch_get_all_op_names()
    aten = [name for name in names if name.startswith("aten::")]
    mine = [name for name in aten if torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")]
    own = {name.split(".")[0] for name in names if name.startswith("npu::")}
    return {"aten": len(aten), "with_npu_kernel": len(mine), "npu_operators": len(own)}


def attributes() -> dict[str, Any]:
    """Names that the facts do not hold: instances, and what is made when it is first asked for."""
    import torch

    return {
        "conv_hf32": torch.npu.conv.allow_hf32, "matmul_hf32": torch.npu.matmul.allow_hf32,
        "torchair": "torchair" in sys.modules,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    import torch_npu

    told = {
        "version": torch_npu.__version__,
        "names": {scope: sorted(set(dir(resolve(scope)))) for scope in FACTS if not scope.endswith("()")},
        "arguments": {
            scope: schema(path.split(".")[1]) if path.startswith("torch_npu.npu_") else arguments(path)
            for scope in FACTS if scope.endswith("()") and (path := scope.removesuffix("()"))
        },
        "registry": registry(), **attributes(),
    }  # fmt: skip
    print("\n" + json.dumps(told))


if __name__ == "__main__":
    main()
