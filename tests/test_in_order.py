"""Sorted a stretch at a time is sorted: against Python's sort of all rows at once."""

from __future__ import annotations

import random

import duckdb
import pytest

from npulens.ingest.tables import in_order

Row = tuple[int, int, int, int]


@pytest.mark.parametrize("stretch", [1, 7, 40, 1000])
@pytest.mark.parametrize("seed", range(8))
def test_every_row_comes_once_and_in_order(seed: int, stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracks of any size, many rows of one moment, times as far apart as stamps can be."""
    monkeypatch.setattr(in_order, "STRETCH", stretch)
    dice = random.Random(seed)
    far = dice.choice([3, 1000, 2**60])
    rows: list[Row] = [
        (dice.choice([0, 1, 1, 1, 5, 900]), dice.randrange(far) - far // 3, dice.randrange(-1, 4), number)
        for number in range(300)
    ]
    con = duckdb.connect()
    con.execute("CREATE TABLE s (track BIGINT, ts_ns BIGINT, dur_ns BIGINT, span_id BIGINT)")
    con.executemany("INSERT INTO s VALUES (?, ?, ?, ?)", rows)
    batches = in_order.in_order(con, in_order.Spans("s", where="dur_ns >= 0"), 64)
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    wanted = sorted((row for row in rows if row[2] >= 0), key=lambda row: (row[0], row[1], -row[2], row[3]))
    assert found == wanted


def test_a_table_of_nothing_has_no_batch() -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE s (track BIGINT, ts_ns BIGINT, dur_ns BIGINT, span_id BIGINT)")
    assert list(in_order.in_order(con, in_order.Spans("s", where="dur_ns >= 0"), 64)) == []
