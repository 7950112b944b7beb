"""What the profiler's own log says went wrong."""

from __future__ import annotations

import re
from pathlib import Path

_ERROR_LINE = re.compile(r"\[ERROR\]|\bERROR\b")
#: The end of a log is enough: what stopped the analysis stands last.
_TAIL_BYTES = 1 << 18
_LINE = 300


def last_errors(root: Path, most: int = 3) -> list[str]:
    """The last different ERROR lines of logs/*.log, oldest first."""
    found: dict[str, None] = {}
    for path in sorted(path for path in root.glob("logs/*.log") if path.is_file()):
        for line in _tail(path).splitlines():
            if _ERROR_LINE.search(line):
                said = line.strip()[:_LINE]
                found.pop(said, None)
                found[said] = None
    return list(found)[-most:]


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
