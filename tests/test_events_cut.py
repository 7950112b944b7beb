"""Traces cut anywhere, gzipped, damaged, long: exactly the complete events, in bounded memory."""

from __future__ import annotations

import gzip
import random
import threading
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from test_events import rows, use

from npulens.ingest import events as events_package
from npulens.ingest.events import Column, scan
from npulens.ingest.events import source as source_module


@pytest.fixture(params=["c", "plain"])
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use(request.param, monkeypatch)
    return str(request.param)


def trace(count: int, before: bytes, after: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """A trace whose event i starts at i us, and where each event begins and ends."""
    text, places = bytearray(before), []
    for i in range(count):
        text += b",\n " if i else b"\n"
        start = len(text)
        text += f'{{"name":"a\\"}}{i}","ts":"{i}.000","args":{{"x":[{{"y":"é]"}},{i}]}}}}'.encode()
        places.append((start, len(text)))
    return bytes(text) + after, places


@pytest.mark.parametrize("shape", ["array", "object"])
def test_every_cut_keeps_the_complete_events(shape: str, tmp_path: Path, scanner: str) -> None:
    """200 cuts, chunks from 1 byte to the whole file."""
    before, after = (b"[", b"\n]") if shape == "array" else (b'{"a": 1, "traceEvents": [', b'\n], "b": {"c": "}"}}')
    text, places = trace(40, before, after)
    path = tmp_path / "cut.json"
    draw = random.Random(shape)
    for cut in draw.sample(range(len(before), len(text)), 200):
        path.write_bytes(text[:cut])
        reading = scan(path, (), chunk_size=draw.choice([1, 2, 7, 64, 1000, 1 << 20]))
        got = [event["ts"] for event in rows(reading, ())]
        assert got == [i * 1000 for i, (_, end) in enumerate(places) if end <= cut]
        assert reading.truncated is not None and reading.truncated.startswith("the file ends")
        assert reading.bad == {} and reading.bytes_read == cut
        inside = [cut - start for start, end in places if start < cut < end]
        if cut <= places[-1][1]:
            assert reading.bytes_lost == sum(inside)


def test_chunks_do_not_matter(tmp_path: Path, scanner: str) -> None:
    """The same file in pieces of any size is the same; rows and offsets are those of the file."""
    text, places = trace(30, b'{"traceEvents":[', b"]}")
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    whole = rows(scan(path, ()), ())
    for size in (1, 3, 10, 50, 333):
        assert rows(scan(path, (), chunk_size=size), ()) == whole
        seen = 0
        for batch in scan(path, (), chunk_size=size):
            assert batch.row == seen
            seen += batch.n
            assert batch.offset == places[seen - 1][1]


def test_header_on_both_sides(tmp_path: Path, scanner: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"baseTimeNanoseconds": 1695835535000000001, "d": [{}], "traceEvents": [], "traceName": "x"}')
    with scan(path, ()) as reading:
        assert reading.header == {"baseTimeNanoseconds": 1695835535000000001, "d": [{}]}
        assert list(reading) == []
        assert reading.header["traceName"] == "x"
    assert list(reading) == []


@pytest.mark.parametrize("inflate", ["isal", "zlib"])
def test_gzip(inflate: str, tmp_path: Path, scanner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known by its magic bytes; members and padding may follow each other."""
    if inflate == "zlib":
        monkeypatch.setattr(source_module, "_inflate", zlib)
    elif source_module._inflate is zlib:
        pytest.skip("isal is not installed")
    text, places = trace(2000, b"[", b"]")
    middle = len(text) // 3
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(text[:middle]) + bytes(100) + gzip.compress(text[middle:]) + bytes(10))
    reading = scan(path, (), chunk_size=5000)
    assert len(rows(reading, ())) == len(places)
    assert (reading.truncated, reading.bad, reading.bytes_read) == (None, {}, len(text))
    assert reading.file_bytes == path.stat().st_size
    path.write_bytes(gzip.compress(text) + b"garbage")
    reading = scan(path, ())
    assert len(rows(reading, ())) == len(places)
    assert (reading.truncated, reading.bad) == (None, {"trailing data": 1})


@pytest.mark.parametrize("damage", ["cut", "flipped", "no checksum"])
def test_damaged_gzip(damage: str, tmp_path: Path, scanner: str) -> None:
    """What could be unpacked is kept to the last complete event, and the damage is told."""
    text, places = trace(3000, b"[", b"]")
    packed = bytearray(gzip.compress(text, 1))
    path = tmp_path / "trace.json.gz"
    if damage == "cut":
        packed = packed[: len(packed) // 2]
    elif damage == "flipped":
        packed[len(packed) // 2 : len(packed) // 2 + 60] = bytes(60)
    else:
        packed = packed[:-6]
    path.write_bytes(packed)
    unpacked, decoder = bytearray(), zlib.decompressobj(31)
    try:
        for byte in packed:
            unpacked += decoder.decompress(bytes([byte]))
    except zlib.error:
        pass
    reading = scan(path, (), chunk_size=10_000)
    stamps = [event["ts"] for event in rows(reading, ())]
    assert reading.bytes_read == len(unpacked)
    complete = [i * 1000 for i, (_, end) in enumerate(places) if end <= len(unpacked) and text[:end] == unpacked[:end]]
    assert stamps[: len(complete)] == complete and len(stamps) - len(complete) <= 1
    assert reading.truncated is not None
    assert reading.truncated.startswith("the gzip stream is " + ("damaged" if damage == "flipped" else "cut short"))
    assert damage != "no checksum" or len(stamps) == len(places)


def test_leaving_early_ends_the_thread(tmp_path: Path, scanner: str) -> None:
    text, _ = trace(20_000, b"[", b"]")
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text * 20, 1))
    before = threading.active_count()
    for _batch in scan(path, (), chunk_size=1000):
        break
    with scan(path, ()):
        pass
    assert threading.active_count() == before


def test_texts_are_forgotten_before_they_fill_the_memory(
    tmp_path: Path, scanner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand distinct names with a table for a hundred: codes go on, several mean one text, none is wrong."""
    monkeypatch.setattr(events_package, "_TABLE", 6000)
    names = [f"n{i % 5000}" for i in range(10_000)]
    path = tmp_path / "names.json"
    path.write_text("[" + ",".join(f'{{"name":"{name}","pid":7}}' for name in names) + "]")
    codes = 0
    for batch in (batches := list(scan(path, (), chunk_size=2000))):
        assert batch.new_strings[0] == codes
        codes += len(batch.new_strings[1])
    assert codes > 10_000
    assert [event["name"] for event in rows(scan(path, (), chunk_size=2000), ())] == names
    assert len(batches) > 50


def test_memory_is_the_chunk_not_the_file(tmp_path: Path, scanner: str) -> None:
    """A file of many chunks needs no more Python memory than one of few."""
    peaks = []
    for count in (500, 5_000):
        text, _ = trace(count, b"[", b"]")
        path = tmp_path / "trace.json"
        path.write_bytes(text)
        tracemalloc.start()
        for batch in scan(path, [Column("x", "s")], chunk_size=10_000):
            assert batch.ts.flags.writeable and batch.ts.dtype == np.int64
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 2


def test_columns_are_checked(tmp_path: Path) -> None:
    for columns in ([Column("a", "i"), Column("a", "s")], [Column("a", "x")]):
        with pytest.raises(ValueError, match="columns"):
            scan(tmp_path, columns)


def test_the_c_scanner_refuses_ranges_outside_its_data() -> None:
    if events_package.CScanner is None:
        pytest.skip("the C scanner is not built")
    reader = events_package.CScanner((), True, 1000, 1)
    for start, end in ((-1, 0), (2, 1), (0, 37), (0, 2**62)):
        with pytest.raises(ValueError, match="range"):
            reader.feed(bytearray(100), start, end, False)
    with pytest.raises((TypeError, BufferError)):
        reader.feed(bytes(100), 0, 10, False)
    assert reader.feed(bytearray(b"[" * 100), 0, 36, False)[0] == 0
