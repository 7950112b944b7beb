"""The event scanner: C and Python say the same to the last bit, and what json.loads understands is accounted for."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from npulens.ingest import events
from npulens.ingest.errors import IngestError
from npulens.ingest.events import Column, scan
from tests.fuzz import change

COLUMNS = (
    Column("n", "i"), Column("t", "s"), Column("f", "f"), Column("us", "n"), Column("stream", "i"),
    Column("Task Type", "s"), Column("d", "t"),
)  # fmt: skip
CHUNKS = (1, 2, 3, 7, 64, 1000, 1 << 20)
#: Counted beside the elements, not instead of one.
ODDITIES = {"empty element", "missing comma", "trailing data", "bad header value", "second traceEvents"}

_EVENT = '{"ph":"X","cat":"c","name":"aten::mm","pid":1,"tid":2,"ts":"1736408883000000.125","dur":3.5,"args":{%s}}'


def seeds() -> list[bytes]:
    args = (
        "", '"n":1', '"n":"-12 ","x":[1,{"y":null}]', '"t":"a","t":[1, 2]', '"f":1e10,"us":"1.0005"', '"stream":7.0',
        '"d":[1, 2],"d":[[3],[]],"x":[[1 ,-2],[0]]',
        r'"\u0064":"[1]","a key that is longer than what is kept":0,"a":1,"\u0061":2',
        r'"Task Type":"\u00e9\ud83d\ude00\n","k\"":true', '"f":1.7976931348623157e308,"n":9223372036854775807',
    )  # fmt: skip
    all_ = ",\n".join(_EVENT % each for each in args)
    flow = '{"ph":"s","cat":"async_npu","id":12,"name":"HostToDevice936","pid":1,"tid":2,"ts":1.5,"bp":"e"}'
    return [
        f"[{all_}]".encode(),
        f'{{"schemaVersion":1,"a":{{"b":[]}},"traceEvents":[{flow}, {flow}],"traceName":"x"}}'.encode(),
        *(f"[{_EVENT % each}]".encode() for each in args),
        b'[{}, {"ts":null},, {"ph":"i"} {"a":"\xc3\xa9"}]',
        b'\xef\xbb\xbf[{"x":' + b"[" * 64 + b"]" * 64 + b"}]",
    ]


def mutate(data: bytes, draw: Random) -> bytes:
    return change.json_text(data, draw)


def check(data: bytes, scratch: Path) -> None:
    path = scratch / "t.json"
    path.write_bytes(data)
    chunk = CHUNKS[zlib.crc32(data) % len(CHUNKS)]
    if len(data) > 5000 or data.startswith(b"\x1f\x8b"):  # an event is looked at again with every chunk of it
        chunk = max(chunk, 1000)
    plain = _said(path, chunk, "1")
    if events.CScanner is not None:
        compiled = _said(path, chunk, "0")
        assert compiled == plain, "the scanners differ"
    if isinstance(plain, dict):
        _all_accounted(data, plain)


def _said(path: Path, chunk: int, plainly: str) -> dict[str, Any] | str:
    """Everything a scan says, down to the buffers; a refusal as text."""
    os.environ["NPULENS_PLAIN"] = plainly
    try:
        reading = scan(path, COLUMNS, chunk_size=chunk)
        batches = [list(_buffers(batch)) for batch in reading]
    except IngestError as error:
        return f"{error.kind}: {error}"
    finally:
        del os.environ["NPULENS_PLAIN"]
    return {
        "batches": batches, "truncated": reading.truncated, "bytes_lost": reading.bytes_lost, "bad": +reading.bad,
        "read": reading.bytes_read, "header": repr(reading.header),
    }  # fmt: skip


def _buffers(batch: events.Batch) -> Iterator[object]:
    batch.rest_text.validate(full=True)
    batch.new_strings[1].validate(full=True)
    yield from (batch.n, batch.row, batch.offset, sorted(batch.bad.items()), batch.new_strings[0])
    for name in ("ph", "ts", "dur", "name", "cat", "pid", "tid", "id", "rest_rows"):
        yield getattr(batch, name).tobytes()
    for key in sorted(batch.args):
        yield from (key, batch.args[key][0].tobytes(), batch.args[key][1].tobytes())
    for key in sorted(batch.texts):
        batch.texts[key].validate(full=True)
        yield from (key, batch.texts[key].to_pylist())
    yield batch.rest_text.to_pylist()
    yield batch.new_strings[1].to_pylist()


def elements(data: bytes) -> list[Any] | None:
    """The events by the standard library, None unless it reads the whole text strictly."""

    def never(text: str) -> None:
        raise ValueError(text)

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if sum(key == "traceEvents" for key, _ in pairs) > 1:
            raise ValueError("which of them is meant?")
        return dict(pairs)

    try:
        found = json.loads(data.decode("utf-8"), parse_constant=never, object_pairs_hook=distinct)
    except (ValueError, RecursionError):
        return None
    found = found.get("traceEvents") if isinstance(found, dict) else found
    return found if isinstance(found, list) else None


def _all_accounted(data: bytes, said: dict[str, Any]) -> None:
    expected = elements(data)
    if expected is None:
        return
    kept = sum(batch[0] for batch in said["batches"])
    lost = sum(count for reason, count in said["bad"].items() if reason not in ODDITIES)
    assert said["truncated"] is None, "a whole text is called cut short"
    assert kept + lost == len(expected), f"{kept} kept and {lost} lost of {len(expected)} elements"
