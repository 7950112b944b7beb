"""What the real torch_npu writes of a job that our recorder records, read by our ingest.

Once on the host's activity alone, where every figure is counted again by json, csv and sqlite3; once with an invented
device layer of which torch_npu's own analysis makes its files, where every figure is known beforehand.
"""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.collected import collected
from tests import torch_npu_db_files
from tests.npu.conftest import Torch
from tests.npu.figures import FIGURES
from tests.npu.layer import Task, kind, lanes
from tests.npu.msprof import planned
from tests.text_export import Loaded, load

pytestmark = pytest.mark.npu_contract
STEPS = 3


def record(torch: Torch, directory: Path, settings: dict[str, Any], layer: bool = False) -> Path:
    """The one directory of torch_npu that a job leaves."""
    directory.mkdir(mode=0o700)
    more = {"NPULENS_TEST_LAYER": "1"} if layer else {}
    said = torch.run("-m", "tests.npu.job", str(directory), json.dumps(settings), more=more).splitlines()[-1]
    assert json.loads(said) == {"state": "written", "reason": None}
    (found,) = directory.glob("*_ascend_pt")
    return found


@pytest.fixture(scope="module")
def host(cann: Torch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"memory": True, "stacks": True, "modules": True}
    return record(cann, tmp_path_factory.mktemp("host") / "out", settings)


@pytest.fixture(scope="module")
def host_db(cann: Torch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(cann, tmp_path_factory.mktemp("db") / "out", {"export": ["db"]})


@pytest.fixture(scope="module")
def whole(cann: Torch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(cann, tmp_path_factory.mktemp("whole") / "out", {}, layer=True)


def events(directory: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((directory / "ASCEND_PROFILER_OUTPUT/trace_view.json").read_text())
    return found


def ns(us: str | float) -> int:
    """Exactly, of a decimal text or of a float that has three decimals."""
    whole, _, part = (us if isinstance(us, str) else f"{us:.3f}").strip().partition(".")
    return int(whole) * 1000 + int(f"{part:0<3}"[:3] if part else 0)


def test_the_host_alone_as_text(host: Path, tmp_path: Path) -> None:
    run, written = load(host, tmp_path), events(host)
    FIGURES["events in the genuine text output of the host alone"] = len(written)
    for category, kinds in (("cpu_op", "'cpu_op', 'step_mark'"), ("python_function", "'python'")):
        there = sorted(
            (each["name"], ns(each["ts"]), ns(each["dur"])) for each in written if each.get("cat") == category
        )
        ours = run.all(f"SELECT name, ts_ns + {run.origin}, dur_ns FROM span WHERE kind IN ({kinds}) ORDER BY ALL")
        assert ours == there and there, category
    marks = {each["name"] for each in written if each["name"].startswith("ProfilerStep#")}
    assert [step for (step,) in run.all("SELECT step FROM step ORDER BY 1")] == [2, 3, 4] and len(marks) == STEPS
    with (host / "ASCEND_PROFILER_OUTPUT/operator_details.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    total = sum(ns(row["Host Self Duration(us)"]) for row in rows)
    assert run.one("SELECT sum(total_ns) FROM summary WHERE source = 'operator_details'") == total > 0
    assert run.one("SELECT count(*) FROM kernel") == 0 and run.cover("kernel")["status"] == "absent"


def test_the_host_alone_as_a_database(host_db: Path, tmp_path: Path) -> None:
    (path,) = host_db.glob("ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler*.db")
    run = torch_npu_db_files.load(host_db, tmp_path)
    with sqlite3.connect(path) as con:
        query = "SELECT s.value, CAST(startNs AS INTEGER), CAST(endNs AS INTEGER) - CAST(startNs AS INTEGER) " \
            "FROM PYTORCH_API JOIN STRING_IDS s ON s.id = PYTORCH_API.name"  # fmt: skip
        there = sorted(con.execute(query).fetchall())
        steps = con.execute("SELECT CAST(id AS INTEGER) FROM STEP_TIME ORDER BY 1").fetchall()
        tables = con.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
    origin = run.part.origin_ns
    assert run.all(f"SELECT name, ts_ns + {origin}, dur_ns FROM span ORDER BY ALL") == there and there
    assert run.all("SELECT step FROM step ORDER BY 1") == steps == [(2,), (3,), (4,)]
    FIGURES["rows of host activity in the genuine database"] = len(there)
    assert tables >= 8


@pytest.mark.parametrize("export", ["host", "host_db"])
def test_a_device_that_was_not_seen_is_a_failed_collection(export: str, request: pytest.FixtureRequest) -> None:
    """torch_npu has printed one line of it, and written analyse.done."""
    out: Path = request.getfixturevalue(export)
    assert (out / "ASCEND_PROFILER_OUTPUT/analyse.done").exists()
    found = collected(out.parent, "npu", STEPS)
    assert found.status == "failed" and "the traces hold no kernel" in str(found.reason)
    assert [(trace.steps, trace.kernels) for trace in found.traces] == [(STEPS, 0)]


def test_without_msprof_the_collection_failed_whatever_torch_npu_says(device: Torch, tmp_path: Path) -> None:
    """The raw data is there and CANN's exporter is not: its parsers fail one by one, and it exits with 0."""
    out = record(device, tmp_path / "out", {}, layer=True)
    assert (out / "ASCEND_PROFILER_OUTPUT/analyse.done").exists()
    found = collected(out.parent, "npu", STEPS)
    assert found.status == "failed" and found.traces[0].complaints


def test_what_was_deferred_is_raw_until_it_is_analysed(cann: Torch, whole: Path, tmp_path: Path) -> None:
    """The analysis comes later, by our command in another process; then the capture is as good as one made at once."""
    out = record(cann, tmp_path / "out", {"defer": True}, layer=True)
    assert not (out / "ASCEND_PROFILER_OUTPUT").exists()
    assert collected(out.parent, "npu", STEPS, deferred=True).status == "deferred"
    assert collected(out.parent, "npu", STEPS).status == "failed"  # nobody said that it would be raw
    command = ("-m", "npulens.collectors", "analyse", "-o", str(out))  # of one rank; its directory is told by its name
    told = json.loads(cann.run(*command).splitlines()[-1])
    assert (told["status"], told["analysed"], told["traces"]) == ("complete", 1, 1)
    now, at_once = load(out, tmp_path / "now"), load(whole, tmp_path / "then")
    kernels = "SELECT count(*), count(DISTINCT name) FROM span WHERE kind = 'kernel'"
    assert now.all(kernels) == at_once.all(kernels) and now.one("SELECT count(*) FROM kernel") > 0
    assert json.loads(cann.run(*command).splitlines()[-1])["analysed"] == 0  # it is not done twice


def layer(directory: Path) -> list[Task]:
    """What was invented for a recording."""
    (prof,) = directory.glob("PROF_*")
    return planned(prof)


def test_a_whole_collection_is_complete(whole: Path) -> None:
    found = collected(whole.parent, "npu", STEPS)
    assert (found.status, found.reason) == ("complete", None)
    assert [(trace.steps, trace.kernels) for trace in found.traces] == [(STEPS, len(layer(whole)))]


def test_every_task_of_the_layer_is_read_to_the_nanosecond(whole: Path, tmp_path: Path) -> None:
    run, truth = load(whole, tmp_path), layer(whole)
    FIGURES["events of the real post-processing over an invented device layer"] = len(events(whole))
    kernels = run.all(
        f"SELECT name, stream, op_type, ts_ns + {run.origin}, dur_ns, step FROM kernel JOIN span USING (span_id) "
        "ORDER BY ts_ns"
    )
    assert kernels == [(t.name, t.stream, kind(t), t.start, t.dur, t.step) for t in sorted(truth, key=_start)
                       if t.computes]  # fmt: skip
    talks = run.all(f"SELECT name, ts_ns + {run.origin}, dur_ns, step FROM span WHERE kind = 'comm_op' ORDER BY ts_ns")
    assert talks == [(t.name, t.start, t.dur, t.step) for t in truth if not t.computes]
    halves = run.all("SELECT name, value FROM pmu JOIN span USING (span_id) WHERE metric = 'aicore_time(us)'")
    assert dict(halves) == {t.name: pytest.approx(t.dur / 2000, abs=0.001) for t in truth if t.computes}


def _start(task: Task) -> int:
    return task.start


def test_every_arrow_of_the_layer_is_drawn(whole: Path, tmp_path: Path) -> None:
    run, truth = load(whole, tmp_path), layer(whole)
    arrows = "SELECT d.name, s.name, latency_ns FROM link JOIN span s ON s.span_id = src_span_id " \
        "JOIN span d ON d.span_id = dst_span_id WHERE route = '{}' ORDER BY ALL"  # fmt: skip
    assert run.all(arrows.format("host_to_device")) == sorted(
        (t.name, "Node@launch", t.start - t.launched) for t in truth
    )
    # torch_npu finds for itself which operator of the host was running at that moment.
    found = [(name, operator) for name, operator, _ in run.all(arrows.format("torch_to_npu"))]
    assert found == sorted((t.name, f"launch {kind(t)}") for t in truth)


def test_the_split_of_every_step_is_the_layers(whole: Path, tmp_path: Path) -> None:
    run, truth = load(whole, tmp_path), layer(whole)
    starts = {step: min(t.start for t in truth if t.step == step) for step in {t.step for t in truth}}
    wanted = {step: dict.fromkeys(("Computing", "Communication", "Communication(Not Overlapped)", "Free"), 0)
              for step in starts}  # fmt: skip
    drawn = []
    for name, intervals in lanes(truth):
        for start, end in intervals:
            drawn.append((name, start, end - start))
            # torch_npu counts an interval to the step whose first task came last before it.
            wanted[max(step for step, at in starts.items() if at <= start)][name] += end - start
    split = run.all(f"SELECT name, ts_ns + {run.origin}, dur_ns FROM span WHERE kind = 'profiler_split' ORDER BY ALL")
    assert split == sorted(drawn)
    columns = "computing_ns, communication_ns, communication_not_overlapped_ns, free_ns"
    for step, *sums in run.all(f"SELECT step, {columns} FROM profiler_step ORDER BY step"):
        assert sums == list(wanted[step].values()), step
    overlapped = dict(run.all("SELECT step, overlapped_ns FROM profiler_step"))
    assert overlapped == {
        step: sums["Communication"] - sums["Communication(Not Overlapped)"] for step, sums in wanted.items()
    }
    assert all(overlapped.values())  # the layer is made so that there is something to overlap


def test_nothing_of_the_layer_is_dropped(whole: Path, tmp_path: Path) -> None:
    run: Loaded = load(whole, tmp_path)
    for table in ("span", "kernel", "comm", "link", "step"):
        assert run.cover(table)["status"] == "recorded" and run.cover(table)["dropped"] == 0, table
