"""Broken, cut, bombed and mislabelled traces: one bad event costs one event, and what is lost is counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from test_events import rows, use

from npulens.ingest.errors import IngestError
from npulens.ingest.events import NULL, Column, scan

BIG = 4 << 20
GOOD = '{"name":"a","ts":1}'
COLUMNS = (Column("n", "i"), Column("t", "s"))


@pytest.fixture(params=["c", "plain"])
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


LOST = {
    "null": ("null", "not an object"),
    "number": ("1e5", "not an object"),
    "string": ('"}{]["', "not an object"),
    "array": ('[{"ts":1},[[]]]', "not an object"),
    "word": ("nul", "not an object"),
    "ts list": ('{"ts":[]}', "wrong type: ts"),
    "ts text": ('{"ts":"12 us"}', "wrong type: ts"),
    "ts hex": ('{"ts":"0x12"}', "wrong type: ts"),
    "ts empty": ('{"ts":""}', "wrong type: ts"),
    "ts true": ('{"ts":true}', "wrong type: ts"),
    "dur object": ('{"dur":{}}', "wrong type: dur"),
    "name number": ('{"name":1}', "wrong type: name"),
    "cat number": ('{"cat":1}', "wrong type: cat"),
    "pid list": ('{"pid":[1]}', "wrong type: pid"),
    "tid true": ('{"tid":true}', "wrong type: tid"),
    "id object": ('{"id":{}}', "wrong type: id"),
    "ph long": ('{"ph":"XX"}', "wrong type: ph"),
    "ph empty": ('{"ph":""}', "wrong type: ph"),
    "ph number": ('{"ph":1}', "wrong type: ph"),
    "ts too large": ('{"ts":9223372036854775.808}', "out of range: ts"),
    "ts is the null": ('{"ts":-9223372036854775.808}', "out of range: ts"),
    "ts huge text": ('{"ts":"1e400"}', "out of range: ts"),
    "dur too large": ('{"dur":1e300}', "out of range: dur"),
    "overflow": ('{"args":{"x":[1e400]}}', "number overflow"),
    "overflow digits": ('{"x":' + "9" * 310 + "}", "number overflow"),
    "overflow edge": ('{"x":1.7976931348623158e308}', "number overflow"),
    "NaN": ('{"args":{"x":NaN}}', "bad number"),
    "Infinity": ('{"args":{"x":-Infinity}}', "bad number"),
    "inf": ('{"args":{"x":inf}}', "bad number"),
    "nan": ('{"args":{"x":nan}}', "bad number"),
    "leading zero": ('{"ts":012}', "bad number"),
    "trailing dot": ('{"ts":1.}', "bad number"),
    "bare minus": ('{"ts":-}', "bad number"),
    "hex": ('{"ts":0x1}', "bad number"),
    "plus": ('{"ts":+1}', "syntax"),
    "nul word": ('{"ts":nulL}', "syntax"),
    "tru": ('{"x":tru}', "syntax"),
    "true1": ('{"x":true1}', "syntax"),
    "no comma": ('{"a":1 "b":2}', "syntax"),
    "no colon": ('{"a" 1}', "syntax"),
    "no value": ('{"a":}', "syntax"),
    "comma at end": ('{"a":1,}', "syntax"),
    "comma at end of args": ('{"args":{"a":1,}}', "syntax"),
    "comma at end of list": ('{"a":[1,]}', "syntax"),
    "bare key": ("{a:1}", "syntax"),
    "single quotes": ("{'a':1}", "syntax"),
    "comment": ('{"a":1/**/}', "syntax"),
    "wrong bracket": ('{"a":1]', "syntax"),
    "bad utf-8": (b'{"name":"\xff"}', "bad utf-8"),
    "gbk": ('{"name":"计算"}'.encode("gbk"), "bad utf-8"),
    "overlong": (b'{"name":"\xc0\x80"}', "bad utf-8"),
    "surrogate bytes": (b'{"name":"\xed\xa0\x80"}', "bad utf-8"),
    "beyond unicode": (b'{"name":"\xf4\x90\x80\x80"}', "bad utf-8"),
    "cut utf-8": (b'{"name":"\xe4\xbd"}', "bad utf-8"),
    "bad utf-8 in a key": (b'{"args":{"\xfe":1}}', "bad utf-8"),
    "newline in string": ('{"name":"a\nb"}', "control character"),
    "nul in string": ('{"name":"a\0b"}', "control character"),
    "bad escape": (r'{"name":"\x41"}', "bad escape"),
    "short unicode escape": (r'{"name":"\u12"}', "bad escape"),
    "too deep": ('{"x":' + "[" * 64 + "]" * 64 + "}", "too deep"),
    "far too deep": ("[" * 30_000 + "]" * 30_000, "not an object"),
    "too large": ('{"x":"' + "a" * BIG + '"}', "too large"),
    "too large, not an object": ('"' + "a" * BIG + '"', "too large"),
    "many keys": ("{" + ",".join(f'"{i}":{i}' for i in range(400_000)) + "}", "too large"),
}


@pytest.mark.parametrize("chunk", [3, 1 << 20])
@pytest.mark.parametrize("case", LOST)
def test_a_bad_event_is_lost_alone(case: str, chunk: int, file: Path, scanner: str) -> None:
    """Its neighbours live, in an array and in an object, and the reason is counted."""
    bad, reason = LOST[case]
    if chunk == 3 and len(bad) > 1000:
        chunk = 1_000_000
    raw = bad if isinstance(bad, bytes) else bad.encode()
    for before, after in ((b"[", b"]"), (b'{"traceEvents":[', b'],"z":1}')):
        file.write_bytes(before + GOOD.encode() + b", " + raw + b" ," + GOOD.encode() + after)
        reading = scan(file, COLUMNS, chunk_size=chunk)
        assert [event["ts"] for event in rows(reading, COLUMNS)] == [1000, 1000]
        assert (reading.truncated, reading.bad) == (None, {reason: 1})


KEPT = {
    "nothing": ("{}", {"ts": NULL, "dur": NULL, "ph": 0, "name": None, "pid": None}),
    "nulls": ('{"ts":null,"name":null,"pid":null,"args":null,"ph":null}', {"ts": NULL, "name": None, "rest": None}),
    "last ts wins": ('{"ts":[],"ts":1,"ts":"2"}', {"ts": 2000}),
    "last arg wins": ('{"args":{"n":1,"x":1,"n":2,"x":[ 2 ]}}', {"n": 2, "rest": '{"x":[ 2 ]}'}),
    "last arg unfit": ('{"args":{"n":1,"x":1,"n":"N/A"}}', {"n": None, "rest": '{"n":"N/A","x":1}'}),
    "last args wins": ('{"args":{"n":1,"x":1},"args":{"y":2}}', {"n": None, "rest": '{"y":2}'}),
    "args no object": ('{"a":1,"args":[1],"b":2}', {"rest": '{"a":1,"args":[1],"b":2}'}),
    "same key twice by escape": (r'{"args":{"a":1,"\u0061":2,"b":3}}', {"rest": '{"a":2,"b":3}'}),
    "member and arg of one key": ('{"n":7,"x":1,"args":{"x":2,"y":3,"n":"no"}}', {"rest": '{"n":"no","x":2,"y":3}'}),
    "member and column of one key": ('{"n":7,"args":{"n":8}}', {"n": 8, "rest": '{"n":7}'}),
    "verbatim": ('{"args":{"a" : {"b": [1.50, 1E5 ]}}}', {"rest": '{"a":{"b": [1.50, 1E5 ]}}'}),
    "keys rewritten": (r'{"args":{"\u0001\n\"\\\/é":1}}', {"rest": r'{"\u0001\n\"\\/é":1}'}),
    "pair": (r'{"name":"\ud83d\ude00","args":{"a":"\uD83D\uDE00"}}', {"name": "😀", "rest": r'{"a":"\uD83D\uDE00"}'}),
    "half pair": (r'{"name":"\ud83dx\ude00","c":["\uDC00\\u"]}', {"name": "�x�", "rest": r'{"c":["\ufffd\\u"]}'}),
    "integer beyond int64": ('{"args":{"n":9223372036854775808}}', {"n": None, "rest": '{"n":9223372036854775808}'}),
    "integer as float": ('{"args":{"n":12.50e1}}', {"n": 125}),
    "integer as text": ('{"args":{"n":" -12 "}}', {"n": -12}),
    "not an integer": ('{"args":{"n":12.5}}', {"n": None, "rest": '{"n":12.5}'}),
    "any value as text": ('{"args":{"t":[1, "a"]}}', {"t": '[1, "a"]', "rest": None}),
    "ids of any length": ('{"id":' + "9" * 400 + ',"pid":1e999}', {"id": "9" * 400, "pid": "1e999"}),
    "flow": ('{"ph":"s","name":"HostToDevice936"}', {"name": "HostToDevice"}),
    "slice": ('{"ph":"X","name":"Step1"}', {"name": "Step1"}),
    "stamp with a tab": (r'{"ts":"1.5\t"}', {"ts": 1500}),
    "64 deep": ('{"x":' + "[" * 63 + "]" * 63 + "}", {"ts": NULL}),
    "4 MB": ('{"x":"' + "a" * (BIG - 8) + '"}', {"ts": NULL}),
    "ignored": ('{"bp":"e","s":"t"}', {"rest": None}),
}


@pytest.mark.parametrize("chunk", [5, 1 << 20])
@pytest.mark.parametrize("case", KEPT)
def test_an_odd_event_is_kept(case: str, chunk: int, file: Path, scanner: str) -> None:
    written, says = KEPT[case]
    file.write_text(f"[{written}]", encoding="utf-8")
    reading = scan(file, COLUMNS, chunk_size=chunk if len(written) < 1000 else 1 << 20)
    (event,) = rows(reading, COLUMNS)
    assert {key: event.get(key) for key in says} == says
    assert (reading.truncated, reading.bad) == (None, {})


FILES = {  # text -> (stamps, truncated, bad, bytes lost)
    "[]": ([], None, {}, 0),
    " [ ] ": ([], None, {}, 0),
    "[null]": ([], None, {"not an object": 1}, 0),
    '{"traceEvents":[]}': ([], None, {}, 0),
    "\ufeff[" + GOOD + "]": ([1000], None, {}, 0),
    f"[{GOOD},{GOOD}": ([1000, 1000], "the file ends before its event array is closed", {}, 0),
    f"[{GOOD}, ": ([1000], "the file ends before its event array is closed", {}, 0),
    f'[{GOOD},{{"ts":2': ([1000], "the file ends before its event array is closed", {}, 7),
    f"[{GOOD}, nul": ([1000], "the file ends before its event array is closed", {}, 3),
    f"[{GOOD}}}]": ([1000], "damaged at byte 20", {}, 2),
    f"[{GOOD}:1]": ([1000], "damaged at byte 20", {}, 3),
    f"[:{GOOD}]": ([], "damaged at byte 1", {}, 21),
    f"[{GOOD} {GOOD}]": ([1000, 1000], None, {"missing comma": 1}, 0),
    f"[,{GOOD},,{GOOD},]": ([1000, 1000], None, {"empty element": 3}, 0),
    f"[{GOOD}] ]": ([1000], None, {"trailing data": 1}, 0),
    f'{{"traceEvents":[{GOOD}]}}[]': ([1000], None, {"trailing data": 1}, 0),
    f'{{"traceEvents":[{GOOD}]': ([1000], "the file ends before its root object is closed", {}, 0),
    f'{{"traceEvents":[{GOOD}],"a': ([1000], "the file ends before its root object is closed", {}, 2),
    f'{{"traceEvents":[{GOOD}],?}}': ([1000], "damaged at byte 37", {}, 2),
    f'{{"a":NaN,"traceEvents":[{GOOD}]}}': ([1000], None, {"bad header value": 1}, 0),
    f'{{"traceEvents":null,"traceEvents":[{GOOD}]}}': ([1000], None, {}, 0),
    f'{{"traceEvents":[{GOOD}],"traceEvents":[{GOOD}]}}': ([1000], None, {"second traceEvents": 1}, 0),
    f'{{"a":"{"x" * BIG}","traceEvents":[{GOOD}]}}': ([1000], None, {"bad header value": 1}, 0),
    "[" * 100_000: ([], "the file ends before its event array is closed", {}, 99_999),
    '[{"a":"' + "x" * (2 * BIG): ([], "the file ends before its event array is closed", {}, 2 * BIG + 6),
}


@pytest.mark.parametrize("chunk", [7, 1 << 20])
@pytest.mark.parametrize("text", FILES, ids=lambda text: text[:40])
def test_the_whole_file(text: str, chunk: int, file: Path, scanner: str) -> None:
    stamps, truncated, bad, lost = FILES[text]
    file.write_text(text, encoding="utf-8")
    reading = scan(file, (), chunk_size=chunk if len(text) < 1000 else 1 << 20)
    assert [event["ts"] for event in rows(reading, ())] == stamps
    assert (reading.truncated, reading.bad, reading.bytes_lost) == (truncated, bad, lost)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"null", "neither"),
        (b"ts,dur\n1,2\n", "neither"),
        (b"{}", "no event array"),
        (b'{"traceEvents":{}}', "no event array"),
        (b'{"step50":{"x":1}}', "no event array"),
        (b'{"schemaVersion":1,"devi', "ends before"),
        (b'{"schemaVersion":}', "damaged at byte 17"),
        ("[{}]".encode("utf-16"), "UTF-16"),
        ("[{}]".encode("utf-16-be"), "UTF-16"),
        ("[{}]".encode("utf-16-le"), "UTF-16"),
        (b"SQLite format 3\0", "neither"),
        (gzip.compress(b"", mtime=0), "empty"),
        (b"\x1f\x8b\x08broken", "gzip stream is"),
        (b"\x1f\x8b", "gzip stream is cut short"),
    ],
)
def test_not_a_trace(raw: bytes, message: str, file: Path, scanner: str) -> None:
    file.write_bytes(raw)
    with pytest.raises(IngestError, match=message) as caught:
        scan(file, ())
    assert (caught.value.kind, caught.value.path) == ("not_a_trace", str(file))


def test_unreadable(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.json"):
        with pytest.raises(IngestError, match="cannot be read") as caught:
            scan(path, ())
        assert caught.value.kind == "unreadable"
