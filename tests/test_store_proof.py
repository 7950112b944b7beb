"""Labels, notes and the history: what was written is what is read, or a sentence."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import mend
from npulens.ingest.store import history, notes, proof, wal
from npulens.ingest.store.history import Identity, Point

WHO = Identity("train", "bf16", "8x4096", "npu", "host")


def said(store: Path) -> list[object]:
    """Every row, as the functions of the store tell it."""
    proof.forget()
    everything = history.everything(store)
    return [notes.labels(store), notes.about(store), notes.remarks(store, "w"), history.identities(store),
            history.followed(store), [history.annotated(store, WHO.key)], everything]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for number in range(12):
        notes.set_label(tmp_path, f"run{number}", f"night {number}")
        notes.set_tags(tmp_path, f"run{number}", ["keep", f"t{number}"])
        notes.set_note(tmp_path, f"run{number}", "as it was")
        point = Point("", "step_ns", "ns", "lower", 1e6 + number, number, f"2026-01-{number + 1:02}", f"run{number}")
        history.replace_run(tmp_path, f"run{number}", WHO, [point])
    history.annotate(tmp_path, WHO.key, None, 5, "a new driver")
    notes.set_remark(tmp_path, "w", "late_rank", notes.Remark("done", "ann", "mended"))
    return tmp_path


def found(store: Path) -> list[str]:
    return [each.name for each in mend.look(store) if each.what == "database"]


def test_what_people_do_keeps_the_sums(store: Path) -> None:
    """Rows that are put in the place of others, changed and deleted."""
    history.add(store, WHO, [Point("", "step_ns", "ns", "lower", 7.0, 3, "2026-01-04", "run3")])
    history.set_usable(store, WHO.key, "run3", False, "warm")
    history.annotate(store, WHO.key, None, 5, "", 1)
    notes.set_label(store, "run1", "night 2")
    notes.forget(store, ["run4", "run5"])
    notes.remember_watched(store, "/in", "a", "b")
    notes.remember_watched(store, "/in", "c", "d")
    before = said(store)
    assert not found(store) and before[0] == {
        "run1": "night 2", **{f"run{n}": f"night {n}" for n in (0, 3, 6, 7, 8, 9, 10, 11)}
    }  # fmt: skip
    assert notes.watched(store, "/in") == ("c", "d")


@pytest.mark.parametrize("name", ["state.sqlite", history.NAME])
def test_a_flipped_bit_changes_no_answer_or_is_told(store: Path, name: str) -> None:
    before, path, draw = said(store), store / name, Random(7)
    whole = path.read_bytes()
    used = [at for at, byte in enumerate(whole) if byte]  # what is not nothing: there a bit may mean something
    told = 0
    for at in draw.sample(used, 150):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :])
        is_found = name in found(store)
        try:
            assert said(store) == before, at
        except IngestError:
            assert is_found, at
            told += 1
    path.write_bytes(whole)
    assert said(store) == before and told > 100


def test_a_changed_letter_is_refused_until_it_is_taken_as_it_is(store: Path) -> None:
    path = store / "state.sqlite"
    content = path.read_bytes()
    assert content.count(b"night 7") == 1
    path.write_bytes(content.replace(b"night 7", b"night 1"))
    proof.forget()
    with pytest.raises(IngestError, match="not what was written: label; a backup has it"):
        notes.labels(store)
    (one,) = [each for each in mend.look(store) if each.what == "database"]
    assert one.name == "state.sqlite" and one.state == "damaged"
    assert mend.heal(store, one).healed and not found(store)
    assert notes.labels(store)["run7"] == "night 1"


def test_a_row_or_a_table_that_went_is_told(store: Path) -> None:
    """As damage or another program does it: no trigger sees it."""
    path = store / history.NAME
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("DROP TRIGGER proof_followed_delete")
        con.execute("DELETE FROM followed WHERE run_id = 'run3'")
    (one,) = [each for each in mend.look(store) if each.what == "database"]
    assert one.name == history.NAME and not mend.heal(store, one).healed  # its schema is another one


def test_a_file_of_an_earlier_release_gets_its_sums(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as con, con:
        con.execute("CREATE TABLE label(run_id TEXT PRIMARY KEY, label TEXT NOT NULL)")
        con.execute("INSERT INTO label VALUES ('r', 'old')")
    assert not found(tmp_path)
    assert notes.labels(tmp_path) == {"r": "old"}
    with closing(wal.connect(tmp_path / "state.sqlite")) as con:
        assert con.execute("PRAGMA user_version").fetchone() == (notes.VERSION,)
        assert dict(con.execute("SELECT name, sum FROM proof"))["label"] == proof.turned(0, "r", "old")


def test_a_program_without_sums_may_not_write(store: Path) -> None:
    with closing(sqlite3.connect(store / "state.sqlite")) as con, pytest.raises(sqlite3.OperationalError):
        con.execute("INSERT INTO label VALUES ('x', 'y')")
