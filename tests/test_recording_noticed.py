"""What `collect` noticed stands in its manifest: `runs`, `check` and the overview say it of the loaded run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.ingest.store import runs

DASHBOARD = Path(__file__).resolve().parent.parent / "app" / "dashboard.py"
NAME = "host_4711.1700000000000.pt.trace.json"
NOTICES = [
    {"name": "own_profiler", "values": {"processes": 1, "traces": ["/job/own_0.json"]}},
    {"name": "automatic_slices", "values": {"processes": 2, "ns": 200_000_000}},
    {"name": "unlike_steps", "values": {"rank": 3, "pid": 9, "steps_by": "forward", "shortest_ns": 2_000_000,
                                        "longest_ns": 40_000_000}},
]  # fmt: skip
#: Of another release, or made up: nobody trips over them.
STRANGE: list[Any] = [
    {"name": "of_tomorrow", "values": {}}, {"name": "own_profiler"}, {"name": "first_start", "values": {"ns": "long"}},
    {"name": "unlike_steps", "values": {"rank": {}}}, {"name": 7, "values": []}, "text", None, 3, [],
    {"name": "left_out", "values": {"settings": [1, 2]}}, {"name": "rank", "values": {"rank": "\x1b[31m\u202e"}},
]  # fmt: skip


def capture(place: Path, steps: int, notices: list[Any], *, wanted: Any = 3, traces: Any = None) -> Path:
    """A trace of a CPU job and the manifest that `collect` writes beside it."""
    place.mkdir(parents=True)
    marks = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1,
              "ts": 1000 * number, "dur": 900} for number in range(steps)]  # fmt: skip
    work = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1000 * number + 10, "dur": 500}
            for number in range(steps)]  # fmt: skip
    (place / NAME).write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": marks + work}))
    told = [{"path": f"/where/it/ran/{NAME}", "steps": steps}] if traces is None else traces
    (place / "manifest.json").write_text(json.dumps({
        "what": "a job of its owner's", "environment": {}, "settings": {"active": wanted}, "traces": told,
        "status": "partial", "reason": "", "notices": notices,
    }))  # fmt: skip
    return place


def loaded(place: Path, store: Path, *, redact: bool = False) -> runs.RunInfo:
    (entry,) = ingest.load(place, store, redact=redact).runs
    return runs.resolve(store, entry.run_id or "")


def npulens(store: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "npulens.app.cli", *arguments], capture_output=True, text=True, timeout=300, check=True,
        env={**os.environ, "NPULENS_STORE": str(store)},
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(("steps", "status"), [(1, "partial"), (2, "partial"), (3, "complete")])
def test_a_recording_with_fewer_steps_than_wanted_is_partial(tmp_path: Path, steps: int, status: str) -> None:
    run = loaded(capture(tmp_path / "in", steps, []), tmp_path / "store")
    assert run.status == status
    if status == "partial":
        assert run.reason == f"the recording holds {steps} of the 3 steps that were wanted"
        con = runs.open_run(tmp_path / "store", run.run_id)
        assert con.execute("SELECT status, reason FROM rank").fetchall() == [("partial", run.reason)]


@pytest.mark.parametrize(
    ("wanted", "traces"),
    [("many", None), (None, None), (3, {}), (3, [None, 4, {"path": NAME}]), (3, [{"path": NAME, "steps": "1"}]),
     (3, [{"path": "another.json", "steps": 1}]), ({}, [{"steps": 1}]), (-5, None)],
)  # fmt: skip
def test_a_manifest_of_anybody_makes_nothing_partial(tmp_path: Path, wanted: Any, traces: Any) -> None:
    place = capture(tmp_path / "in", 1, STRANGE, wanted=wanted, traces=traces)
    assert loaded(place, tmp_path / "store").status == "complete"


def test_check_and_runs_say_what_was_noticed_in_both_languages(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run = loaded(capture(tmp_path / "in", 1, [*STRANGE, *NOTICES]), store)
    assert "partial" in npulens(store, "runs")
    said = npulens(store, "check", run.run_id)
    part = said[said.index("About this recording") :].split("\n\n")[0]
    assert "/job/own_0.json" in part and "stood aside" in part and "slices of 200" in part
    assert "rank 3: the recorded steps (forwards) take" in part and "of_tomorrow" not in part
    assert "\x1b" not in part and "\u202e" not in part
    assert "Rank 0 is incomplete: the recording holds 1 of the 3 steps that were wanted" in said
    chinese = npulens(store, "check", run.run_id, "--lang", "zh")
    assert "关于本次采集" in chinese and "已让位" in chinese and "要求采集 3 个 step，实际只采集到 1 个" in chinese
    told = json.loads(npulens(store, "check", run.run_id, "--json"))["recording"]
    assert [each for each in told if "stood aside" in each] and len(told) >= len(NOTICES)


def test_a_redacted_run_says_that_it_is_partial_and_names_no_file_of_the_job(tmp_path: Path) -> None:
    run = loaded(capture(tmp_path / "in", 1, NOTICES), tmp_path / "store", redact=True)
    assert run.status == "partial"
    assert "own_0.json" not in json.dumps(runs.manifest(tmp_path / "store", run.run_id))


@pytest.mark.parametrize(("lang", "heading"), [("en", "About this recording"), ("zh", "关于本次采集")])
def test_the_workspace_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str, heading: str) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    run = loaded(capture(tmp_path / "in", 1, [*STRANGE, *NOTICES]), tmp_path / "store")
    page = AppTest.from_file(str(DASHBOARD), default_timeout=60)
    page.query_params["run"], page.query_params["lang"], page.query_params["panel"] = run.run_id, lang, "recorded"
    page.run()
    assert not page.exception
    shown = [each.value for each in page.text]
    assert heading in shown and [each for each in shown if "/job/own_0.json" in each]
    assert [each for each in shown if each.startswith("◐") and ("1 of the 3" in each or "采集到 1 个" in each)]


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_job_that_raises_and_has_its_own_profiler_is_told_by_check(tmp_path: Path) -> None:
    """Its own profiler is on for some steps, then ours begins, and then the job raises in the first recorded step."""
    job = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step():
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    for _ in range(3):
        step()
profile.export_chrome_trace("own.json")
for _ in range(4):
    step()
raise RuntimeError("amid the recording")
"""
    (tmp_path / "job.py").write_text(job)
    store = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-m", "npulens.app.cli", "collect", "--backend", "cpu", "--json", "-o", "out", "--",
         sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "NPULENS_STORE": str(store)},
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"]) == (1, "partial"), done.stderr
    (run,) = answer["runs"]
    assert run["status"] == "partial" and "of the 3 steps" in run["reason"]
    said = npulens(store, "check", run["run_id"])
    assert "own.json" in said and "stood aside" in said and "Rank 0 is incomplete" in said
