"""Run in a process of its own with the real torch_npu: what its dispatcher does with each overload, as JSON."""

from __future__ import annotations

import json
import warnings

#: What torch calls them in a dispatch table, and the letter of analysis/compat/npu_operators.toml.
_KINDS = (("math kernel", "i"), ("default backend kernel", "e"), ("backend fallback", "f"), ("kernel", "k"))


def letter(table: str) -> str | None:
    """That of one operator's dispatch table, for a tensor on an NPU."""
    told = dict(line.split(": ", 1) for line in table.splitlines() if ": " in line).get("PrivateUse1", "")
    return next((letter for kind, letter in _KINDS if told.endswith(f"[{kind}]")), None)


def main() -> None:
    warnings.simplefilter("ignore")
    import torch
    import torch_npu

    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    told = {name.removeprefix("aten::"): letter(torch._C._dispatch_dump_table(name)) for name in names}
    cpu = [name for name in told if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU")]
    print("\n" + json.dumps({"version": torch_npu.__version__, "letters": told, "on_cpu": cpu}))


if __name__ == "__main__":
    main()
