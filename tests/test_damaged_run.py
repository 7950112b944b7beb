"""A run whose manifest is damaged is one row that says so; every other run, command and load goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from npulens import ingest
from npulens.app.cli import main
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs, seal
from npulens.ingest.store.connection import DAMAGED, proved
from npulens.ingest.tables import schema

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
DAMAGES = {
    "empty": b"", "cut": b'{"run_id": "', "no fields": b"{}", "a list": b"[]", "a word": b'"x"', "nothing": b"null",
    "no text": b"\xff\xfe\x00", "wrong types": b'{"schema_version": "3", "ranks": 1}', "deep": b"[" * 100_000,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two runs: `good` and `bad`."""
    place = tmp_path_factory.mktemp("damaged")
    ingest.load(SAMPLES / "cpu_conv_unfused", place / "store", label="good")
    ingest.load(SAMPLES / "cpu_conv_folded", place / "store", label="bad")
    return place / "store"


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(made, tmp_path / "store")
    yield tmp_path / "store"


def flipped(path: Path, bit: int) -> None:
    """Turns one bit of a file around."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def damage(place: Path, how: str) -> str:
    """Damages the run; its id."""
    run_id = runs.resolve(place, "bad").run_id
    (place / run_id / "manifest.json").write_bytes(DAMAGES[how])
    return run_id


def ask(place: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--store", str(place)])


@pytest.mark.parametrize("how", DAMAGES)
def test_it_is_one_row_and_the_rest_goes_on(how: str, place: Path) -> None:
    run_id = damage(place, how)
    rows = {run.label: run for run in runs.runs(place)}
    assert rows["bad"].run_id == run_id and not rows["bad"].baseline
    assert (rows["bad"].status, rows["bad"].reason) == ("damaged", DAMAGED)
    assert rows["good"].status == "complete"
    listed = ask(place, "runs")
    assert listed.exit_code == 0 and "damaged" in listed.output and "complete" in listed.output
    assert ask(place, "check", "good").exit_code == 0
    refused = ask(place, "check", "bad")
    assert refused.exit_code != 0 and DAMAGED in refused.output and "Traceback" not in refused.output
    removed = ask(place, "rm", "bad")
    assert removed.exit_code == 0, removed.output
    assert [run.label for run in runs.runs(place)] == ["good"]


def test_a_load_of_its_capture_heals_it(place: Path) -> None:
    run_id = damage(place, "empty")
    (again,) = ingest.load(SAMPLES / "cpu_conv_folded", place).runs
    assert (again.run_id, again.stored) == (run_id, "new")
    assert runs.resolve(place, run_id).status == "complete"
    runs.open_run(place, run_id).close()


def test_another_capture_is_loaded_beside_it(place: Path) -> None:
    damage(place, "cut")
    assert all(run.run_id for run in ingest.load(SAMPLES / "torch_npu_db", place).runs)


@pytest.mark.parametrize("name", ["manifest.json", "span.parquet", "rank.parquet"])
def test_one_bit_is_told_wherever_it_lies_and_a_load_heals_it(name: str, place: Path) -> None:
    run_id, draw = runs.resolve(place, "bad").run_id, Random(name)
    path = place / run_id / name
    whole = path.read_bytes()
    for bit in [*draw.sample(range(8 * len(whole)), 40), 3, 8 * len(whole) - 1]:
        flipped(path, bit)
        with pytest.raises(IngestError, match="not what was stored|cannot be read"):
            proved(place, run_id)
        path.write_bytes(whole)
    flipped(path, draw.randrange(8 * len(whole)))
    assert [run.stored for run in ingest.load(SAMPLES / "cpu_conv_folded", place).runs] == ["new"]
    runs.open_run(place, run_id).close()
    assert [run.stored for run in ingest.load(SAMPLES / "cpu_conv_folded", place).runs] == ["exists"]


def test_a_file_cut_short_is_one_row_at_first_sight(place: Path) -> None:
    run_id = runs.resolve(place, "bad").run_id
    os.truncate(place / run_id / "span.parquet", 1000)
    runs._seen.clear()
    listed = ask(place, "runs")
    assert listed.exit_code == 0 and f"{run_id} is damaged: not what was stored: span.parquet" in listed.output
    (place / run_id / "span.parquet").unlink()
    refused = ask(place, "breakdown", run_id)
    assert refused.exit_code == 2 and "files of the run are missing: span.parquet" in refused.output


def test_a_copy_under_another_name_and_a_directory_of_somebody_else(place: Path) -> None:
    good = runs.resolve(place, "good").run_id
    shutil.copytree(place / good, place / "copy")
    (place / "lost+found").mkdir()
    rows = {run.run_id: run.status for run in runs.runs(place)}
    assert rows.pop("copy") == "damaged" and rows[good] == "complete" and "lost+found" not in rows
    assert ask(place, "check", "good").exit_code == 0


def test_a_newer_run_is_never_replaced(place: Path) -> None:
    run_id = runs.resolve(place, "bad").run_id
    seal.close(place / run_id, runs.manifest(place, run_id) | {"schema_version": schema.version() + 1})
    before = (place / run_id / "manifest.json").read_bytes()
    refused = ask(place, "load", str(SAMPLES / "cpu_conv_folded"))
    assert refused.exit_code == 2 and "newer npulens" in refused.output
    assert (place / run_id / "manifest.json").read_bytes() == before


def test_a_deleted_run_answers_whoever_has_it_open(place: Path) -> None:
    run_id = runs.resolve(place, "good").run_id
    with runs.open_run(place, run_id) as con:
        rows = con.execute("SELECT count(*) FROM span").fetchall()
        runs.remove(place, run_id)
        assert con.execute("SELECT count(*) FROM span").fetchall() == rows
    assert runs.manifest(place, run_id)["run_id"] == run_id


def test_a_new_store_is_its_maker_s_alone(place: Path, tmp_path: Path) -> None:
    ingest.load(SAMPLES / "cpu_conv_folded", tmp_path / "new", label="a")
    every = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert [path for path in every if path.stat().st_mode & 0o077 and not path.parent.name.startswith(".")] == []


def test_a_run_without_a_number_of_its_schema_is_refused_in_a_sentence(place: Path) -> None:
    run_id = damage(place, "no fields")
    with pytest.raises(IngestError, match="cannot be read"):
        runs.open_run(place, run_id)
    said = json.loads(ask(place, "runs", "--json").stdout)["runs"]
    assert {row["status"] for row in said} == {"damaged", "complete"}
