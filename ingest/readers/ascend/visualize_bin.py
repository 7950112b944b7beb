"""visualize_data.bin of msprof op: blocks of JSON and of source text, one after the other.

A block is a header of 12 bytes (length, kind, padding) and its content. A block of source holds the path of its file
between the two. Read are the device's name, the source, and what is said of each of its lines. The rest are pictures,
and tables that the CSV files hold as well.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.small_json import mapping, text, whole
from npulens.ingest.tables.draft import Draft

_HEADER = struct.Struct("<QBBBB")
#: Linux' longest path, which a block of source keeps room for.
_PATH_BYTES = 4096
_CODE, _LINES, _BASIC = 0x1, 0x3, 0x5
#: A larger block is not read: nothing that is wanted comes near.
_MAX_BYTES = 64 << 20
#: Rows of `summary` are filed under these.
LINES, INSTRUCTIONS = "OPPROF line", "OPPROF instruction"
_ROWS = pa.schema(
    [("source", pa.string()), ("name", pa.string()), ("category", pa.string()), ("count", pa.int64()),
     ("total_ns", pa.int64()), ("args", pa.string())]
)  # fmt: skip
#: Lines that are kept.
_MOST_LINES = 100_000


class Counted(NamedTuple):
    """What was counted of a line on a core."""

    place: str  # path:number
    core: str
    values: dict[str, object]


@dataclass
class Told:
    """What the file says of source lines, and of the device."""

    device: str | None = None
    counted: list[Counted] = field(default_factory=list)
    source: dict[str, list[str]] = field(default_factory=dict)  # path -> its lines
    damage: Message | None = None

    def line(self, place: str) -> str | None:
        """The source of `path:number`, where it is in the file."""
        path, _, number = place.rpartition(":")
        lines = self.source.get(path)
        if lines is None or not number.isdecimal() or not 0 < int(number[:9]) <= len(lines):
            return None
        return lines[int(number[:9]) - 1].strip() or None


def read(path: Path) -> Told:
    """The blocks that are wanted; what is damaged ends the reading and is told."""
    told = Told()
    try:
        for kind, content in _blocks(path, told):
            if kind == _CODE:
                name, body = content[:_PATH_BYTES], content[_PATH_BYTES:]
                file = name.split(b"\0", 1)[0].decode("utf-8", "replace")
                told.source[file] = body.rstrip(b"\0").decode("utf-8", "replace").splitlines()
            else:
                found = msgspec.json.decode(content.rstrip(b"\0"))
                if kind == _BASIC:
                    told.device = told.device or text(mapping(found).get("soc"))
                else:
                    told.counted.extend(_lines(mapping(found), _MOST_LINES - len(told.counted)))
    except (msgspec.MsgspecError, RecursionError, ValueError, OSError) as error:
        told.damage = Message("file_cannot_be_read", {"file": path.name, "error": error})
    return told


def provide(rows: Sequence[Mapping[str, object]], draft: Draft) -> None:
    """Rows of source lines and instructions, as the profiler's own sums."""
    draft.table("line_raw", rows, _ROWS)
    draft.provide("summary", "SELECT source, name, category, count, total_ns, args FROM line_raw")


def lines(told: Told) -> Iterator[dict[str, object]]:
    """What visualize_data.bin says of source lines."""
    for place, core, values in told.counted:
        args = {**values, **({"source": source} if (source := told.line(place)) else {})}
        yield {
            "source": LINES, "name": place, "category": core,
            "count": whole(values.get("Instructions Executed")), "total_ns": None,
            "args": json.dumps(args, ensure_ascii=False),
        }  # fmt: skip


def _blocks(path: Path, told: Told) -> Iterator[tuple[int, bytes]]:
    size = path.stat().st_size
    with path.open("rb") as file:
        while head := file.read(_HEADER.size):
            if len(head) < _HEADER.size:
                told.damage = Message("is_cut_off_in_its", {"file": path.name})
                return
            length, kind = _HEADER.unpack(head)[:2]
            length += _PATH_BYTES if kind == _CODE else 0
            if length > size - file.tell():
                told.damage = Message("is_cut_off_in_its", {"file": path.name})
                return
            if kind in (_CODE, _LINES, _BASIC) and length <= _MAX_BYTES:
                yield kind, file.read(length)
            else:
                file.seek(length, 1)


def _lines(found: Mapping[str, object], most: int) -> Iterator[Counted]:
    """What is counted of each line, core by core. A list has a value for each core; anything else is for all."""
    cores = found.get("Cores")
    names = [one for one in cores if isinstance(one, str)] if isinstance(cores, list) else []
    files = found.get("Files")
    for file in files if isinstance(files, list) else ():
        place, lines = text(mapping(file).get("Source")), mapping(file).get("Lines")
        for line in lines if place and isinstance(lines, list) else ():
            number = whole(mapping(line).get("Line"))
            for at, core in enumerate(names):
                if number is None or most <= 0:
                    return
                most -= 1
                values = {key: _of(value, at, len(names)) for key, value in mapping(line).items() if key != "Line"}
                yield Counted(f"{place}:{number}", core, values)


def _of(value: object, at: int, cores: int) -> object:
    return value[at] if isinstance(value, list) and len(value) == cores and not isinstance(value[at], list) else value
