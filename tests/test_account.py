"""The account of a load, and who may be a baseline: against the files themselves and the tables as they are counted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.ingest import IngestError
from npulens.ingest.messages import render
from npulens.ingest.store import runs
from npulens.ingest.store.account import account
from npulens.ingest.tables import schema

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    """Store, run and capture of a text sample whose second rank lost the end of its trace."""
    place = tmp_path_factory.mktemp("cut")
    shutil.copytree(SAMPLES / "torch_npu_text", place / "capture")
    trace = sorted(place.glob("capture/*/ASCEND_PROFILER_OUTPUT/trace_view.json"))[1]
    trace.write_bytes(trace.read_bytes()[: trace.stat().st_size // 2])
    (run,) = ingest.load(place / "capture", place / "store").runs
    assert run.run_id
    return place / "store", run.run_id, place / "capture"


def test_ranks_files_and_bytes_are_those_on_disk(cut: tuple[Path, str, Path]) -> None:
    place, run_id, capture = cut
    held = account(place, run_id).ranks
    folders = sorted(capture.glob("*_ascend_pt"))
    assert [each.rank for each in held] == [0, 2] and [each.path for each in held] == [f.name for f in folders]
    for each, folder in zip(held, folders, strict=True):
        assert set(each.files) <= {str(path.relative_to(folder)) for path in folder.rglob("*")}
        assert "ASCEND_PROFILER_OUTPUT/trace_view.json" in each.files
        assert each.bytes == sum((folder / name).stat().st_size for name in each.files)
        assert each.formats == ("torch_npu_text",) and each.seconds > 0
        versions = json.loads((folder / f"profiler_info_{each.rank}.json").read_text())
        assert versions["torch_npu_version"] in each.versions.values()
    assert [bool(each.reasons) for each in held] == [False, True]


def test_rows_are_those_in_the_tables(cut: tuple[Path, str, Path]) -> None:
    place, run_id, _ = cut
    held = account(place, run_id)
    for rank in held.ranks:
        rows = {row.table: row.rows for row in held.tables if row.rank == rank.rank}
        assert set(rows) == set(schema.tables()) - {"run", "rank", "coverage", "device_time", "checked"}
        for table, counted in rows.items():
            path = place / run_id / f"{table}.parquet"
            own = f"WHERE rank = {rank.rank}" if "rank" in schema.tables()[table].names() else ""  # else of the run
            stored = duckdb.sql(f"SELECT count(*) FROM '{path}' {own}").fetchall()[0][0]
            assert stored == counted, table
        assert rank.kept == sum(rows.values())
        assert rank.dropped == sum(row.dropped for row in held.tables if row.rank == rank.rank)


def test_a_partial_run_is_no_baseline(cut: tuple[Path, str, Path], tmp_path: Path) -> None:
    place, run_id, _ = cut
    assert runs.resolve(place, run_id).status == "partial" and not runs.resolve(place, run_id).baseline
    (whole,) = ingest.load(SAMPLES / "kineto", tmp_path / "store").runs
    found = runs.resolve(tmp_path / "store", str(whole.run_id))
    assert found.baseline
    assert not replace(found, status="partial").baseline and not replace(found, events=0).baseline


def test_an_unknown_run_has_no_account(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="no such run"):
        account(tmp_path, "nothing")


def panel() -> None:
    from npulens.app import context
    from npulens.app.pages.runs import edit

    ctx = context.current()
    edit.show_read(ctx, ctx.runs[0])


@pytest.mark.parametrize(("lang", "whole", "never"), [
    ("en", "Nothing of what was recorded got lost", "never a baseline"), ("zh", "可以作为", "不会作为基线"),
])  # fmt: skip
def test_the_panel_says_what_was_lost(
    cut: tuple[Path, str, Path], monkeypatch: pytest.MonkeyPatch, lang: str, whole: str, never: str
) -> None:
    place, run_id, _ = cut
    monkeypatch.setenv("NPULENS_STORE", str(place))
    page = AppTest.from_function(panel, default_timeout=60)
    page.query_params["lang"] = lang
    page.run()
    assert not page.exception, page.exception[0].value
    said = "\n".join(element.value for element in page.text)
    assert never in said and whole not in said
    ranks, tables = (frame.value for frame in page.dataframe)
    assert list(ranks["rank"]) == [0, 2] and list(ranks["reason"])[0] == "" and list(ranks["reason"])[1]
    assert len(tables) == 2 * (len(schema.tables()) - 5)
    assert tables["state"].iloc[0].startswith("◐")  # what lost something comes first
    if lang == "zh":
        lost = runs.resolve(place, run_id).reason
        assert lost and render(lost, "zh") != lost and lost not in said and render(lost, "zh") in said
        assert not any(text and not any("\u4e00" <= char <= "\u9fff" for char in text) for text in tables["reason"])
    assert "trace_view.json" in page.code[0].value
