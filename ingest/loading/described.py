"""What `npulens collect` wrote down beside a capture (manifest.json): what was run, on what and how.

It is anybody's file: small, an object, and only the parts that the history asks for are kept with the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NAME = "manifest.json"
#: Ours have a few kilobytes.
_LARGEST = 1 << 20
_KEPT = (
    "what", "workload", "variant", "dtype", "batch", "shape", "shapes", "configuration", "settings", "command",
    "evidence", "environment", "made_at",
)  # fmt: skip


def described(roots: Iterable[Path], within: Iterable[Path]) -> dict[str, Any]:
    """The description nearest to the ranks of a run, not above what was asked to be loaded; {} without one."""
    tops = tuple(within)
    for root in roots:
        for place in (root, *root.parents):
            if not any(top in (place, *place.parents) for top in tops):
                break
            if kept := _read(place / NAME):
                return {"collected": kept}
    return {}


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
            return {}
        said = json.loads(path.read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    ours = isinstance(said, dict) and "what" in said and "environment" in said
    return {name: said[name] for name in _KEPT if name in said} if ours else {}
