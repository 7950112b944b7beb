"""Nights over captures: a watched folder, files that are none, a profiled job, and what a change is made of."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from npulens.app.nightly.written import night_text
from npulens.ingest.store import history
from tests.nights.lab import Lab, keys
from tests.nights.world import simulated
from tests.screen.language import HAN

WATCH = '[[watch]]\nname = "llama"\npath = "captures"\nsettle = 0.0\n'


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The same simulated job without and with a host that is late."""
    folder = tmp_path_factory.mktemp("simulated")
    found = (simulated(folder / name, name) for name in ("clean", "host_late"))
    whole, late = (gzip.compress(json.dumps(each).encode(), 1) for each in found)
    return whole, late


def put(lab: Lab, name: str, content: bytes) -> None:
    (lab.folder / "captures").mkdir(exist_ok=True)
    (lab.folder / "captures" / name).write_bytes(content)


def test_a_watched_folder_brings_what_is_new_and_names_what_is_broken(
    tmp_path: Path, captures: tuple[bytes, bytes]
) -> None:
    lab = Lab(tmp_path, WATCH)
    put(lab, "first.pt.trace.json.gz", captures[0])
    assert lab.run("--night", "2026-03-01").exit_code == 0
    first = lab.night("2026-03-01")
    step = next(row for row in first.rows if row.metric == "step_ns")
    assert step.task == "llama" and step.run_id and step.verdict == "young"

    put(lab, "garbage.pt.trace.json.gz", b"not a gzip")
    put(lab, "cut.pt.trace.json.gz", captures[1][: len(captures[1]) // 3])
    second = lab.run("--night", "2026-03-02")
    night = lab.night("2026-03-02")
    assert second.exit_code == 2 and sorted(keys(night)) == ["lost_capture", "lost_partial"]
    assert "garbage.pt.trace.json.gz" in second.stdout and "cut.pt.trace.json.gz" in second.stdout
    for english, chinese in zip(*(night_text.notices(night, lang) for lang in ("en", "zh")), strict=True):
        assert not HAN.search(english) and english.split(": ")[0] in second.stdout
        reason = chinese.split("：", 1)[1]
        assert HAN.search(reason) and english.split(": ", 1)[1] not in chinese, "reasons are in the language too"

    third = lab.run("--night", "2026-03-03")
    assert lab.night("2026-03-03").rows == (), "nothing of it is read twice"
    assert third.exit_code == 2 and lab.night("2026-03-03").tasks[0].status == "unmeasured"
    mine = {of: points for of, points in history.everything(lab.store).items() if of[1] == "step_ns"}
    usable = [point for points in mine.values() for point in points if point.usable]
    assert [(point.night, point.run_id) for point in usable] == [("2026-03-01", step.run_id)]


def test_a_change_says_what_it_is_made_of_to_the_nanosecond(tmp_path: Path, captures: tuple[bytes, bytes]) -> None:
    from npulens.app.nightly import work
    from npulens.app.nightly.night import Row

    lab = Lab(tmp_path, WATCH)
    for day, content in enumerate(captures, 1):
        put(lab, f"{day}.pt.trace.json.gz", content)
        lab.run("--night", f"2026-03-0{day}")
    rows = [row for day in (1, 2) for row in lab.night(f"2026-03-0{day}").rows]
    before, after = (row for row in rows if row.metric == "step_ns")
    row = Row(task="llama", identity="x", where="", metric="step_ns", unit="ns", better="lower", value=after.value,
              verdict="regressed", by="history", fresh=True, run_id=after.run_id, base_run=before.run_id)  # fmt: skip
    (told,) = work.explained(lab.store, [row])
    assert told.parts and told.parts_ns is not None and told.residual_ns is not None
    assert sum(part.delta_ns for part in told.parts) + told.rest_ns + told.residual_ns == told.parts_ns
    assert (told.parts[0].kind, told.parts[0].what) == ("gap", "host_late")


@pytest.mark.torch
def test_a_workload_and_a_profiled_job_are_measured_with_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    script = (
        "import torch\nmodel = torch.nn.Linear(64, 64)\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(8):\n    opt.zero_grad(); model(torch.ones(8, 64)).sum().backward(); opt.step()\n"
    )
    lab = Lab(tmp_path, (
        '[[workload]]\nrun = "embedding_dense_grad"\nrounds = 1\n'
        'options = ["--variant", "reference", "--shape", "small", "--quick", "--backend", "cpu"]\n'
        '[[job]]\nname = "train"\ncommand = ["{python}", "train.py"]\nrounds = 1\noptions = ["--backend", "cpu"]\n'
    ))  # fmt: skip
    (tmp_path / "train.py").write_text(script)
    done = lab.run("--night", "2026-03-01")
    night = lab.night("2026-03-01")
    bench, train = night.tasks
    found = {(row.task, row.metric): row.value for row in night.rows}
    measured = any(task == "embedding_dense_grad" and metric.endswith("p50_ns") for task, metric in found)
    unsteady = bench.reason is not None and bench.reason.key == "no_numbers"  # a busy machine: said, not made up
    assert measured != unsteady and (bench.status == "done") == measured, done.output
    assert train.status == "done", done.output
    assert any(task == "train" and metric.endswith("step_ns") for task, metric in found), sorted(found)
    assert all(value >= 0 for value in found.values())
