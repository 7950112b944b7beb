"""A run whose manifest is damaged is one row that says so; every other run, command and load goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from npulens import ingest
from npulens.app.cli import main
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs
from npulens.ingest.store.connection import DAMAGED

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


def test_a_run_without_a_number_of_its_schema_is_refused_in_a_sentence(place: Path) -> None:
    run_id = damage(place, "no fields")
    with pytest.raises(IngestError, match="cannot be read"):
        runs.open_run(place, run_id)
    said = json.loads(ask(place, "runs", "--json").stdout)["runs"]
    assert {row["status"] for row in said} == {"damaged", "complete"}
