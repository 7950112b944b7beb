"""Files that are another encoding, another format, or nothing but a first few bytes of one."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

from tests.hostile.kineto import HEADER, good, trace
from tests.hostile.planted import Kind, Planted

ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "utf-7", "cp037", "gbk", "latin-1", "shift_jis")
NAMES = ("t.pt.trace.json", "trace_view.json", "kernel_details.csv", "ascend_pytorch_profiler_0.db", "analysis.db",
         "communication.json", "profiler_info_0.json", "x.json.gz", "x.zip", "x.bin")  # fmt: skip
MAGIC = (b"SQLite format 3\0", b"PK\x03\x04", b"\x1f\x8b\x08\0", b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"PAR1",
         b"\x80\x04\x95", b"\x7fELF", b"%PDF-1.7", b"\x89PNG\r\n\x1a\n", b"QDSTRM", b"Rar!\x1a\x07", b"7z\xbc\xaf",
         b"[", b"{", b'{"traceEvents": [', b'{"schemaVersion": 1,', b"\xff\xfe[\0", b"\xef\xbb\xbf", b"\0", b"\n" * 99,
         b'[{"ph":"X","ts":"1', b"Device_id,", b"ARROW1\0\0", b"\xca\xfe\xba\xbe", b"#!/bin/sh\n")  # fmt: skip


def _encoded(directory: Path, dice: random.Random, number: int) -> Planted:
    """A good trace in another encoding: read if that is harmless, else refused by what it is."""
    path = trace(directory, [*good(), good()[0].replace("op 0", "\u7b97\u5b50 é")])
    text = path.read_text("utf-8")
    encoding = ENCODINGS[number % len(ENCODINGS)]
    data = text.encode(encoding, "replace")
    name = ("t.pt.trace.json", "trace_view.json", "kernel_details.csv", "t.pt.trace.json.gz")[number // len(ENCODINGS)]
    path.unlink()
    (directory / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return Planted(directory / name)


def _noise(directory: Path, dice: random.Random, number: int) -> Planted:
    """A known beginning, then nothing or noise, under a name that promises something."""
    magic, name = MAGIC[number % len(MAGIC)], NAMES[dice.randrange(len(NAMES))]
    rest = dice.choice((b"", bytes(5000), dice.randbytes(200), dice.randbytes(200_000)))
    (directory / name).write_bytes(magic + rest)
    return Planted(directory / name if number % 2 else directory, status=("refused", "partial", "complete"))


#: Documents on which JSON parsers have differed, written down from the grammar (RFC 8259).
DOCUMENTS = (
    "", " ", "\n", "null", "true", "0", '""', "[]", "{}", "[[]]", "[{}]", "[null]", "[1]", "[true,]", "[,]", "[1,,2]",
    "[1 2]", "[", "]", "{", "}", '{"', '{"a', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1}}', "[]]", "[] []", "[]x",
    "[1]#", "/**/[]", "[//\n]", "[\x00]", "[\x0b]", "[\u00a0]", "\ufeff\ufeff[]", "[\u2028]", "['']", "[nan]", "[-]",
    "[1e]", "[0e+]", "[.1]", "[1.]", "[01]", "[-01]", "[1e1000]", "[-1e-1000]", "[1eE2]", "[\uff11]", "[++1]",
    '["\\u00"]', '["\\uD800"]', '["\\uD800\\uD800x"]', '["\\a"]', '["\t"]', '["\x7f"]', '["\x1f"]', '["',
    '{"a":"b"}/**/', '{"a":"b",,"c":1}', "{1:1}", '{"a":1,"a":1}', '{"a" "b"}', "{'a':1}", '{"a":a}', '{"x"::1}',
    '{"a":/**/1}', '{"\ud7ff":1}', '[{"ph":"X"}', '[{"ph":"X","ts":1},', '{"traceEvents":[', '{"traceEvents":{}}',
    '{"traceEvents":[{}', '{"traceEvents":[]}', '{"traceEvents":[{}]', '{"traceEvents":[],"traceEvents":[{}]}',
    '{"traceEvents":null}', '{"traceEvents":"[]"}', '{"TraceEvents":[]}', '[{"traceEvents":[]}]',
)  # fmt: skip


def _document(directory: Path, dice: random.Random, number: int) -> Planted:
    """A small document, alone or in the place of a trace's events or header."""
    text = DOCUMENTS[number % len(DOCUMENTS)]
    raw = text.encode("utf-8", "surrogatepass")
    match number // len(DOCUMENTS):
        case 0:
            (directory / "t.pt.trace.json").write_bytes(raw)
        case 1:
            (directory / "trace_view.json").write_bytes(raw)
        case _:
            whole = f'{{{HEADER}, "x": @, "traceEvents": @}}'.encode().replace(b"@", raw)
            (directory / "t.pt.trace.json").write_bytes(whole)
    return Planted(directory)


def _bomb(directory: Path, dice: random.Random, number: int) -> Planted:
    """Little that unpacks to much: blanks, events, one string, brackets; from the first byte or behind good events."""
    unit = (b" ", b'{"ph":"X","ts":1,"dur":1},', b"x", b"[", b"\0")[number // 2 % 5]
    size = (50 << 20, 400 << 20)[number % 2]
    packer = zlib.compressobj(9, wbits=31)
    head = b'{"schemaVersion": 1, "traceEvents": [' + b"".join(one.encode() + b"," for one in good(number // 10 * 2000))
    parts = [packer.compress(head + (b'{"name":"' if unit == b"x" else b""))]
    block = unit * ((1 << 20) // len(unit))
    parts += [packer.compress(block) for _ in range(size >> 20)]
    (directory / "t.pt.trace.json.gz").write_bytes(b"".join(parts) + packer.flush())
    return Planted(directory / "t.pt.trace.json.gz", refused_as=("archive_bomb",))


KINDS = (
    Kind("encoding", 4 * len(ENCODINGS), _encoded),
    Kind("noise", 4 * len(MAGIC), _noise),
    Kind("document", 3 * len(DOCUMENTS), _document),
    Kind("bomb", 20, _bomb),
)
