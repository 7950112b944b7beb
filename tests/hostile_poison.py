"""An Ascend database whose every text is hostile: the bundled sample with its names replaced, so that what a page or a
detector has to say about it is as much as of any job."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from itertools import cycle
from pathlib import Path

from hostile_names import NAMES, PARTS

SAMPLE = Path(__file__).resolve().parent.parent / "sample_traces" / "late_rank" / "capture"

#: Words of the format itself: with another text in their place the row would mean something else.
_FORMAT = re.compile(r"[A-Z][A-Z0-9_]*|N/A|ND|NZ|dynamic|static|NO|YES|ai[cv]_.*|cube_.*|aclrt.*|launch|Launch|\d*|"
                     r"Enqueue|PTA|GE|PTA\+GE|APP|ProfilerStep#\d+|.*DataLoader.*|-?\d+(\.\d+)?")  # fmt: skip
#: Names whose beginning says what they are; the hostile part follows it.
_KEPT = re.compile(r"(hcom_\w+?_|Dequeue@|Enqueue@|aclnn\w+|nn\.Module: |aten::|Optimizer\.\w+#|torch_npu\.\w+)")


def write(folder: Path) -> Path:
    """A copy of the sample; files, directories and host are called by hostile names too."""
    folder.mkdir(parents=True)
    for rank, kind in zip(sorted(SAMPLE.iterdir()), ("img", "markdown_bold"), strict=True):
        tail = rank.name.removeprefix("sim-node-0")
        made = folder / f"{PARTS[kind].replace('_', '-')}{tail}"
        shutil.copytree(rank, made)
        for path in sorted(made.rglob("ascend_pytorch_profiler_*.db")):
            _poison(path)
        meta = made / "profiler_metadata.json"
        said = json.loads(meta.read_text("utf-8"))
        meta.write_text(json.dumps(said | {text: text for text in NAMES.values()}), "utf-8")
    return folder


def _poison(path: Path) -> None:
    con = sqlite3.connect(path)
    kinds = cycle(text for kind, text in NAMES.items() if kind not in ("surrogate", "long"))
    for number, value in con.execute("SELECT id, value FROM STRING_IDS ORDER BY id").fetchall():
        if _FORMAT.fullmatch(value):
            continue
        text = next(kinds)
        head = _KEPT.match(value)
        con.execute("UPDATE STRING_IDS SET value = ? WHERE id = ?", (_named(value, text, head), number))
    con.execute("UPDATE HOST_INFO SET hostName = ?", (NAMES["script"],))
    con.execute("UPDATE NPU_INFO SET name = ?", (NAMES["img"],))
    con.executemany("INSERT INTO META_DATA VALUES (?, ?)", [(text, text) for text in NAMES.values() if text.isascii()])
    # What no Python string can be written as: half a surrogate pair, and bytes that are no text at all.
    con.execute("INSERT INTO META_DATA VALUES ('bytes', CAST(x'eda080ff00fe' AS TEXT))")
    con.commit()
    con.close()


def _named(value: str, text: str, head: re.Match[str] | None) -> str:
    if head is None or value.startswith("hcom_") and value.endswith("_"):
        return value if value.startswith("hcom_") else f"{text} {value}"
    return head.group() + text + value[head.end() :]
