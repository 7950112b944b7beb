"""The critical path as people see it: it tiles the window and every step, and says whose time it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.look.path import Named, Part, followed, path
from npulens.analysis.look.path import Path as Found
from npulens.analysis.run import Run
from npulens.app.cli import main
from npulens.ingest.store import runs as store
from tests.tablecase import connection
from tests.test_graph import REAL

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
CAPTURES = sorted(one.name for one in SAMPLES.iterdir() if one.is_dir() and not one.name.startswith("_"))
HAND = {"spans": [
    {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 300},
    {"id": 7, "kind": "step_mark", "name": "ProfilerStep#2", "at": 300, "for": 200},
    {"id": 2, "kind": "runtime", "name": "Node@launch", "at": 100, "for": 4},
    {"id": 3, "kind": "kernel", "name": "a", "at": 114, "for": 300, "by": 2},
    {"id": 4, "kind": "runtime", "name": "AscendCL@aclrtSynchronizeStream", "at": 120, "for": 299},
    {"id": 8, "kind": "cpu_op", "name": "aten::mm", "at": 430, "for": 40},
    {"id": 5, "kind": "runtime", "name": "Node@launch", "at": 465, "for": 4},
    {"id": 6, "kind": "kernel", "name": "b", "at": 479, "for": 80, "by": 5},
]}  # fmt: skip


def tiles(place: Path, run_id: str) -> Found:
    """The path of a run, after every sum that has to close was closed."""
    con = store.open_run(place, run_id)
    views.install(con)
    run, found = Run(con), path(con)
    pieces = run.get(followed)
    assert all(one.end_ns == other.begin_ns for one, other in zip(pieces, pieces[1:], strict=False))
    assert sum(one.dur_ns for one in pieces) == found.wall_ns == run.wall_ns
    assert sum(found.by_kind().values()) == sum(found.by_rank().values()) == found.wall_ns
    assert sum(part.pieces for part in found.parts) == found.pieces == len(pieces)
    rows = con.execute("SELECT step, ts_ns, dur_ns FROM step WHERE rank = ? ORDER BY ts_ns", [found.rank]).fetchall()
    assert [(step.step, step.ts_ns, step.dur_ns) for step in found.steps] == rows
    assert all(sum(step.kinds.values()) == step.dur_ns for step in found.steps)
    con.close()
    return found


@pytest.mark.parametrize("name", CAPTURES)
def test_the_path_of_every_bundled_sample_tiles_its_window_and_each_step(name: str, tmp_path: Path) -> None:
    runs = [run.run_id for run in ingest.load(SAMPLES / name, tmp_path).runs]
    assert runs
    for run_id in runs:
        assert run_id is not None
        found = tiles(tmp_path, run_id)
        assert found.steps and sum(step.dur_ns for step in found.steps) == found.wall_ns


@pytest.mark.shared
@pytest.mark.parametrize("name", REAL)
def test_the_path_of_real_captures_tiles_them(name: str, shared_traces: Path, tmp_path: Path) -> None:
    for run in ingest.load(shared_traces / name, tmp_path).runs:
        if run.run_id:
            tiles(tmp_path, run.run_id)


def test_the_path_by_hand() -> None:
    """104 of host, 10, kernel 300, 5 until the host is awake, 50 of host (an operator fills 35), 10, kernel 80."""
    found = path(connection(HAND))
    assert (found.rank, found.wall_ns, found.pieces) == (0, 559_000, 7)
    assert found.parts == (
        Part("kernel", 0, 380_000, 2), Part("host", 0, 154_000, 2), Part("launch", 0, 20_000, 2),
        Part("sync", 0, 5_000, 1),
    )  # fmt: skip
    # Step 1 ends at 300: host to 104, launch to 114, the kernel till the end; the rest is step 2's.
    assert [dict(step.kinds) for step in found.steps] == [
        {"kernel": 186_000, "host": 104_000, "launch": 10_000},
        {"kernel": 194_000, "host": 50_000, "launch": 10_000, "sync": 5_000},
    ]
    # No call fills half of the first 104 us, so that they go by the launch they led to.
    assert [(one.name, one.span_id) for one in found.longest if one.kind == "host"] == [
        ("Node@launch", 2), ("aten::mm", 8)
    ]  # fmt: skip
    assert found.names[0] == Named("kernel", "a", 300_000, 1)


def test_a_run_without_times_has_no_path() -> None:
    found = path(connection({}))
    assert (found.rank, found.pieces, found.parts) == (None, 0, ())


def test_the_command_promises_its_keys_and_speaks_both_languages(tmp_path: Path) -> None:
    (run,) = ingest.load(SAMPLES / "torch_npu_text", tmp_path).runs
    ask = ["path", str(run.run_id), "--store", str(tmp_path)]
    found = json.loads(CliRunner().invoke(main, [*ask, "--json"]).stdout)
    assert set(found) == {
        "run_id", "rank", "wall_ns", "pieces", "parts", "kinds", "ranks", "steps", "longest", "names"
    }  # fmt: skip
    assert set(found["parts"][0]) == {"kind", "rank", "ns", "pieces"}
    assert set(found["longest"][0]) == {"kind", "rank", "ts_ns", "dur_ns", "span_id", "name"}
    assert set(found["steps"][0]) == {"step", "ts_ns", "dur_ns", "kinds"}
    assert {one["rank"] for one in found["ranks"]} == {0, None}  # rank 1 was not captured
    assert sum(one["ns"] for one in found["kinds"]) == found["wall_ns"]
    said = CliRunner().invoke(main, [*ask]).stdout
    assert "Computing" in said and "not captured" in said
    assert "未采集的 rank" in CliRunner().invoke(main, [*ask, "--lang", "zh"]).stdout
