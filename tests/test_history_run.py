"""From a capture to points: the right medians, the right conditions, an identity that survives the night."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.split import breakdown
from npulens.ingest.store import history, history_run, runs

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A collection as `npulens collect` leaves it: rank directories and what describes them."""
    shutil.copytree(SAMPLES / "torch_npu_text", tmp_path / "capture")
    return tmp_path / "capture"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The smallest one."""
    shutil.copytree(SAMPLES / "kineto", tmp_path / "capture")
    return tmp_path / "capture"


def describe(capture: Path, **more: object) -> None:
    environment = {
        "cann": "8.3", "commit": "abc", "cpu": {"model": "Kunpeng", "cores": 64, "load": [1.0]},
        "versions": {"torch": "2.7"}, "variables": {"OMP_NUM_THREADS": "8"},
    }  # fmt: skip
    said = {"what": "a job", "command": ["python", "/home/x/train.py", "-b", "8"], "environment": environment}
    (capture / "manifest.json").write_text(json.dumps(said | more))


def test_a_loaded_run_is_in_the_history_with_what_it_measured(tmp_path: Path, capture: Path) -> None:
    describe(capture)
    where = tmp_path / "store"
    (run,) = ingest.load(capture, where).runs
    (who,) = history.identities(where)
    assert (who.workload, who.hardware, who.host) == ("train.py", "4 x npu", "Kunpeng · 64")
    rows = [row for row in breakdown(runs.open_run(where, run.run_id or "")) if row.step is not None]
    assert len(rows) == 4  # two ranks, two steps
    for metric, column in (("step_ns", "dur_ns"), ("computing_ns", "computing_ns"), ("idle_ns", "idle_ns")):
        (point,) = history.series(where, who.key, metric)
        assert point.value == statistics.median(getattr(row, column) for row in rows)
        assert (point.run_id, point.usable, point.night, point.unit) == (run.run_id, True, "2026-01-05", "ns")
    said = point.covariates
    assert {name: said[name] for name in ("cann", "commit", "torch", "torch_npu", "env OMP_NUM_THREADS", "host")} == {
        "cann": "8.3 | 8.3.RC1", "commit": "abc", "torch": "2.7", "torch_npu": "2.7.1", "env OMP_NUM_THREADS": "8",
        "host": "sim-node-0",
    }  # fmt: skip
    assert said["AI Core MHz"] == "1800" and "cpu load" not in said


def test_following_again_and_loading_again_change_nothing(tmp_path: Path, small: Path) -> None:
    where = tmp_path / "store"
    ingest.load(small, where)
    before = history.everything(where)
    ingest.load(small, where)
    assert history_run.catch_up(where) == 0 and history.everything(where) == before


def test_a_history_that_is_gone_is_filled_from_the_runs(tmp_path: Path, small: Path) -> None:
    where = tmp_path / "store"
    ingest.load(small, where)
    before = history.everything(where)
    for path in where.glob(f"{history.NAME}*"):
        path.unlink()
    assert history_run.catch_up(where) == 1 and history.everything(where) == before


def test_points_outlive_their_capture(tmp_path: Path, small: Path) -> None:
    where = tmp_path / "store"
    (run,) = ingest.load(small, where).runs
    before = history.everything(where)
    runs.remove(where, run.run_id or "")
    assert history.everything(where) == before != {}


def test_a_partial_capture_is_never_usable(tmp_path: Path, capture: Path) -> None:
    table = next(capture.rglob("trace_view.json"))
    table.write_bytes(table.read_bytes()[: table.stat().st_size // 2])
    where = tmp_path / "store"
    (run,) = ingest.load(capture, where).runs
    assert run.status == "partial"
    points = [point for each in history.everything(where).values() for point in each]
    assert points and all(not point.usable and point.reason for point in points)


def test_the_night_does_not_change_who_it_is(tmp_path: Path, capture: Path) -> None:
    """Times, process ids and places differ from night to night, also within the profiler's settings."""
    where = tmp_path / "store"
    describe(capture, command=["python", "/home/x/train.py", "-b", "8"])
    ingest.load(capture, where)
    describe(capture, command=["python", "/mnt/y/train.py", "-b", "8"], made_at="2027")
    for info in capture.rglob("profiler_info*.json"):
        said = json.loads(info.read_text())
        info.write_text(json.dumps(said | {"traceName": "other"}))
    moved = capture.rename(tmp_path / "tomorrow")
    ingest.load(moved, where)
    assert len(runs.runs(where)) == 2 and len(history.identities(where)) == 1


def test_a_load_goes_on_where_the_history_is_damaged(tmp_path: Path, small: Path) -> None:
    where = tmp_path / "store"
    where.mkdir()
    (where / history.NAME).write_bytes(b"nothing that SQLite knows" * 400)
    (run,) = ingest.load(small, where).runs
    assert run.stored == "new"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{", '{"what": 1, "environment": [], "command": 7, "shape": [1]}', "null", '"x"']
)
def test_a_description_by_anybody_is_harmless(tmp_path: Path, small: Path, text: str) -> None:
    (small / "manifest.json").write_text(text)
    where = tmp_path / "store"
    (run,) = ingest.load(small, where).runs
    assert run.status == "complete" and len(history.identities(where)) == 1


def test_a_description_above_the_capture_is_not_read(tmp_path: Path, small: Path) -> None:
    describe(tmp_path)
    (small / "manifest.json").unlink(missing_ok=True)
    where = tmp_path / "store"
    ingest.load(small, where)
    assert history.identities(where)[0].workload == "capture"  # what was loaded, not the script of the description
