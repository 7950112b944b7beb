"""What the tests with the real torch_npu found out, for the end of their run and for the docs.

A module of its own: pytest imports conftest.py under another name than the tests do, and would fill another one.
"""

from __future__ import annotations

from typing import Any

#: What make test-npu-contract prints at its end.
FIGURES: dict[str, Any] = {}
#: Workload -> variant -> what was checked of it here; NPULENS_EVIDENCE names the file that keeps it for the docs.
CHECKED: dict[str, dict[str, list[str]]] = {}


def checked(name: str, variant: str, what: str) -> None:
    """Notes that a test found nothing wrong with this of a variant."""
    found = CHECKED.setdefault(name, {}).setdefault(variant, [])
    found.extend([what] if what not in found else [])
