"""Kernels that multiply for several experts at once, told by their names."""

from __future__ import annotations

import re

_EXPERTS = re.compile(
    r"grouped_?(mat_?mul|gemm|mm\b)|group_?gemm|moe_?(gemm|ffn|mlp)|fused_?(moe|experts)|expert_?(gemm|ffn|mlp)", re.I
)
_APART = re.compile(r"transpose|tensormap|memset|quant|cast|fill", re.I)  # what prepares the data for them


def of_experts(name: str) -> bool:
    """Whether a kernel of this name or type computes for experts."""
    return bool(_EXPERTS.search(name)) and not _APART.search(name)
