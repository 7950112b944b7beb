"""One operator alone: the files of msprof op and of its simulator. An input is the file's name, then the file."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests import test_reader_opprof as measured
from tests import test_reader_opprof_simulator as simulator
from tests.fuzz import change
from tests.fuzz.reading import read

_LINES, _INSTRUCTIONS = "code_exe.csv", "instr_exe.csv"
_OF_BLOCKS = ("OpBasicInfo.csv", "PipeUtilization.csv", "Memory.csv")
NAMES = ("trace.json", "visualize_data.bin", _LINES, _INSTRUCTIONS, *_OF_BLOCKS)
_TRACE = json.dumps({"displayTimeUnit": "ns", "profilingType": "op", "schemaVersion": 2,
                     "traceEvents": simulator.EVENTS})  # fmt: skip
#: Instructions and pairs of flags.
_SPANS = sum(event["ph"] in ("X", "B") for event in simulator.EVENTS)


def seeds() -> list[bytes]:
    contents = (_TRACE.encode(), simulator.binary(), simulator.LINES.encode(), simulator.INSTRUCTIONS.encode(),
                measured.BASIC.encode(), measured.PIPES.encode(), measured.MEMORY.encode())  # fmt: skip
    return [name.encode() + b"\n" + content for name, content in zip(NAMES, contents, strict=True)]


def mutate(data: bytes, draw: Random) -> bytes:
    name, _, content = data.partition(b"\n")
    if name == b"trace.json":
        return name + b"\n" + change.json_text(content, draw)
    return name + b"\n" + (content if name == b"visualize_data.bin" else change.csv_text(content, draw))


def check(data: bytes, scratch: Path) -> None:
    first, _, content = data.partition(b"\n")
    name = first.decode("ascii", "replace")
    if name not in NAMES:
        name = NAMES[len(first) % len(NAMES)]
    if name in _OF_BLOCKS:
        root = measured.write(scratch / "OPPROF_1", OpBasicInfo=measured.BASIC, PipeUtilization=measured.PIPES)
        (root / name).write_bytes(content)
        done = read([root], scratch)
        if name != "OpBasicInfo.csv":
            assert [part.rows["span"] for part in done.parts] == [1], "the operator has gone"
        return
    root = simulator.write(scratch / "OPPROF_1") / "simulator"
    place = root / simulator.VEC if name in (_LINES, _INSTRUCTIONS) else root
    (place / (f"{simulator.VEC}_{name}" if place != root else name)).write_bytes(content)
    done = read([root], scratch)
    if name != "trace.json":
        # A file beside the trace may be as broken as it likes: the trace's spans are all there.
        assert [part.rows["span"] for part in done.parts] == [_SPANS], "the spans have gone"
