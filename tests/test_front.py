"""npulens from Python: the examples of the README and of the package's own docstring, run on a sample."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import npulens
from npulens import ingest
from npulens.opened import FIGURES

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "sample_traces" / "late_rank" / "capture"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def test_the_readme_runs_as_it_stands(place: Path) -> None:
    (code,) = re.findall(r"```python\n(import npulens\n.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    code = code.replace("path/to/capture", str(SAMPLE))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^late_rank \d+ Ranks 0 and 2 wait", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^2 11 \d+ \d+$", done.stdout, re.MULTILINE), done.stdout


def test_a_run_says_what_the_commands_say(place: Path) -> None:
    run_id = npulens.load(SAMPLE).runs[0].run_id
    assert run_id is not None

    def said(*words: str) -> str:
        tool = [sys.executable, "-m", "npulens.app.cli", *words, "--store", str(place)]
        return subprocess.run(tool, capture_output=True, text=True, timeout=300, check=True).stdout

    with npulens.open(run_id[:12]) as run:
        assert run.info.run_id == run_id
        assert {**run.check().as_dict(), "recording": run.recording()} == json.loads(said("check", run_id, "--json"))
        rows = json.loads(said("breakdown", run_id, "--json"))["rows"]
        assert [(row.rank, row.step, row.computing_ns) for row in run.split()] == [
            (row["rank"], row["step"], row["computing_ns"]) for row in rows
        ]
        assert run.path().wall_ns == json.loads(said("path", run_id, "--json"))["wall_ns"]
        assert [outcome.detector for outcome in run.check(["gc"]).outcomes] == ["gc"]
        for name, means in run.tables().items():
            assert means and len(run.sql(f'SELECT * FROM "{name}" LIMIT 1').columns) > 1
        for name in FIGURES:
            assert run.figure(name).data and run.figure(name, "zh").data
        with pytest.raises(ValueError, match="split, path"):
            run.figure("none")


def test_what_is_not_there_is_a_typed_error(place: Path) -> None:
    npulens.load(SAMPLE)
    with pytest.raises(ingest.IngestError, match="no run is called"):
        npulens.open("nothing of the kind")
    with pytest.raises(ingest.IngestError):
        npulens.open("x", place / "elsewhere")


@pytest.mark.parametrize(
    ("module", "heavy"),
    [("npulens", "duckdb numpy"), ("npulens.analysis", "duckdb numpy"), ("npulens.app.commands.load", "duckdb numpy"),
     ("npulens.app.commands.runs", "pyarrow npulens.analysis.engine")],
)  # fmt: skip
def test_what_starts_often_imports_nothing_heavy(module: str, heavy: str) -> None:
    program = f"import sys, {module}; print([name for name in {heavy.split()} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


def test_an_answer_takes_no_library_of_tables_or_pages(place: Path) -> None:
    """Each takes a third of a second and more, which `check` of a small run would spend on nothing."""
    run = npulens.load(SAMPLE).runs[0].run_id
    program = (
        "import sys; from npulens.app import cli\n"
        f"try: cli.main(['check', {run!r}])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('pandas', 'streamlit', 'plotly', 'altair') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "saves" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
