"""Whether results are right: every variant in every type is compared with the same step in float64.

The verdict is the error's norm as a share of the result's norm. Single elements that cancel to nearly nothing have
enormous relative errors and mean nothing. The largest distance in units of the last place, and the cosine, stand beside
it. A NaN or an infinity where the truth has none is wrong whatever the norm says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

#: Relative error of the norm that rounding explains, with sums in float32.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
#: float32 whose products run in TF32 or HF32: ten bits of mantissa.
SHORT_PRODUCTS = 5e-3
#: Bits of the mantissa, the leading one included, and the exponent of the smallest normal number.
_FORMATS = {"float64": (53, -1021), "float32": (24, -125), "float16": (11, -13), "bfloat16": (8, -125)}


@dataclass(frozen=True)
class Numerics:
    """How far a result is from the truth; ``ok`` is the verdict, ``why`` the reason where it is no."""

    ok: bool
    why: str | None
    relative_error: float | None  # None: not a number
    tolerance: float
    max_ulp: float | None
    cosine: float | None
    nan: int
    inf: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def tolerance(dtype: str, modes: Mapping[str, Any]) -> float:
    """What rounding explains in a type; ``modes`` is what the backend says of its precision."""
    return SHORT_PRODUCTS if dtype == "float32" and modes.get("short_products") else TOLERANCES[dtype]


@contextmanager
def full_products() -> Iterator[None]:
    """float32 with products in float32: TF32 and HF32 switched off, and back on afterwards."""
    import torch

    precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    device = getattr(torch, "npu", None)
    short = [place for place in (device and device.conv, device and device.matmul) if place and place.allow_hf32]
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    for place in short:
        place.allow_hf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = tf32
        for place in short:
            place.allow_hf32 = True


def compare(found: Any, truth: Any, dtype: str, allowed: float) -> Numerics:
    """The worst of all outputs; ``found`` and ``truth`` are a tensor or a tuple of them."""
    ours, theirs = _several(found), _several(truth)
    if len(ours) != len(theirs):
        return Numerics(False, f"{len(ours)} outputs instead of {len(theirs)}", None, allowed, None, None, 0, 0)
    told = [_compare(mine, its, dtype, allowed) for mine, its in zip(ours, theirs)]
    return next((each for each in told if not each.ok), max(told, key=lambda each: each.relative_error or 0.0))


def _several(output: Any) -> list[Any]:
    return list(output) if isinstance(output, (tuple, list)) else [output]


def _compare(found: Any, truth: Any, dtype: str, allowed: float) -> Numerics:
    import torch

    mine, its = found.detach().to("cpu", torch.float64), truth.detach().to("cpu", torch.float64)
    if mine.shape != its.shape:
        why = f"the result has the shape {list(mine.shape)} instead of {list(its.shape)}"
        return Numerics(False, why, None, allowed, None, None, 0, 0)
    nan = int((mine.isnan() & ~its.isnan()).sum())
    inf = int((mine.isinf() & ~its.isinf()).sum())
    if nan or inf or not bool(its.isfinite().all()):
        why = f"{nan} NaN and {inf} infinities" if nan or inf else "the reference itself is not finite on these numbers"
        return Numerics(False, why, None, allowed, None, None, nan, inf)
    error, norm = float((mine - its).norm()), float(its.norm())
    relative = error / norm if norm else error
    scale = float(mine.norm()) * norm
    cosine = float((mine * its).sum()) / scale if scale else 1.0 if not error else 0.0
    wrong = None if relative <= allowed else f"the error is {relative:.2g} of the result, {allowed:.2g} is allowed"
    return Numerics(wrong is None, wrong, relative, allowed, _max_ulp(mine, its, dtype), cosine, 0, 0)


def _max_ulp(found: Any, truth: Any, dtype: str) -> float:
    """The largest distance, in units of the last place that the truth has in the type."""
    import torch

    if not truth.numel():
        return 0.0
    bits, smallest = _FORMATS[dtype]
    exponent = torch.frexp(truth)[1].clamp(min=smallest)
    unit = torch.ldexp(torch.ones_like(truth), exponent - bits)
    return float(((found - truth).abs() / unit).max())
