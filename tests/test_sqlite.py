"""Databases of strangers: what they hold is read, what they ask for is not done, and nothing appears beside them."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
import time
from pathlib import Path

import apsw
import pyarrow as pa
import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.readers.sqlite import Database, Scan, is_sqlite, side_files, wanted


def make(path: Path, *statements: str, rows: int = 0) -> Path:
    con = sqlite3.connect(path)
    for statement in statements:
        con.execute(statement)
    if rows:
        con.execute("CREATE TABLE many (a INTEGER, b TEXT)")
        con.executemany("INSERT INTO many VALUES (?, ?)", ((i, f"text {i}") for i in range(rows)))
    con.commit()
    con.close()
    return path


def column(path: Path, spec: str, table: str = "t", scratch: Path | None = None) -> tuple[list[object], Scan]:
    """The first column of a table, and what became of the scan."""
    result = Scan()
    with Database(path, scratch) as database:
        batches = list(database.scan(table, wanted(spec), result))
    return [value for batch in batches for value in batch.column(1).to_pylist()], result


def fingerprint(directory: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(directory.rglob("*")) if p.is_file()}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    made = tmp_path / "scratch"
    made.mkdir()
    return made


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    made = tmp_path / "upload"
    made.mkdir()
    return made


def crashed(upload: Path, journal: str) -> Path:
    """A database whose writer died before its rows were settled in the file: 1000 rows in it, 1 before."""
    path, live = upload / "crashed.db", upload.parent / "live.db"
    con = sqlite3.connect(live, isolation_level=None)
    con.execute(f"PRAGMA journal_mode={journal}")
    con.execute("PRAGMA wal_autocheckpoint=0")
    con.execute("CREATE TABLE t (a INTEGER, pad TEXT)")
    con.execute("INSERT INTO t VALUES (0, '')")
    con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    con.execute("PRAGMA cache_size=2")  # so that an open transaction spills into the file
    con.execute("BEGIN")
    con.executemany("INSERT INTO t VALUES (?, ?)", ((i, "x" * 200) for i in range(1, 1001)))
    if journal == "wal":
        con.execute("COMMIT")
    shutil.copyfile(live, path)
    for beside in side_files(live):
        shutil.copyfile(beside, upload / ("crashed.db" + beside.name.removeprefix("live.db")))
    con.close()
    assert side_files(path)
    return path


def test_rows_that_are_only_in_the_log_are_read(upload: Path, scratch: Path) -> None:
    path = crashed(upload, "wal")
    before = fingerprint(upload)
    with Database(path) as unsettled:
        assert unsettled.count("t") == 1  # what reading the file alone would show
    values, result = column(path, "a:i", scratch=scratch)
    assert values == list(range(1001)) and result.damage is None
    assert fingerprint(upload) == before
    assert not list(scratch.iterdir())


def test_a_transaction_that_never_ended_is_rolled_back(upload: Path, scratch: Path) -> None:
    path = crashed(upload, "delete")
    before = fingerprint(upload)
    assert column(path, "a:i", scratch=scratch)[0] == [0]
    assert fingerprint(upload) == before


def test_a_database_in_wal_mode_without_a_log_is_left_alone(upload: Path, scratch: Path) -> None:
    path = make(upload / "a.db", "PRAGMA journal_mode=wal", "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (7)")
    assert path.read_bytes()[18] == 2 and not side_files(path)
    before = fingerprint(upload)
    assert column(path, "a:i", scratch=scratch)[0] == [7]
    assert fingerprint(upload) == before


def test_views_virtual_tables_and_generated_columns_are_absent(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS startNs FROM c"
    path = make(
        tmp_path / "a.db",
        f"CREATE VIEW TASK AS {endless}",
        "CREATE TABLE t (a INTEGER, big GENERATED ALWAYS AS (zeroblob(900000000)) VIRTUAL)",
        "INSERT INTO t (a) VALUES (1)",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; END",
        "CREATE VIRTUAL TABLE v USING fts5(words)",
    )
    begun = time.monotonic()
    with Database(path) as database:
        assert database.tables["t"] == ("a",)
        assert "TASK" not in database.tables and "v" not in database.tables
        assert database.rows("TASK", wanted("startNs:i")) == []
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH 'new.db' AS n",
        "INSERT INTO t VALUES (1)",
        "DELETE FROM t",
        "CREATE TABLE u (a)",
        "CREATE TEMP TABLE u (a)",
        "SELECT load_extension('x')",
        "SELECT randomblob(10)",
        "SELECT * FROM w",
        "PRAGMA query_only=0",
        "VACUUM INTO 'copy.db'",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
    ],
)
def test_nothing_but_reading_is_allowed(tmp_path: Path, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = make(tmp_path / "a.db", "CREATE TABLE t (a)", "CREATE VIEW w AS SELECT * FROM t")
    with Database(path, patience_s=1) as database, pytest.raises(apsw.Error):
        list(database._con.execute(statement))
    assert [p.name for p in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize(
    ("spec", "stored", "expected", "bad"),
    [
        ("a:i", ["5", "x", "1.5", "''"], [5, None, None, None], 3),
        ("a:i", ["1736414119641640110", "'1736414119641640110'"], [1736414119641640110] * 2, 0),
        ("a:i", ["'1736414119641640110'"] * 2, [1736414119641640110] * 2, 0),
        ("a:i", ["9223372036854775807", "-1"], [9223372036854775807, -1], 0),
        ("a:i", ["'9223372036854775808'", "9e999", "2.0"], [None, None, 2], 2),
        ("a:i", ["1.5", "2.5"], [None, None], 2),
        ("a:f", ["1", "2.5", "'3.5'", "NULL"], [1.0, 2.5, 3.5, None], 0),
        ("a:f", ["9e999", "-9e999", "'nan'", "'inf'", "1"], [None, None, None, None, 1.0], 4),
        ("a:f", ["x'00'", "1"], [None, 1.0], 1),
        ("a:s", ["'a'", "5", "x'ff41'", "NULL"], ["a", "5", "\ufffdA", None], 0),
        ("a:s", ["CAST(x'ff41' AS TEXT)", "'b'"], ["\ufffdA", "b"], 0),
        ("a:i", ["1", "CAST(x'ff41' AS TEXT)", "3"], [1, None, 3], 1),
        ("missing|a:i", ["4"], [4], 0),
        ("missing:i", ["4"], [None], 0),
    ],
)
def test_values_are_checked(tmp_path: Path, spec: str, stored: list[str], expected: list[object], bad: int) -> None:
    cells = [f"'{cell}'" if cell in ("x", "5") else cell for cell in stored]
    path = make(tmp_path / "a.db", "CREATE TABLE t (a)", *(f"INSERT INTO t VALUES ({cell})" for cell in cells))
    values, result = column(path, spec)
    assert values == expected
    assert result.rows == len(stored) and sum(result.bad.values()) == bad


def test_broken_text_in_a_later_batch_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npulens.ingest.readers.sqlite.BATCH", 10)
    path = make(tmp_path / "a.db", rows=35)
    con = sqlite3.connect(path)
    con.execute("UPDATE many SET a = CAST(x'ff' AS TEXT) WHERE rowid = 26")
    con.commit()
    con.close()
    result = Scan()
    with Database(path) as database:
        table = pa.Table.from_batches(list(database.scan("many", wanted("a:i b:s"), result)))
    assert table.column("row").to_pylist() == list(range(35))
    assert table.column("a").to_pylist() == [None if i == 25 else i for i in range(35)]
    assert table.column("b").to_pylist() == [f"text {i}" for i in range(35)]
    assert result.bad == {"a": 1}


def test_a_query_without_rows_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npulens.ingest.readers.sqlite._PROGRESS_STEPS", 10)
    path = make(tmp_path / "a.db", rows=1000)
    result = Scan()
    with Database(path) as database:
        database._patience = -1
        assert list(database.scan("many", wanted("a:i"), result)) == []
    assert result.damage is not None and "seconds" in result.damage


def test_a_longer_row_than_allowed_ends_the_table_not_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a.db", "CREATE TABLE t (a)", "INSERT INTO t VALUES ('ok'), (zeroblob(5000000))")
    monkeypatch.setattr("npulens.ingest.readers.sqlite.MAX_LENGTH", 1 << 20)
    values, result = column(path, "a:s")
    assert values in ([], ["ok"]) and result.damage is not None


def test_a_truncated_file_gives_what_is_left_and_says_so(tmp_path: Path, scratch: Path) -> None:
    """Every cut: the rows are the first rows of the table, and a loss is never silent."""
    whole = make(
        tmp_path / "whole.db", "CREATE TABLE first (a INTEGER)", "INSERT INTO first VALUES (1), (2)", rows=20_000
    )
    data, cut, partly = whole.read_bytes(), tmp_path / "cut.db", 0
    for tenth in range(10):
        cut.write_bytes(data[: len(data) * tenth // 10])
        before = cut.read_bytes()
        try:
            with Database(cut, scratch) as database:
                assert database.damage is not None and "truncated" in database.damage
                result = Scan()
                batches = list(database.scan("many", wanted("a:i"), result)) if "many" in database.tables else []
                values = [value for batch in batches for value in batch.column("a").to_pylist()]
                assert values == list(range(len(values))) and len(values) < 20_000
                partly += database.count("first") == 2
        except IngestError as error:
            assert error.kind == "bad_sqlite" and tenth == 0
        assert cut.read_bytes() == before and not list(scratch.iterdir())
    assert partly == 9


def test_mutated_databases_end_in_rows_or_a_reason(tmp_path: Path, scratch: Path) -> None:
    data = make(tmp_path / "whole.db", "CREATE TABLE t (a INTEGER, b)", rows=300).read_bytes()
    chance, path = random.Random(5), tmp_path / "mutated.db"
    begun = time.monotonic()
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 5, 50))):
            changed[chance.randrange(len(changed) if chance.random() < 0.5 else 200)] = chance.randrange(256)
        path.write_bytes(changed)
        try:
            with Database(path, scratch) as database:
                for table in database.tables:
                    for batch in database.scan(table, wanted("a:i b:s"), Scan()):
                        batch.validate(full=True)
        except IngestError as error:
            assert error.kind == "bad_sqlite" and error.path == str(path)
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith("mutated")] == ["mutated.db"]
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    "content", [b"", b"SQLite format 3\0", b"PK\3\4" + bytes(2000), b"SQLite format 3\0" + bytes(4000)]
)
def test_what_is_no_database_is_refused(tmp_path: Path, scratch: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(IngestError) as refused:
        Database(path, scratch)
    assert refused.value.kind == "bad_sqlite" and str(path) in str(refused.value)
    assert is_sqlite(path) == content.startswith(b"SQLite format 3\0")


def test_names_with_odd_letters(tmp_path: Path) -> None:
    directory = tmp_path / "a?b#c%20"
    directory.mkdir()
    path = make(
        directory / "x y?mode=rw.db", 'CREATE TABLE "a ""b" ("c "" d" INTEGER)', 'INSERT INTO "a ""b" VALUES (3)'
    )
    with Database(path) as database:
        assert database.tables == {'a "b': ('c " d',)}
        assert database.count('a "b') == 1
    assert [p.name for p in directory.iterdir()] == [path.name]
