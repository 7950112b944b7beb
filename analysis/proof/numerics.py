"""The values that a device computed, against those that float64 gives for the same seed on another machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from npulens.analysis.proof.verdict import Verdict, absent, judged

#: A single value may be off by so many times what the norm of all may be, of itself or of the mean size of all.
SINGLE = 20
_ALLOWED = {"float32": 5e-3, "float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}


def right(cases: Sequence[Mapping[str, Any]], truths: Mapping[str, Sequence[Mapping[str, Any]]] | None) -> Verdict:
    """Every case that ran, value by value. The tolerance is the archive's own, but never wider than the type's."""
    ran = [case for case in cases if case["outcome"] == "run"]
    if not ran:
        return absent("numerics", "", "numerics_untold")
    if truths is None:
        return absent("numerics", "", "numerics_no_torch", {"n": len(ran)})
    wrong, values, worst = [], 0, 0.0
    for case in ran:
        truth, allowed = truths.get(case["workload"]), min(case["allowed"], _ALLOWED.get(case["dtype"], 0.0))
        off = _off(case["values"], truth)
        values += sum(map(len, case["values"]))
        worst = max(worst, off / allowed if allowed and math.isfinite(off) else math.inf)
        if not off <= SINGLE * allowed:
            wrong.append(f"{case['workload']} {case['variant']} {case['dtype']}")
    seen = {"n": len(ran), "values": values, "worst": round(worst, 2) if math.isfinite(worst) else "inf",
            "most": SINGLE, "wrong": len(wrong), "first": wrong[0] if wrong else "–"}  # fmt: skip
    return judged("numerics", "", bool(wrong), "numerics", seen)


def _off(found: Sequence[Sequence[float]], truth: Sequence[Mapping[str, Any]] | None) -> float:
    """The largest difference, as a share of the value or of the mean size of its output."""
    if truth is None or len(found) != len(truth):
        return math.inf
    worst = 0.0
    for mine, its in zip(found, truth, strict=True):
        if len(mine) != len(its["values"]):
            return math.inf
        for a, b in zip(mine, its["values"], strict=True):
            scale = max(abs(b), its["size"])
            off = abs(a - b) / scale if scale else abs(a - b)
            worst = max(worst, off if off == off else math.inf)
    return worst
