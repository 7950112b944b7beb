"""The store under fire: kills at every point, sixteen writers, deletion, labels, old versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from npulens import ingest
from npulens.ingest import IngestError
from npulens.ingest.loading import capture
from npulens.ingest.store import runs, seal

ROOT = Path(__file__).resolve().parent.parent


def kineto(path: Path, rank: int = 0, spans: int = 40, begin: int = 1_763_600_000_000_000) -> Path:
    """A small torch.profiler trace of one rank."""
    events = []
    for i in range(spans):
        ts = begin + i * 100
        events.append({"ph": "X", "cat": "cpu_op", "name": f"aten::op{i % 7}", "pid": 1, "tid": 1, "ts": ts, "dur": 50,
                       "args": {"External id": i}})  # fmt: skip
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": ts + 5,
                       "dur": 10, "args": {"correlation": i}})  # fmt: skip
        events.append({"ph": "X", "cat": "kernel", "name": f"kernel{i % 3}", "pid": 0, "tid": 7, "ts": ts + 20,
                       "dur": 60.5, "args": {"correlation": i, "stream": 7, "device": 0}})  # fmt: skip
    trace = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 4}, "traceEvents": events}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(trace))
    return path


def grind(tmp_path: Path, *options: str) -> dict[str, int]:
    trace = kineto(tmp_path / "capture" / "trace.json")
    memory = Path("/dev/shm")  # a thousand fsyncs to a disk take minutes and show nothing more
    mill = tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.crashing", mill, str(trace), *options],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    shutil.rmtree(mill, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def check_honest(found: dict[str, int], every: int) -> None:
    assert found["points"] > 60
    assert found["killed"] >= found["points"] // every - 1
    assert (found["half_visible"], found["not_healed"], found["leaked"]) == (0, 0, 0)


def test_killed_at_many_points_nothing_is_half_visible_and_the_next_load_heals(tmp_path: Path) -> None:
    check_honest(grind(tmp_path, "--every", "40"), 40)


@pytest.mark.torture
def test_killed_at_every_point(tmp_path: Path) -> None:
    check_honest(grind(tmp_path), 1)


@pytest.mark.torture
def test_the_same_mill_catches_a_naive_writer(tmp_path: Path) -> None:
    found = grind(tmp_path, "--naive", "--every", "25")
    assert found["half_visible"] > 0


def test_sixteen_processes_load_one_capture(tmp_path: Path) -> None:
    trace, where = kineto(tmp_path / "trace.json"), tmp_path / "store"
    command = [sys.executable, "-m", "npulens.app.cli", "load", str(trace), "--store", str(where), "--json"]
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(16)]
    said = [json.loads(process.communicate()[0])["runs"][0] for process in running]
    assert sorted(run["stored"] for run in said) == ["exists"] * 15 + ["new"]
    assert len({run["run_id"] for run in said}) == 1 == len(runs.runs(where))


def test_loading_twice_changes_nothing_and_the_name_of_the_directory_does_not_matter(tmp_path: Path) -> None:
    first, second = kineto(tmp_path / "a" / "t.json"), kineto(tmp_path / "b" / "t.json")
    where = tmp_path / "store"
    one, two, three = (ingest.load(path, where).runs[0] for path in (first, first, second))
    assert (one.stored, two.stored, three.stored) == ("new", "exists", "exists")
    assert one.run_id == two.run_id == three.run_id
    assert two.coverage == one.coverage


def test_a_run_is_called_by_id_prefix_or_label(tmp_path: Path) -> None:
    where = tmp_path / "store"
    run = ingest.load(kineto(tmp_path / "t.json"), where, label="night").runs[0]
    assert run.run_id and run.label == "night"
    for name in (run.run_id, run.run_id[:6], "night"):
        assert runs.resolve(where, name).run_id == run.run_id
    with pytest.raises(IngestError, match="no run is called"):
        runs.resolve(where, "nobody")


def test_several_runs_of_one_load_share_no_label(tmp_path: Path) -> None:
    """Two sessions of one rank lie in a directory; a later load of one of them takes the name that it asks for."""
    where = tmp_path / "store"
    first = kineto(tmp_path / "a" / "one.json")
    second = tmp_path / "a" / "two.json"
    second.write_text(first.read_text("utf-8").replace('"dur": ', '"dur": 1'), "utf-8")
    found = ingest.load(tmp_path / "a", where, label="night").runs
    assert sorted(run.label or "" for run in found) == ["night", "night (2)"]
    assert {runs.resolve(where, str(run.label)).run_id for run in found} == {run.run_id for run in found}
    again = ingest.load(tmp_path / "a", where, label="night").runs
    assert [(run.run_id, run.label) for run in again] == [(run.run_id, run.label) for run in found]


def test_a_deleted_run_can_be_had_back_and_loaded_again(tmp_path: Path) -> None:
    where, trace = tmp_path / "store", kineto(tmp_path / "t.json")
    run_id = ingest.load(trace, where).runs[0].run_id
    assert run_id
    runs.remove(where, run_id)
    assert runs.runs(where) == []
    assert runs.restore(where, run_id[:8]) == run_id
    assert [run.run_id for run in runs.runs(where)] == [run_id]
    runs.remove(where, run_id)
    assert ingest.load(trace, where).runs[0].stored == "new"


def test_a_server_knows_nothing_more_of_runs_that_another_process_deleted(tmp_path: Path) -> None:
    where, known = tmp_path / "store", list[int]()
    stays = str(ingest.load(kineto(tmp_path / "stays.json"), where).runs[0].run_id)
    for number in range(8):
        run_id = str(ingest.load(kineto(tmp_path / f"{number}.json", spans=50 + number), where).runs[0].run_id)
        assert {run.run_id for run in runs.runs(where)} == {stays, run_id}
        for one in (stays, run_id):
            runs.open_run(where, one).close()
        known.append(sum(where in path.parents for path in (*runs._seen, *seal._LOOKED_AT)))
        shutil.rmtree(where / run_id)
    assert known[0] > 20 and len(set(known)) == 1
    assert [run.run_id for run in runs.runs(where)] == [stays]
    assert sum(where in path.parents for path in (*runs._seen, *seal._LOOKED_AT)) == known[0] // 2


def test_what_is_noted_of_uploads_goes_with_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, trace = tmp_path / "store", kineto(tmp_path / "t.json")
    run_id = ingest.load(trace, where).runs[0].run_id
    assert run_id
    noted = {path.suffix for path in (where / ".uploads").iterdir()}
    assert ".json" in noted
    with runs.upload_lock(where, "held"):
        runs.collect(where)
        assert {path.name for path in (where / ".uploads").glob("*.lock")} == {"held.lock"}
    assert len(list((where / ".uploads").glob("*.json"))) == 1  # its run is there
    runs.remove(where, run_id)
    monkeypatch.setattr(runs, "UNDO_S", -1)
    runs.collect(where)
    assert list((where / ".uploads").iterdir()) == []


def test_a_load_took_no_longer_than_it_took(tmp_path: Path) -> None:
    """Two ranks are read side by side: what is said is the time that whoever asked has waited, not their sum."""
    traces = [kineto(tmp_path / "two" / f"{rank}.json", rank) for rank in range(2)]
    begun = time.monotonic()
    (run,) = ingest.load(traces[0].parent, tmp_path / "store").runs
    assert len(run.ranks) == 2 and 0 < run.seconds <= time.monotonic() - begun


def test_a_run_of_another_schema_version_says_load_again_and_is_replaced(tmp_path: Path) -> None:
    where, trace = tmp_path / "store", kineto(tmp_path / "t.json")
    run_id = ingest.load(trace, where).runs[0].run_id
    assert run_id
    seal.close(where / run_id, runs.manifest(where, run_id) | {"schema_version": 0})
    with pytest.raises(IngestError, match="load again"):
        runs.open_run(where, run_id)
    assert ingest.load(trace, where).runs[0].stored == "new"
    runs.open_run(where, run_id).close()


def test_joining_a_rank_makes_a_new_run_of_both(tmp_path: Path) -> None:
    where = tmp_path / "store"
    zero = ingest.load(kineto(tmp_path / "r0.json", rank=0), where).runs[0]
    late = kineto(tmp_path / "r1.json", rank=1, begin=1_763_600_000_000_000 - 7)
    both = ingest.load(late, where, join=zero.run_id).runs[0]
    assert both.ranks == (0, 1) and both.run_id not in (None, zero.run_id)
    con = runs.open_run(where, both.run_id or "")
    starts = con.execute("SELECT rank, min(ts_ns), count(*) FROM span GROUP BY rank ORDER BY rank").fetchall()
    assert starts == [(0, 7000, 120), (1, 0, 120)]
    assert con.execute("SELECT missing_ranks FROM run").fetchall() == [([2, 3],)]
    again = ingest.load(late, where, join=both.run_id).runs[0]
    assert again.run_id is None and again.error and again.error["kind"] == "repeated_rank"


def test_the_id_of_a_capture_is_its_paths_and_bytes() -> None:
    assert capture.content_id({"a": "1", "b": "2"}) == capture.content_id({"b": "2", "a": "1"})
    assert capture.content_id({"a": "1", "b": "2"}) != capture.content_id({"a": "2", "b": "1"})
