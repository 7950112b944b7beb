"""The event scanner against an independent reading of the same text: json.loads, Decimal and nothing of ours."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npulens.ingest.errors import IngestError
from npulens.ingest.events import NULL, Column, CScanner, Scan, scan

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
COLUMNS = (
    Column("connection_id", "i"),
    Column("Task Type", "s"),
    Column("correlation", "s"),
    Column("stream", "i"),
    Column("Input Dims", "s"),
    Column("bandwidth(GB/s)", "f"),
    Column("duration estimated(us)", "n"),
    Column("Python parent id", "i"),
    Column("grid", "t"),
)
NUMERIC = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
KNOWN = ("ph", "ts", "dur", "name", "cat", "pid", "tid", "id", "args", "bp", "s")


@pytest.fixture(params=["c", "plain"])
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use(request.param, monkeypatch)
    return str(request.param)


def use(scanner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if scanner == "c" and CScanner is None:
        pytest.skip("the C scanner is not built")
    monkeypatch.setenv("NPULENS_PLAIN", "1" if scanner == "plain" else "0")


def rows(scan: Scan, columns: tuple[Column, ...] = COLUMNS) -> list[dict[str, Any]]:
    """Every event as a dict of what the scanner says; also checks the invariants of batches."""
    texts: dict[int, str] = {}
    events: list[dict[str, Any]] = []
    next_row, last_offset = 0, 0
    for batch in scan:
        batch.rest_text.validate(full=True)
        batch.new_strings[1].validate(full=True)
        assert batch.row >= next_row and batch.offset >= last_offset
        next_row, last_offset = batch.row + batch.n, batch.offset
        texts.update(enumerate(batch.new_strings[1].to_pylist(), batch.new_strings[0]))
        coded = {key: getattr(batch, key).tolist() for key in ("name", "cat", "pid", "tid", "id")}
        stamps = zip(batch.ph.tolist(), batch.ts.tolist(), batch.dur.tolist(), strict=True)
        batch_events = [{"ph": ph, "ts": ts, "dur": dur} for ph, ts, dur in stamps]
        assert len(batch_events) == batch.n
        for key, codes in coded.items():
            for event, code in zip(batch_events, codes, strict=True):
                event[key] = None if code == -1 else texts[code] if code >= 0 else str(-2 - code)
        for column in columns:
            at, values = batch.args[column.key]
            for row, value in zip(at.tolist(), values.tolist(), strict=True):
                if column.type == "t":
                    value = batch.texts[column.key][value].as_py()
                batch_events[row][column.key] = texts[value] if column.type == "s" else value
        for column in columns:
            if column.type == "t":  # each text once, none that no event has, in the order met
                batch.texts[column.key].validate(full=True)
                places = batch.args[column.key][1].tolist()
                assert list(dict.fromkeys(places)) == list(range(len(batch.texts[column.key])))
                assert len(set(batch.texts[column.key].to_pylist())) == len(batch.texts[column.key])
        for row, rest in zip(batch.rest_rows.tolist(), batch.rest_text.to_pylist(), strict=True):
            batch_events[row]["rest"] = rest
        events += batch_events
    return events


class Number(str):
    """A JSON number as written."""


def loads(text: str) -> Any:
    return json.loads(text, parse_float=Number, parse_int=Number)


def nanoseconds(number: str, places: int = 3) -> Decimal:
    with localcontext() as context:
        context.prec = 700
        return (Decimal(number.strip()) * 10**places).quantize(Decimal(1), ROUND_HALF_EVEN)


def expected_column(value: Any, kind: str) -> Any:
    """What a column must hold for a value of args, None if the value does not belong there."""
    if kind in ("s", "t"):
        return json.dumps(value) if isinstance(value, bool) else value if isinstance(value, str) else None
    if not isinstance(value, str) or not NUMERIC.fullmatch(value := value.strip(" \t\r\n")):
        return None
    if kind == "f":
        return float(value) if abs(float(value)) < math.inf else None
    exact = nanoseconds(value, 0 if kind == "i" else 3)
    return int(exact) if abs(exact) < 2**63 and (kind == "n" or exact == Decimal(value)) else None


def expected(event: dict[str, Any], columns: tuple[Column, ...] = COLUMNS) -> dict[str, Any]:
    """The event as the scanner must say it."""
    row: dict[str, Any] = {"ph": ord(event["ph"]) if event.get("ph") else 0}
    for key in ("ts", "dur"):
        row[key] = NULL if event.get(key) is None else int(nanoseconds(event[key]))
    for key in ("name", "cat", "pid", "tid", "id"):
        row[key] = event.get(key)
    if row["name"] and event.get("ph") in ("s", "t", "f"):
        row["name"] = row["name"].rstrip("0123456789")
    args = event.get("args") or {}
    extra = {key: value for key, value in event.items() if key not in KNOWN}
    if isinstance(args, dict):
        args = dict(args)
    else:
        args, extra["args"] = {}, args
    for column in columns:
        if column.key in args:
            value = expected_column(args[column.key], column.type)
            if value is not None:
                del args[column.key]
                row[column.key] = value
    if extra | args:
        row["rest"] = extra | args
    return row


def assert_same(got: list[dict[str, Any]], events: list[dict[str, Any]], columns: tuple[Column, ...] = COLUMNS) -> None:
    assert len(got) == len(events)
    for row, event in zip(got, events, strict=True):
        if "rest" in row:
            row = {**row, "rest": loads(row["rest"])}
        for column in columns:  # a list or an object in a text column is its text as written
            if column.type in ("s", "t") and isinstance(event.get("args"), dict):
                value = event["args"].get(column.key)
                if isinstance(value, list | dict) and column.key in row:
                    assert loads(row.pop(column.key)) == value
                    event = {**event, "args": {k: v for k, v in event["args"].items() if k != column.key}}
        assert row == expected(event, columns)


def captures() -> Iterator[tuple[Path, bytes]]:
    for path in sorted(TRACES.rglob("*.json")) + sorted(TRACES.rglob("*.json.gz")):
        data = path.read_bytes()
        yield path, gzip.decompress(data) if path.suffix == ".gz" else data


def test_real_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every JSON capture but the longest: both scanners agree with json.loads, or all agree that it is no trace."""
    if not TRACES.exists():
        pytest.skip("no captures beside the repository")
    traces = 0
    for path, text in captures():
        if len(text) > 4_000_000:
            continue
        document = loads(text.decode())
        events = document.get("traceEvents") if isinstance(document, dict) else document
        for name in ["c"] * (CScanner is not None) + ["plain"] * (len(text) < 300_000 or CScanner is None):
            use(name, monkeypatch)
            if not isinstance(events, list):
                with pytest.raises(IngestError, match="not a trace"):
                    scan(path, COLUMNS)
                continue
            traces += 1
            with scan(path, COLUMNS) as reading:
                got = rows(reading)
            assert_same(got, events)
            assert (reading.truncated, reading.bytes_lost, reading.bad) == (None, 0, {})
            assert reading.bytes_read == len(text)
    assert traces > 50


NUMBERS = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=7).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}{}e{}".format, st.integers(-99, 99), st.sampled_from(["", ".5", ".25", ".000"]), st.integers(-30, 9)),
).map(Number)
TEXTS = st.text(max_size=12) | st.sampled_from(["", "stream 7", "HostToDevice936", "12", "\ud83d", "\udc00\ud800", "é"])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXTS, v, max_size=3), max_leaves=6)
ARGS = st.dictionaries(st.sampled_from([c.key for c in COLUMNS] + ["a", "b\n", "ts", "tts", "\u0001é"]) | TEXTS, VALUES)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from("XBEstfCMi") | st.none(),
        "ts": NUMBERS | NUMBERS.map(str) | st.none(),
        "dur": NUMBERS,
        "name": TEXTS,
        "cat": TEXTS | st.none(),
        "pid": NUMBERS | TEXTS,
        "tid": NUMBERS | TEXTS,
        "id": NUMBERS | TEXTS,
        "args": ARGS | st.none() | st.just("none"),
        "bp": st.just("e"),
        "tts": VALUES,
        "cname\n": VALUES,
    },
)


def dumps(value: Any, style: random.Random) -> str:
    """JSON text with numbers as given, and white space and escapes at random."""
    blank = style.choice(["", "", "", " ", "\n\t", "\r\n "])
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        members = [f"{blank}{dumps(key, style)}{blank}:{dumps(item, style)}{blank}" for key, item in value.items()]
        return "{" + ",".join(members) + blank + "}"
    if isinstance(value, list):
        return "[" + ",".join(blank + dumps(item, style) + blank for item in value) + blank + "]"
    lone = isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value)
    return json.dumps(value, ensure_ascii=lone or style.random() < 0.5)


def whole(value: Any) -> Any:
    """The value with halves of surrogate pairs replaced, as they must come out."""
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, str) and not isinstance(value, Number):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def in_range(event: dict[str, Any]) -> bool:
    return all(event.get(key) is None or abs(nanoseconds(event[key])) < 2**63 for key in ("ts", "dur"))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=st.lists(EVENTS, max_size=5), style=st.randoms(use_true_random=False), chunk=st.integers(1, 300))
def test_generated_events(
    events: list[dict[str, Any]], style: random.Random, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any event json.dumps can write is read as json.loads reads it, whatever the chunks; both scanners agree."""
    path = tmp_path_factory.getbasetemp() / "generated.json"
    path.write_text(dumps(events, style), encoding="utf-8")
    kept = [event for event in whole(loads(path.read_text(encoding="utf-8"))) if in_range(event)]
    seen = []
    for name in ["c"] * (CScanner is not None) + ["plain"]:
        with pytest.MonkeyPatch.context() as patch:
            use(name, patch)
            for size in (chunk, 1 << 20):
                reading = scan(path, COLUMNS, chunk_size=size)
                got = rows(reading)
                assert_same(got, kept)
                assert reading.truncated is None
                assert reading.bad.total() == len(events) - len(kept)
                seen.append((got, reading.bad))
    assert all(item == seen[0] for item in seen)


@pytest.mark.parametrize("form", ["string", "number", "integer", "exponent", "long"])
def test_stamps_are_exact(form: str, tmp_path: Path, scanner: str) -> None:
    """100,000 ns stamps of this century come back to the last digit, however they are written."""
    draw = random.Random(form)
    stamps = [draw.randrange(10**18, 3 * 10**18) for _ in range(100_000 if scanner == "c" else 5_000)]
    if form == "integer":
        stamps = [stamp - stamp % 1000 for stamp in stamps]
    write = {
        "string": lambda ns: f'"{ns // 1000}.{ns % 1000:03}"',
        "number": lambda ns: f"{ns // 1000}.{ns % 1000:03}",
        "integer": lambda ns: str(ns // 1000),
        "exponent": lambda ns: f"{ns // 10**18}.{ns % 10**18:018}E+15",
        "long": lambda ns: f"{ns // 1000}.{ns % 1000:03}{draw.choice(['4999', '000', '3', '49' * 30])}",
    }[form]
    path = tmp_path / "stamps.json"
    path.write_text("[" + ",".join(f'{{"ts":{write(ns)},"dur":{write(ns)}}}' for ns in stamps) + "]")
    batches = list(scan(path, ()))
    assert [ts for batch in batches for ts in batch.ts.tolist()] == stamps
    assert [dur for batch in batches for dur in batch.dur.tolist()] == stamps


@pytest.mark.parametrize(
    ("written", "ns"),
    [("0.0005", 0), ("0.0015", 2), ("0.0025", 2), ("0.00250000000000000000001", 3), ("-0.0015", -2), ("-0.0004", 0)]
    + [("9223372036854775.807", 2**63 - 1), ("9223372036854775.8074", 2**63 - 1), ("-9223372036854775.807", 1 - 2**63)]
    + [("1e-400", 0), ("0e999999999999", 0), ("1" + "0" * 40 + "e-40", 1000), ("-0", 0), ("0.0" + "0" * 500 + "1", 0)],
)
def test_rounding(written: str, ns: int, tmp_path: Path, scanner: str) -> None:
    """Digits below the nanosecond round half to even."""
    path = tmp_path / "one.json"
    path.write_text(f'[{{"ts":{written},"dur":"{written}"}}]')
    (batch,) = scan(path, ())
    assert (batch.ts.tolist(), batch.dur.tolist()) == ([ns], [ns])


LONG = "a key longer than what is remembered of keys, by far"
KEYS = ["stream", "grid", "a", "b", "ts", "args", "name", "pid", 'q"uote', "tab\t", "é", "é" * 15, LONG, LONG + "!", ""]


def written(key: str, draw: random.Random) -> str:
    """A key as JSON, some of its characters escaped that need not be."""
    plain = json.dumps(key, ensure_ascii=draw.random() < 0.5)
    return "".join(f"\\u{ord(char):04x}" if char.isalpha() and char.isascii() and draw.random() < 0.2 else char
                   for char in plain) if "\\" not in plain else plain  # fmt: skip


@pytest.mark.parametrize("others", [0, 700])
def test_a_key_is_one_however_it_is_written(others: int, tmp_path: Path, scanner: str) -> None:
    """The last of equal keys counts, in any spelling and order, also after more keys than are remembered."""
    draw = random.Random(others)
    many = [f'"key {number}":{number}' for number in range(others)]
    texts = ['{"ph":"X","args":{' + ",".join(many) + "}}"]
    for number in range(400):
        extra = [f"{written(draw.choice(KEYS[2:4] + KEYS[8:]), draw)}: {number}" for _ in range(draw.randrange(4))]
        args = [f"{written(draw.choice(KEYS), draw)} :[{number}, {at}]" for at in range(draw.randrange(6))]
        members = ['"ph":"X"', *extra, f"{written('args', draw)}:{{{','.join(args)}}}"]
        draw.shuffle(members)
        texts.append("{" + " , ".join(members) + "}")
    path = tmp_path / "keys.json"
    path.write_text("[" + ",\n".join(texts) + "]", encoding="utf-8")
    for chunk in (300, 1 << 20):
        assert_same(rows(scan(path, COLUMNS, chunk_size=chunk)), [loads(text) for text in texts])


INNER = ["", "1,2", "[1,2],[ ]", " 1 ,\n 2 ", "[[],[[ ] ]]", "-1,0.5,1e3,-0,0", '"a",null,{"b":[1]},[2]', "1,", ",1"]
INNER += ["01", "1.", "1 2", "-", "[1]2", "1e", "+1", "1,,2", "nul", "[1,]", '"a" "b"', "[0][1]", "1:2", "00", "1a"]


@pytest.mark.parametrize("inner", INNER)
def test_lists_are_read_strictly(inner: str, tmp_path: Path, scanner: str) -> None:
    """A list in args is kept as written if json.loads reads it; if not, the event is lost alone."""
    good = '{"ph":"X","args":{"grid":[1,1],"x":[[1],[]]}}'
    path = tmp_path / "lists.json"
    for key in ("grid", "x"):
        bad = f'{{"ph":"X","args":{{"{key}":[[4,5],[{inner}]]}}}}'
        path.write_text(f"[{good},{bad},{good}]")
        try:
            middle = [loads(bad)]
        except ValueError:
            middle = []
        reading = scan(path, COLUMNS)
        assert_same(rows(reading), [loads(good), *middle, loads(good)])
        assert (reading.truncated, reading.bad.total()) == (None, 1 - len(middle))


def test_lists_may_be_64_deep(tmp_path: Path, scanner: str) -> None:
    path = tmp_path / "deep.json"
    for depth in (62, 63):
        path.write_text('[{"ph":"X","args":{"grid":' + "[" * depth + "7" + "]" * depth + "}}]")
        reading = scan(path, COLUMNS)
        assert (len(rows(reading)), dict(reading.bad)) == ((1, {}) if depth == 62 else (0, {"too deep": 1}))


def test_doubles_are_the_nearest(tmp_path: Path, scanner: str) -> None:
    """Columns of type 'f' hold what Python reads."""
    draw = random.Random(7)
    written = [repr(draw.uniform(-1, 1) * 10 ** draw.randrange(-20, 22)) for _ in range(2000)]
    written += [f"{draw.randrange(10**17, 10**19)}e-{draw.randrange(25)}" for _ in range(2000)]
    written += [f"{draw.randrange(10**19)}.{draw.randrange(10**9)}" for _ in range(500)]
    written += ["9007199254740993e0", "9007199254740993.0", "18014398509481985e-1", "-0.0", "5e-324", "2.5e-324"]
    path = tmp_path / "doubles.json"
    path.write_text("[" + ",".join(f'{{"args":{{"f":{number}}}}}' for number in written) + "]")
    values = [value.hex() for batch in scan(path, [Column("f", "f")]) for value in batch.args["f"][1].tolist()]
    assert values == [float(number).hex() for number in written]
