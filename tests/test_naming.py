"""What runs are called: after the directory, archive or file that somebody brought."""

from __future__ import annotations

from pathlib import Path

import hostile_capture
import pytest

from npulens import ingest
from npulens.app.text import wording
from npulens.ingest.loading.naming import job, names
from npulens.ingest.store import runs

PT = "node-0_4711_20260105080000000_ascend_pt"


@pytest.mark.parametrize(("files", "paths", "called", "said"), [
    ([["/d/level1/a/t.json", "/d/level1/b/t.json"]], ["/d/level1"], None, ["level1"]),
    ([[f"/d/llama/{PT}/ASCEND_PROFILER_OUTPUT/trace_view.json"]], [f"/d/llama/{PT}"], None, ["llama"]),
    ([["/d/llama/trace_view.json"]], ["/d/llama/trace_view.json"], None, ["llama/trace_view.json"]),
    ([["/u/x1/resnet.json.gz"], ["/u/x1/linear.json.gz"]], ["/u/x1"], "resnet.json.gz +1",
     ["resnet.json.gz", "linear.json.gz"]),
    ([["/u/x1/0/t.json", "/u/x1/1/t.json"]], ["/u/x1"], "0 +1", ["0 +1"]),
    ([["/u/x1/job.tgz/in/t.json"]], ["/u/x1/job.tgz"], "job.tgz", ["job.tgz"]),
    ([[f"/d/all/before/{PT}/a.db"], [f"/d/all/after/{PT}/a.db"]], ["/d/all"], None, ["before", "after"]),
    ([["/d/one.json"], ["/d/two.json"]], ["/d/one.json", "/d/two.json"], None, ["one.json", "two.json"]),
])  # fmt: skip
def test_names(files: list[list[str]], paths: list[str], called: str | None, said: list[str]) -> None:
    assert names([[Path(file) for file in run] for run in files], [Path(path) for path in paths], called) == said


@pytest.mark.parametrize(("told", "said"), [
    ({"command": ["python", "/home/u/train.py", "--model", "/models/Qwen2-7B/"]}, "train.py · Qwen2-7B"),
    ({"workload": "matmul", "command": ["npulens", "collect", "matmul"]}, "matmul"),
    ({"command": ["sh", "run.sh", "--model_name_or_path=a/llama-8b"]}, "run.sh · llama-8b"),
    ({"command": ["python", "train.py", "--model", "--lr"]}, "train.py"),
    ({"command": ["python", "-m", "job"]}, None), ({"command": 7, "workload": 8}, None), ({}, None),
])  # fmt: skip
def test_a_recording_tells_its_job_and_its_model(told: dict[str, object], said: str | None) -> None:
    assert job(told) == said


def test_two_jobs_of_one_folder_have_their_own_names(tmp_path: Path) -> None:
    (tmp_path / "dropped").mkdir()
    for name, world in (("resnet.json", 4), ("linear.json", 3)):
        text = hostile_capture.write(tmp_path / "dropped" / name).read_text("utf-8")
        (tmp_path / "dropped" / name).write_text(text.replace('"world_size": 4', f'"world_size": {world}'))
    ingest.load(tmp_path / "dropped", tmp_path / "store", called="resnet.json +1")
    held = {run.label: run.world_size for run in runs.runs(tmp_path / "store")}
    assert held == {"resnet.json": 4, "linear.json": 3}


def test_a_run_is_never_called_by_its_id(tmp_path: Path) -> None:
    report = ingest.load(hostile_capture.write(tmp_path / "trace.json"), tmp_path / "store", redact=True)
    (run,) = runs.runs(tmp_path / "store")
    assert run.label is None, "names of files tell of people"
    for lang in ("en", "zh"):
        said = wording.run_name(run, lang)
        assert "Kineto" in said and str(report.runs[0].run_id)[:6] not in said
    report = ingest.load(tmp_path / "trace.json", tmp_path / "store")
    assert report.runs[0].label == f"{tmp_path.name}/trace.json"
    again = ingest.load(tmp_path / "trace.json", tmp_path / "store", label="mine")
    assert (again.runs[0].stored, again.runs[0].label) == ("exists", "mine")
    assert ingest.load(tmp_path / "trace.json", tmp_path / "store").runs[0].label == "mine", "a name stays"


def test_a_sample_says_that_it_is_simulated(tmp_path: Path) -> None:
    ingest.load(Path(__file__).parents[1] / "sample_traces" / "kineto", tmp_path / "store")
    assert [(run.label, run.evidence) for run in runs.runs(tmp_path / "store")] == [("kineto", "simulated")]
