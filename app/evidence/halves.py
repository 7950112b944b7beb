"""torch_npu's two exports of one recording, each in a directory of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path


def halves(capture: Path, place: Path) -> Iterator[dict[str, Path]]:
    """For every directory of torch_npu with both: copies with the text only, and with the database only."""
    for number, out in enumerate(sorted(capture.rglob("ASCEND_PROFILER_OUTPUT"))):
        databases = {path.name for path in out.glob("*.db")}
        if not databases or not (out / "trace_view.json").exists():
            continue
        text = {path.name for path in out.iterdir()} - databases
        found = {}
        for kind, left_out in (("text", databases), ("db", text)):
            found[kind] = place / kind / str(number)
            shutil.copytree(
                out.parent, found[kind] / out.parent.name, ignore=lambda _, names, gone=left_out: gone & set(names)
            )
        yield found
