"""The journal of a night at a glance says what the whole of it says."""

from __future__ import annotations

from pathlib import Path

from npulens.app.nightly import dating, journal

LINES = (
    b'{"what": "night", "label": "2026-03-01", "at_ns": 5, "clock_ns": 7, "steps": 4}',
    b'{"what": "begin", "step": "a/000/head", "mark": "0", "clock_ns": 11}',
    b'{"what": "step", "step": "a/000/head", "ok": true, "results": [{"metrics": {"x": 1e3}}], "clock_ns": 9}',
    b"\0\0\0\0",
    b'["what", "end"]',
    b'{"step": "b/000/head"}',
    b'{"what": "st\xffep", "clock_ns": 99}',
    b'{"what": "e',
)


def test_a_glance_leaves_out_what_reading_leaves_out(tmp_path: Path) -> None:
    (tmp_path / journal.NAME).write_bytes(b"\n".join(LINES))
    read = [(fact["what"], fact.get("at_ns"), fact["clock_ns"]) for fact in journal.read(tmp_path).facts]
    seen = [(each.what, each.at_ns, each.clock_ns) for each in journal.moments(tmp_path)]
    assert seen == read == [("night", 5, 7), ("begin", None, 11), ("step", None, 9)]


def test_a_night_without_a_journal_has_no_facts(tmp_path: Path) -> None:
    assert journal.moments(tmp_path) == []


def test_a_night_whose_first_line_is_damaged_is_lost_and_stops_nobody(tmp_path: Path) -> None:
    damaged = LINES[0].replace(b"2026-03-01", b"2026\xff")
    for name, line in (("2026-03-01", damaged), ("2026-03-02", LINES[0].replace(b'"at_ns": 5', b'"at_ns": 6'))):
        (tmp_path / name).mkdir()
        (tmp_path / name / journal.NAME).write_bytes(line + b"\n" + LINES[2] + b"\n")
    found = dating.which(tmp_path, None)
    assert [said.values for said in found.notices if said.key == "lost_night"] == [
        {"night": "2026-03-01", "done": 1, "planned": 0}, {"night": "2026-03-02", "done": 1, "planned": 4},
    ]  # fmt: skip
