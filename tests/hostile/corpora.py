"""Hostile files that others have collected: a directory of them, walked. None is part of this project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.hostile.kineto import HEADER, good
from tests.hostile.planted import Planted

#: Larger ones are no hostile files but somebody's data; what is put within an event is far smaller.
MOST_BYTES, MOST_WITHIN = 64 << 20, 1 << 20


def planted(corpora: Path, scratch: Path) -> Iterator[tuple[str, int, Planted]]:
    """Kind (the directory below), number and file; a JSON document also as an argument of a trace's event.

    Alone it is refused by its first bytes. In JSONTestSuite a name says whether every parser must accept it (y_).
    """
    files = sorted(path for path in corpora.rglob("*") if path.is_file() and not path.is_symlink())
    scratch.mkdir()
    for number, path in enumerate(files):
        within = path.relative_to(corpora)
        kind = within.parts[0] if len(within.parts) > 1 else "files"
        if path.stat().st_size <= MOST_BYTES:
            yield kind, number, Planted(path)
        if path.suffix == ".json" and path.stat().st_size <= MOST_WITHIN:
            trace = scratch / "t.pt.trace.json"
            trace.write_bytes(_around(path.read_bytes()))
            rows = {"span": 21} if path.name.startswith("y_") else {}
            yield f"{kind}, in a trace", number, Planted(trace, rows=rows)


def _around(document: bytes) -> bytes:
    head, tail = f'{{{HEADER}, "traceEvents": [', ", ".join(good())
    event = b'{"ph": "X", "cat": "cpu_op", "name": "x", "pid": 7, "tid": 1, "ts": 5, "dur": 1, "args": {"grid": @}}'
    return head.encode() + event.replace(b"@", document) + f", {tail}]}}".encode()
