"""Text missing in the middle of a trace: reading goes on at the next whole event, and what was passed is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from test_events import rows, use

from npulens.ingest.events import scan


@pytest.fixture(params=["c", "plain"])
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use(request.param, monkeypatch)
    return str(request.param)


def event(us: int, more: str = "") -> str:
    return f'{{"ph":"X","name":"a","ts":{us}{more}}}'


E1, E2, E3, E4 = map(event, (1, 2, 3, 4))
IN_LIST = event(2, ',"args":{"Input Dims":[[1,')[:-1]  # its end is missing
UNQUOTED = '{"ph":"X,"name":"a","ts":2}'
PRETTY = ',"args": {"x": 1}\n  {\n    "p\n  {\n    "ph": "X", "name": "b", "ts": 3\n  },\n  '

#: text -> stamps that are kept, bytes that are passed, where the first of them lies
DAMAGED = {
    "within a key": (f"[{E1},{E2[:12]}{E3},{E4}]", [1, 3, 4], 12, len(E1) + 2),
    "within a text": (f"[{E1},{E2[:18]}{E3},{E4}]", [1, 3, 4], 18, len(E1) + 2),
    "within a list": (f"[{E1},{IN_LIST}{E3},{E4}]", [1, 3, 4], len(IN_LIST), len(E1) + 2),
    "to the end of a later one": (f"[{E1},{E2[:12]}3}}, {E4},{E1}]", [1, 4, 1], 12 + 4, len(E1) + 2),
    "a quote": (f"[{E1},{UNQUOTED},{E3},{E4}]", [1, 3, 4], len(UNQUOTED) + 1, len(E1) + 2),
    "a bracket too many": (f"[{E1}}},{E2},{E3}]", [1, 2, 3], 2, len(E1) + 1),
    "no event": (f"[{E1}:1, 2]]]{E2},{E3}]", [1, 2, 3], 8, len(E1) + 1),
    "at once": (f"[}}{E1},{E2}]", [1, 2], 1, 1),
    "in a header's list": (f'{{"traceEvents":[{E1},{E2[:12]}{E3},{E4}],"b":1}}', [1, 3, 4], 12, len(E1) + 17),
    "a hole of zeros": (f"[{E1},{E2[:9]}" + "\0" * 5000 + f"{E3[12:]},{E4},{E1}]", [1, 4, 1],
                        9 + 5000 + len(E3) - 12 + 1, len(E1) + 2),
    "two writers": (f"[{E1},{E2[:-1]}{PRETTY}{E4}]", [1, 3, 4], len(E2) - 1 + PRETTY.index('{\n    "ph"'), len(E1) + 2),
    "larger than an event may be": (f"[{E1},{E2[:12]}" + "a" * (5 << 20) + f"{E3},{E4}]", [1, 3, 4],
                                    12 + (5 << 20), len(E1) + 2),
    "nothing behind it": (f"[{E1}}} {E2} x {E3},{E4}]", [1, 3, 4], 2 + len(E2) + 3, len(E1) + 1),
    "no phase, no name": (f'[{E1}}} {{"ph":"X","ts":2}},{{"name":"a","ph":1}},{E4}]', [1, 4],
                          1 + 1 + 17 + 1 + 19 + 1, len(E1) + 1),
}  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("case", DAMAGED)
def test_reading_goes_on_behind_the_damage(case: str, chunk: int, tmp_path: Path, scanner: str) -> None:
    text, stamps, passed, first = DAMAGED[case]
    path = tmp_path / "trace.json"
    path.write_text(text)
    reading = scan(path, (), chunk_size=chunk if len(text) < 10_000 else 1 << 20)
    assert [one["ts"] for one in rows(reading, ())] == [1000 * us for us in stamps]
    assert (reading.bytes_lost, reading.gaps, reading.bad) == (passed, 1, {})
    assert reading.truncated == (
        f"damaged places: 1, the first at byte {first}, {passed} bytes skipped, how many events they held is unknown; "
        "time that seems idle may be work that they held"
    )


def test_several_places_and_a_cut(tmp_path: Path, scanner: str) -> None:
    """Two places of 12 and 9 bytes, then a file that ends within an event of 20."""
    path = tmp_path / "trace.json"
    path.write_text(f"[{E1},{E2[:12]}{E3},{E4[:9]}{E1},{E2},{E3[:20]}")
    reading = scan(path, ())
    assert [one["ts"] for one in rows(reading, ())] == [1000, 3000, 1000, 2000]
    assert (reading.gaps, reading.bytes_lost, reading.bad) == (2, 12 + 9 + 20, {})
    assert reading.truncated is not None
    assert reading.truncated.startswith(f"damaged places: 2, the first at byte {len(E1) + 2}, 21 bytes skipped")
    assert reading.truncated.endswith("; the file ends before its event array is closed")


@pytest.mark.parametrize("chunk", [1, 9, 1 << 20])
def test_events_within_an_intact_event_are_its_own(chunk: int, tmp_path: Path, scanner: str) -> None:
    path = tmp_path / "trace.json"
    outer = event(1, ',"args":{"x":[' + f"{E2},{E3}" + "]}")
    path.write_text(f"[{outer},{E4}]")
    reading = scan(path, (), chunk_size=chunk)
    assert [one["ts"] for one in rows(reading, ())] == [1000, 4000]
    assert (reading.truncated, reading.gaps) == (None, 0)


@pytest.mark.parametrize("cut", range(1, len(IN_LIST)))
def test_a_file_that_is_only_cut_says_nothing_of_gaps(cut: int, tmp_path: Path, scanner: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f"[{E1},{IN_LIST[:cut]}")
    reading = scan(path, ())
    assert [one["ts"] for one in rows(reading, ())] == [1000]
    assert (reading.gaps, reading.bytes_lost, reading.bad) == (0, cut, {})
    assert reading.truncated == "the file ends before its event array is closed"


_SIZE = 1 << 19
HOSTILE = {
    "brackets": "[" + "{" * _SIZE,
    "quotes": '[{"a":"' + '{"' * (_SIZE // 2),
    "half events": "[" + '{"a":1},{"ph":' * (_SIZE // 14),
    "texts within lists": '[{"x" ' + ('{"ph":[' * 63 + '"' + "a" * 60_000 + '",') * (_SIZE // 61_000),
    "lists that never end": "[" + ('{"x":[' + (E1 + ",") * 20) * (_SIZE // 600),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_nobody_makes_it_look_at_the_same_bytes_for_ever(case: str, tmp_path: Path, scanner: str) -> None:
    """Half a MB; each place tried anew to the end of the file would take hours."""
    path = tmp_path / "trace.json"
    path.write_text(HOSTILE[case])
    begun = time.process_time()
    for _ in scan(path, ()):
        pass
    assert time.process_time() - begun < (2 if scanner == "c" else 60)
