"""Kernels that compute nothing: they only bring data into another format, order or type."""

from __future__ import annotations

import re
from functools import lru_cache

from npulens.analysis.device.kernels import kernels
from npulens.analysis.device.kinds import TYPED, Coded, Kind
from npulens.analysis.run import Run

#: What operator types, kernel names and the framework's operators call conversions. MIOpen's batched_transpose brings
#: images to NHWC and back around its convolutions.
CONVERSIONS = (
    ("TransData", re.compile(r"transdata|nchwtonhwc|nhwctonchw|im2col_4d|npu_format_cast|batched_transpose", re.I)),
    ("Transpose", re.compile(r"^transposed?(v2)?$|_TransposeAiCore_Transpose$", re.I)),
    ("Cast", re.compile(r"^cast(v2)?$|_CastAiCore_Cast$|^(_to_copy|to|type_as|float|half|bfloat16)$", re.I)),
    ("Contiguous", re.compile(r"^(asstrided|identity|contiguous|viewcopy|clone)$", re.I)),
)  # fmt: skip


def conversions(run: Run) -> Coded[str | None]:
    """What each kind of kernels converts."""
    return run.get(kernels).kinds.each(conversion, "memset", "core", *TYPED, "input_dtypes")


def conversion(kind: Kind) -> str | None:
    """What a kernel converts; None if it computes, or if it runs on the AI CPU and that is what costs."""
    if kind.memset or kind.on_aicpu:
        return None
    if kind.op is not None:  # Kineto: a copy kernel under a converting operator, or on a CPU the operator itself
        name = kind.op.removeprefix("aten::")
        if name == "copy_" and "copy" in kind.name.lower() and copied(kind) != (None, None):
            return "Cast" if len(set(copied(kind))) > 1 else None
        also = name if "copy" in kind.name.lower() or kind.name == kind.op else ""
        return _named(kind.name, also)
    return _named(kind.op_type or kind.name, "")


@lru_cache(maxsize=65536)
def _named(*told: str) -> str | None:
    """What names say; an empty one says nothing."""
    names = [name for name in told if name]
    return next((found for found, pattern in CONVERSIONS if any(pattern.search(name) for name in names)), None)


def of_type(name: str) -> str | None:
    """What an operator of this type converts; None if it computes."""
    return _named(name)


def copied(kind: Kind) -> tuple[str | None, str | None]:
    """Of a copy: the types it writes and reads, as its operator was called with; of anything else nothing."""
    if (kind.op or "").removeprefix("aten::") != "copy_":
        return None, None
    found = re.findall(r'"([^"]+)"', kind.input_dtypes or "")
    return (found[0], found[1]) if len(found) > 1 else (None, None)
