"""What a person types into the job to get what a rewrite does: Python for the job's own `model`.

A rewrite may say it itself as `PASTE`. Where it depends on the program it is made from what was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npulens.collectors.lab.rewrites.rewrite import Rewrite

_MOST = 8_000
_PLAIN = {
    "compile": "model = torch.compile(model)",
    "freeze": 'model = torch.compile(model.eval().requires_grad_(False), options={"freezing": True})',
    "channels_last": "model = model.to(memory_format=torch.channels_last)\n"
                     "x = x.contiguous(memory_format=torch.channels_last)  # every 4-D input",
    "bf16": "model = model.to(torch.bfloat16)\ny = model(x.to(torch.bfloat16)).float()",
    "fp16": "model = model.to(torch.float16)\ny = model(x.to(torch.float16)).float()",
}  # fmt: skip


def pasted(rewrite: Rewrite, name: str, program: Mapping[str, Any], changes: Mapping[str, Any] | None) -> str | None:
    """The text to paste; None where nobody knows one. ``program`` and ``changes`` are as ``drawing`` writes them."""
    own = getattr(rewrite, "PASTE", None)
    if isinstance(own, str) and own.strip():
        return own.strip()[:_MOST]
    if name in _PLAIN:
        return _PLAIN[name]
    make = _MADE.get(name)
    text = make(program, changes) if make is not None and changes is not None else None
    return text if text is None or len(text) <= _MOST else None


def _fold(program: Mapping[str, Any], changes: Mapping[str, Any]) -> str | None:
    """Pairs of modules, where each module is called once."""
    nodes, gone = {each["name"]: each for each in program["nodes"]}, set(changes["gone"])
    pairs = []
    for name in changes["gone"]:
        norm = nodes.get(name)
        before = nodes.get(norm["inputs"][0]) if norm and norm["op"] == "batch_norm" and norm["inputs"] else None
        if norm is None or before is None or not norm["module"] or not before["module"] or before["name"] in gone:
            return None
        pairs.append((before["module"], norm["module"], before["op"]))
    if len({pair[:2] for pair in pairs}) != len(pairs):
        return None
    fuse = {"linear": "fuse_linear_bn_eval"}
    used = sorted({fuse.get(op, "fuse_conv_bn_eval") for _, _, op in pairs})
    lines = [f"from torch.nn.utils.fusion import {', '.join(used)}", "", "model.eval()"]
    for one in used:
        mine = [f'    ("{first}", "{norm}"),' for first, norm, op in pairs if fuse.get(op, "fuse_conv_bn_eval") == one]
        lines += ["for first, norm in [", *mine, "]:"]
        lines += [f"    fused = {one}(model.get_submodule(first), model.get_submodule(norm))"]
        lines += ["    model.set_submodule(first, fused)", "    model.set_submodule(norm, torch.nn.Identity())"]
    return "\n".join(lines)


def _sdpa(program: Mapping[str, Any], changes: Mapping[str, Any]) -> str | None:
    """The call; which lines it replaces stands beside it."""
    return ("attended = torch.nn.functional.scaled_dot_product_attention(\n"
            "    query, key, value,  # the key as it is before it is transposed\n"
            "    attn_mask=mask,  # what was added to the scores; None where nothing was\n"
            f"    scale={_scale(changes)},\n)")  # fmt: skip


def _scale(changes: Mapping[str, Any]) -> str:
    scales = {part.split("=")[1].strip(" ),") for line in (changes["difference"] or "").splitlines()
              if line.startswith("+") and "scaled_dot_product_attention" in line
              for part in line.split("scale ")[1:2]}  # fmt: skip
    return scales.pop() if len(scales) == 1 else "scale"


_MADE: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str | None]] = {"fold": _fold, "sdpa": _sdpa}
