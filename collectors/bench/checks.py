"""Checks the results of every variant in every type, before anything is timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npulens.collectors.bench import text
from npulens.collectors.bench.session import Session
from npulens.collectors.harness.numerics import compare, full_products, tolerance
from npulens.collectors.workloads.workload import NotHere

#: What torch raises when a variant cannot do a type or a shape.
FAILURES = (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError, MemoryError)


def run(session: Session) -> None:
    """Every variant and type against float64, before anything is timed."""
    session.doing = "the numerics"
    truth = session.subject.truth()
    session.say(text.NUMERICS)
    for dtype in session.subject.dtypes:
        for variant in session.subject.variants:
            session.doing = f"the numerics of {variant} in {dtype}"
            found = check(session, variant, dtype, truth)
            if found["ok"] is not None:
                session.ran.setdefault(dtype, {})[variant] = found["ok"]
            session.say(text.numerics(session.add("numerics", {**session.where(variant, dtype), **found})))
        if dtype == "float32" and session.backend.properties().get("short_products"):
            _full(session, truth)


def _full(session: Session, truth: Any) -> None:
    """The same with products in float32: whether an error comes from the variant or from how it multiplies."""
    with full_products():
        for variant in session.ran.get("float32", {}):
            session.doing = f"the numerics of {variant} in float32 with full products"
            found = check(session, variant, "float32", truth)
            where = session.where(variant, "float32 full")
            session.say(text.numerics(session.add("numerics", {**where, **found})))


def check(
    session: Session, variant: str, dtype: str, truth: Any, shape: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The verdict on one case; ``ok`` is None where it cannot run here, with the reason."""
    try:
        output = session.subject.build(variant, dtype, shape).step()
        session.backend.synchronize()
    except NotHere as error:
        return _none(None, str(error))
    except FAILURES as error:
        return _none(None, f"it failed: {text.first_line(error)}")
    return compare(output, truth, dtype, tolerance(dtype, session.backend.properties())).as_dict()


def _none(ok: bool | None, why: str) -> dict[str, Any]:
    empty = dict.fromkeys(("relative_error", "tolerance", "max_ulp", "cosine", "nan", "inf"))
    return {"ok": ok, "why": why, **empty}
