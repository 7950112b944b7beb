"""What somebody will open is arranged before: the newest large runs, once, whatever else lies in the store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from npulens import ingest
from npulens.app.team import server
from npulens.app.timeline import ahead
from npulens.ingest.store import lod, seal
from tests.bench.captures import ROOT

SMALL, LARGE = "cpu_conv_folded", "torch_npu_text"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, one of which is large here."""
    found = {name: ingest.load(ROOT / "sample_traces" / name, tmp_path / "store").runs[0] for name in (SMALL, LARGE)}
    assert found[SMALL].events < found[LARGE].events
    monkeypatch.setattr(ahead, "LEAST_EVENTS", found[LARGE].events)
    return tmp_path / "store"


def arranged(store: Path) -> list[str]:
    return [path.name.split(".")[0] for path in (store / lod.FOLDER).glob("*.duckdb") if seal.holds(path)]


def test_a_large_run_once_and_no_small_one(store: Path) -> None:
    assert ahead.arrange([store]) == 1 and len(arranged(store)) == 1
    built = lod.place(store, arranged(store)[0]).stat().st_mtime_ns
    assert ahead.arrange([store]) == 0 and lod.place(store, arranged(store)[0]).stat().st_mtime_ns == built


def test_a_store_that_is_not_there_and_a_damaged_run_stop_nothing(store: Path, tmp_path: Path) -> None:
    (large,) = (run for run in ahead.runs(store) if run.events >= ahead.LEAST_EVENTS)
    span = store / large.run_id / "span.parquet"
    span.write_bytes(span.read_bytes()[:-1] + b"?")
    assert ahead.arrange([tmp_path / "nowhere", store]) == 0 and arranged(store) == []


def test_the_server_does_it_from_its_start_and_ends_while_it_does(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(store))

    async def served() -> None:
        async with server.lifespan(None):  # type: ignore[arg-type]
            for _ in range(600):
                if arranged(store):
                    return
                await asyncio.sleep(0.1)

    asyncio.run(served())
    assert len(arranged(store)) == 1
