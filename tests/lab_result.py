"""A result of the laboratory as the collectors write it, made up: every verdict, drawings, no torch, no waiting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SUBJECT = "Net_eval_host_1_1795000000000000000"


def speed(said: str, ratio: float, reach: float = 1.02, why: str | None = None) -> dict[str, Any]:
    return {
        "said": said, "why": why, "ratio": ratio, "low": ratio / reach, "high": ratio * reach, "clock": "cpu",
        "pairs": 10, "pairs_needed": 40, "control_low": 0.99, "control_high": 1.01, "again": None, "calls": 900,
    }  # fmt: skip


def errors(of_rewrite: float = 1.4e-7, ok: bool = True, why: str | None = None) -> dict[str, Any]:
    return {"ok": ok, "why": why, "where": None if ok else "fresh", "of_original": 1.3e-7, "of_rewrite": of_rewrite,
            "allowed": 2e-6, "against_original": of_rewrite, "runs": 10}  # fmt: skip


def trial(rewrite: str, verdict: str, **more: Any) -> dict[str, Any]:
    return {"rewrite": rewrite, "verdict": verdict, "why": None, "changed": 2, "left": {}, "dtype": None,
            "errors": errors(), "speed": None, "peak_bytes": 900_000, "peak_bytes_of_original": 4_600_000,
            "first_call_s": 0.01, "nodes": [46, 44], "predicted": None, **more}  # fmt: skip


def guess(mid: float, claimed: bool = True) -> dict[str, Any]:
    work = {"launches": 46, "flops": 10**8, "moved": 36 * 10**6}
    why = None if claimed else {"name": "too_small", "values": {}}
    told = {"low": mid * 0.9, "mid": mid, "high": mid * 1.1}
    return {"guess": told, "claimed": claimed, "before": work, "after": {**work, "launches": 32}, "why": why}


def trials() -> list[dict[str, Any]]:
    return [
        trial("sdpa", "faster", speed=speed("faster", 0.661), predicted=guess(0.7)),
        trial("fold", "faster", speed=speed("faster", 0.942), predicted=guess(0.981)),
        trial("compile", "cannot_tell", speed=speed("cannot_tell", 0.9, 1.3), why={
            "name": "more_pairs", "values": {"pairs": 40}}),
        trial("merge_linears", "same", speed=speed("same", 1.001, 1.004), predicted=guess(0.99, claimed=False)),
        trial("channels_last", "slower", speed=speed("slower", 1.31)),
        trial("hasty", "refused", errors=errors(0.2, ok=False, why="the error is 0.2 of the result"), why={
            "name": "wrong", "values": {"why": "the error is 0.2 of the result", "where": "fresh"}}),
        trial("freeze", "does_not_apply", errors=None, why={"name": "gradients", "values": {}}),
    ]  # fmt: skip


def node(name: str, op: str, module: str, *inputs: str) -> dict[str, Any]:
    return {"name": name, "op": op, "module": module, "value": "float32 2 × 64 × 16 × 16", "inputs": list(inputs)}


def program(blocks: int) -> dict[str, Any]:
    """So many convolutions with BatchNorm and ReLU, then one attention that is written out."""
    nodes, last = [node("x", "placeholder", "")], "x"
    for place in range(blocks):
        for op, within in (("conv2d", "conv"), ("batch_norm", "norm"), ("relu", "act")):
            nodes.append(node(f"{op}_{place}", op, f"layer{place // 4}.{place % 4}.{within}", last))
            last = f"{op}_{place}"
    nodes += [node("q", "transpose", "attention", last), node("k", "transpose", "attention", last),
              node("scores", "matmul", "attention", "q", "k"), node("scaled", "div", "attention", "scores"),
              node("weights", "softmax", "attention", "scaled"), node("mixed", "matmul", "attention", "weights", "q"),
              node("head", "linear", "head", "mixed"), node("output", "output", "", "head")]  # fmt: skip
    return {"nodes": nodes, "count": len(nodes), "left_out": 0}


def drawing(rewrite: str, blocks: int) -> dict[str, Any]:
    if rewrite == "fold":
        held = {each["name"]: each for each in program(blocks)["nodes"]}
        convs = [{**held[f"conv2d_{place}"], "state": "changed"} for place in range(blocks)]
        relus = [
            {**held[f"relu_{place}"], "inputs": [f"conv2d_{place}"], "state": "rewired"} for place in range(blocks)
        ]
        changes = {"gone": [f"batch_norm_{place}" for place in range(blocks)], "nodes": [*convs, *relus]}
        paste = "from torch.nn.utils.fusion import fuse_conv_bn_eval\n\nmodel.eval()"
    elif rewrite == "sdpa":
        new = node("attended", "scaled_dot_product_attention", "attention", "q", "k", "q")
        head = node("head", "linear", "head", "attended")
        changes = {"gone": ["scores", "scaled", "weights", "mixed"], "nodes": [{**new, "state": "new"},
                   {**head, "state": "rewired"}]}  # fmt: skip
        paste = "attended = torch.nn.functional.scaled_dot_product_attention(query, key, value)"
    else:
        return {"what": "lab drawing", "rewrite": rewrite, "paste": f"model = torch.{rewrite}(model)", "changes": None}
    source = {"file": "serve.py", "line": 9, "code": "w = torch.softmax(q @ k / 8, -1)", "ops": ["softmax"]}
    said = {**changes, "left_out": 0, "sources": [source], "difference": "--- original\n+++ rewritten\n-old\n+new"}
    return {"what": "lab drawing", "rewrite": rewrite, "paste": paste, "changes": said}


def result(**more: Any) -> dict[str, Any]:
    return {
        "subject": f"/home/somebody/subject/{SUBJECT}", "module": "Net", "engine": "torch.export", "training": False,
        "gradients": False, "backend": "cpu", "device": "made-up processor", "captured_on": "cpu",
        "made_at": "2026-11-20T12:00:00Z", "environment": {"python": "3.11", "versions": {"torch": "2.13.0"}},
        "calls": 20, "shapes": [{"shapes": [[2, 3, 64, 64]], "calls": 20}], "method": {"pairs": 10, "seconds": 8.0},
        "error_of_original": 1.3e-7, "status": "complete", "reason": None, "trials": trials(),
        "findings": [{"rewrite": "sdpa", "detector": "unfused", "saving_ns": 1_250_000, "run_id": "ab12", "titles": {
            "en": "Attention is written out", "zh": "attention 展开书写"}}], **more,
    }  # fmt: skip


def write(directory: Path, blocks: int = 3, **more: Any) -> Path:
    """The files of a result as they lie beside a subject; the path of result.json."""
    (directory / "drawn").mkdir(parents=True, exist_ok=True)
    (directory / "result.json").write_text(json.dumps(result(**more)), "utf-8")
    held = {"original": program(blocks), **{name: drawing(name, blocks) for name in ("fold", "sdpa", "compile")}}
    for name, said in held.items():
        (directory / "drawn" / f"{name}.json").write_text(json.dumps(said), "utf-8")
    return directory / "result.json"
