"""The lines of source that a recording with call stacks names: a bounded copy, kept in the manifest beside it.

Only files of the job's own are copied: what lies below its directory, or beside the script that it was started with.
Of each place that a call stack names there is the line, the one before and some behind it.
"""

from __future__ import annotations

import gzip
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from npulens.collectors.profilers.analysed import OUTPUT

#: `train.py(12): forward`, in the name of a span, in a list of frames, and in a database's texts.
_PLACE = re.compile(rb"([\w./+\- ]{1,300}\.py)\((\d{1,6})\)")
_CHUNK, _OVERLAP = 1 << 22, 400
BEFORE, BEHIND = 1, 11
#: Places, bytes of all lines together, letters of a line, and bytes of a file that is looked at.
MOST_PLACES, MOST_BYTES, MOST_LETTERS, LARGEST = 300, 1 << 17, 200, 2 << 20
_INSTALLED = ("site-packages", "dist-packages")


def of(traces: Sequence[str], command: Sequence[str], directory: Path) -> dict[str, dict[str, str]]:
    """File as the traces name it -> number of a line -> the line. ``directory`` is where the job ran."""
    seen: Counter[tuple[str, int]] = Counter()
    for trace in traces:
        for text in _texts(Path(trace)):
            seen.update((name.decode("utf-8", "replace").strip(), int(line)) for name, line in _PLACE.findall(text))
    scripts = [directory / word for word in command if word.endswith(".py")]
    bases = [directory, *(script.parent for script in scripts)]
    kept: dict[str, dict[str, str]] = {}
    left, files = MOST_BYTES, {name: _lines(name, bases) for name in {name for name, _ in seen}}
    own = [place for place, _ in seen.most_common() if files[place[0]]]
    for name, line in own[:MOST_PLACES]:
        lines, held = files[name], kept.setdefault(name, {})
        for number in range(max(1, line - BEFORE), min(len(lines), line + BEHIND) + 1):
            said = lines[number - 1][:MOST_LETTERS]
            if str(number) not in held and len(said) < left:
                held[str(number)] = said
                left -= len(said) + 1
    return {name: held for name, held in kept.items() if held}


def _lines(name: str, bases: Sequence[Path]) -> list[str]:
    """The lines of a file of the job's own; none of anything else."""
    for base in bases:
        try:
            path = (base / name).resolve()
            if not any(path.is_relative_to(one.resolve()) for one in bases) or _installed(path):
                continue
            if path.is_file() and path.stat().st_size <= LARGEST:
                return path.read_text("utf-8", "replace").splitlines()
        except (OSError, ValueError):
            continue
    return []


def _installed(path: Path) -> bool:
    """Whether it came with Python or a package: its lines are public, or nobody's business here."""
    library = Path(sys.base_prefix).resolve() / "lib"
    return any(part in _INSTALLED for part in path.parts) or path.is_relative_to(library)


def _texts(trace: Path) -> Iterator[bytes]:
    """What a trace holds that may name places, in pieces."""
    if trace.is_file():
        yield from _pieces(trace)
        return
    out = trace / OUTPUT
    for name in ("trace_view.json", "operator_details.csv"):
        if (out / name).is_file():
            yield from _pieces(out / name)
    for database in sorted(out.glob("ascend_pytorch_profiler*.db")):
        yield from _stored(database)


def _pieces(path: Path) -> Iterator[bytes]:
    rest = b""
    with _open(path) as stream:
        while chunk := stream.read(_CHUNK):
            yield (rest + chunk).replace(b"\\n", b"\n")  # a list of frames within JSON
            rest = chunk[-_OVERLAP:]


def _open(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def _stored(database: Path) -> Iterator[bytes]:
    """Every text of a database with a place in it; none where it cannot be read."""
    con = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        for (text,) in con.execute("SELECT value FROM STRING_IDS WHERE value LIKE '%.py(%'"):
            yield str(text).encode()
    except sqlite3.DatabaseError:
        return
    finally:
        con.close()
