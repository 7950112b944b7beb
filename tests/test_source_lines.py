"""Lines of code that a recording keeps: of the job's own files, bounded, shown with the frame, gone when redacted."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from npulens import ingest
from npulens.app.pages.workspace.evidence import kept_lines
from npulens.app.text import wording
from npulens.collectors import source_lines
from npulens.ingest.store import redact_run, runs

SAMPLE = Path(__file__).parent.parent / "sample_traces" / "cpu_train_step"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job with a script, a module below it, something installed, and a secret beside it."""
    home = tmp_path / "job"
    for name, count in {"train.py": 40, "parts/model.py": 5, "site-packages/torch/nn.py": 9, "../secret.py": 9}.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {number} of {path.name}\n" for number in range(1, count + 1)))
    return home


def trace(home: Path, *frames: str) -> str:
    path = home / "x.pt.trace.json.gz"
    with gzip.open(path, "wt") as stream:
        json.dump({"traceEvents": [{"name": frame, "args": {"Call stack": ";\n".join(frames)}} for frame in frames]},
                  stream)  # fmt: skip
    return str(path)


def test_lines_around_each_place_of_the_jobs_own_files(job: Path) -> None:
    frames = ["train.py(20): step", f"{job}/parts/model.py(4): forward", "train.py(900): gone"]
    found = source_lines.of([trace(job, *frames)], ["python", "train.py"], job)
    assert found["train.py"] == {str(n): f"line {n} of train.py" for n in range(19, 32)}
    assert found[f"{job}/parts/model.py"] == {str(n): f"line {n} of model.py" for n in (3, 4, 5)}


def test_nothing_else_is_copied(job: Path) -> None:
    frames = ["site-packages/torch/nn.py(3): f", "../secret.py(3): f", f"{job.parent}/secret.py(3): f",
              f"{json.__file__}(120): dumps", "absent.py(3): f"]  # fmt: skip
    assert source_lines.of([trace(job, *frames)], ["python", "train.py"], job) == {}


def test_the_copy_is_bounded(job: Path) -> None:
    (job / "long.py").write_text("x" * 5_000 + "\n" + ("y" * 190 + "\n") * 9_000)
    found = source_lines.of([trace(job, *(f"long.py({n}): f" for n in range(1, 9_000, 13)))], [], job)["long.py"]
    assert len(found["1"]) == source_lines.MOST_LETTERS
    assert sum(map(len, found.values())) <= source_lines.MOST_BYTES
    assert len(found) <= source_lines.MOST_PLACES * (source_lines.BEFORE + source_lines.BEHIND + 1)


def test_a_run_keeps_them_and_a_redacted_one_does_not(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    shutil.copytree(SAMPLE, capture)
    said = json.loads((capture / "manifest.json").read_text())
    said |= {"environment": said.get("environment", {}), "sources": {"train.py": {"7": "def secret():"}}}
    (capture / "manifest.json").write_text(json.dumps(said))
    store = tmp_path / "store"
    run = str(ingest.load(capture, store).runs[0].run_id)
    assert wording.run_name(runs.resolve(store, run), "en") == "capture · train_step"  # its workload
    manifest = runs.manifest(store, run)
    assert kept_lines(manifest, "train.py(7): secret") == ["    7  def secret():"]
    assert kept_lines(manifest, "other.py(7): secret") == kept_lines(manifest, "train.py(70): secret") == []
    with redact_run.outgoing(store, [runs.resolve(store, run)], wanted=True) as copy:
        assert "def secret" not in "".join(path.read_text() for path in copy.rglob("manifest.json"))
    assert "def secret():" in json.dumps(manifest, default=str)
    hidden = str(ingest.load(capture, tmp_path / "other", redact=True).runs[0].run_id)
    assert "def secret" not in json.dumps(runs.manifest(tmp_path / "other", hidden), default=str)


@pytest.mark.parametrize("sources", [7, [], {"train.py": 7}, {"train.py": {"7": 8}}, {"train.py": {"x": "y"}}])
def test_a_made_up_description_shows_nothing(sources: object) -> None:
    assert kept_lines({"collected": {"sources": sources}}, "train.py(7): f") == []
    assert kept_lines({"collected": sources}, "train.py(7): f") == []
