"""How much memory the questions to a run may take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npulens.ingest.store import connection


@pytest.mark.parametrize(
    ("run_bytes", "machine", "wanted"),
    [
        (5 * 10**6, 64 << 30, "1000MB"),  # a small one: the least
        (200 * 10**6, 64 << 30, "4000MB"),  # a thousand ranks
        (200 * 10**6, 8 << 30, "2147MB"),  # a quarter of a small machine
        (200 * 10**6, 1 << 30, "1000MB"),
    ],
)
def test_a_large_run_may_take_more_where_there_is_more(
    run_bytes: int, machine: int, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "span.parquet").open("wb") as file:
        file.truncate(run_bytes)
    (tmp_path / "manifest.json").write_bytes(b" " * 1000)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": machine // 4096}[name])
    assert connection.memory_limit(tmp_path) == wanted
