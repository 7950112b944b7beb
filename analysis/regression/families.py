"""What a kernel is called where nights are compared: a family that keeps its name when the kernel is written anew.

* A matrix product is "GEMM" and the shapes it multiplies, whatever kernel does it. A library that picks another tile
  keeps the name, and another shape is another family.
* Anything else is its operator type. A capture without operator types names the operator that launched the kernel. A
  kernel that nobody is known to have launched has its own name, without template arguments and numbers.

A job whose shapes change from step to step would make a family of each. So shapes are only named if they are met in at
least half of the steps; the others together are one family. A run keeps the largest KEPT, and the rest as `OTHERS`.
"""

from __future__ import annotations

import re

#: Families that a run keeps by name. A night shows fewer (app/nightly/parts.py); the others only stand by.
KEPT = 48
OTHERS, CHANGING = "others", "GEMM of changing shapes"
#: Longer names are cut: they come from captures of anybody.
_WIDEST = 100
#: Shapes met in less than this share of the steps are not named.
_RECURS = 0.5

_PRODUCT = re.compile(r"mat_?mul|gemm|^(?:b?mm|addmm|baddbmm|addbmm|linear)$", re.I)
#: Matrix products that communicate as well: what they take depends on their peers.
_FUSED = re.compile(r"reduce|gather|scatter|alltoall", re.I)
_NAMESPACE = re.compile(r"^(?:aten|prims|npu|torch::autograd)::")
_CPP = re.compile(r"\(anonymous namespace\)::|\bat::native::|^void ")
#: MindSpore numbers its operators, a compiler its kernels: "Conv2D-op8", "triton_poi_fused_add_12".
_NUMBER = re.compile(r"(?:-op|_)\d+$")


def family(name: str, op_type: str | None, operator: str | None, shapes: str | None) -> str:
    """The family of a kernel by its name, operator type, the operator that launched it and the shapes of its inputs."""
    found = op_type or (_NAMESPACE.sub("", operator) if operator else _bare(name))
    if _PRODUCT.search(found) and not _FUSED.search(found) and (factors := _factors(shapes or "")):
        return f"GEMM {factors}"
    return " ".join(found.split())[:_WIDEST]


def recurring(families: list[str], steps: list[int], of: int) -> list[str]:
    """The families, where each was met in so many of the steps; products of shapes that come and go are one."""
    return [CHANGING if name.startswith("GEMM ") and met < _RECURS * of else name
            for name, met in zip(families, steps, strict=True)]  # fmt: skip


def _bare(name: str) -> str:
    """The name of a kernel without what tells one build of it from another."""
    last = _CPP.sub("", name).rsplit("/", 1)[-1]
    return _NUMBER.sub("", re.split(r"[<(]", last, maxsplit=1)[0]) or last


def _factors(shapes: str) -> str:
    """The two operands of a product: "1024x4096 · 4096x11008". A bias has one dimension and is none."""
    texts = re.findall(r"\[([\d, ]*)\]", shapes) if "[" in shapes else shapes.replace('"', "").split(";")
    operands = ["x".join(part.strip() for part in text.split(",")) for text in texts if text.count(",")]
    return " · ".join(operands[:2]) if len(operands) > 1 else ""
