"""Somebody's job is recorded without a change to it, and a recording that holds nothing is an error."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.collected import collected
from npulens.collectors.recorder import Recorder, recording
from npulens.collectors.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
pytestmark = pytest.mark.torch

TRAIN = """
import sys, torch
from torch import nn
torch.manual_seed(7)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(int(sys.argv[1])):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 64)), torch.randint(10, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.6f" % loss.item())
"""
INFER = """
import torch
model = torch.nn.Linear(64, 64).eval()
with torch.inference_mode():
    for i in range(12):
        model(torch.randn(4, 64))
"""
#: Compiled as vLLM compiles: once, and without looking again whether what was read then still holds.
COMPILED = """
import torch
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        unguarded = {"guard_filter_fn": lambda every: [False for _ in every]}
        self.inner = torch.compile(inner.forward, backend="eager", fullgraph=True, options=unguarded)
    def forward(self, x):
        return self.inner(x)
model = Outer().eval()
with torch.inference_mode():
    for i in range(12):
        model(torch.ones(4, 8))
"""
TWO = """
import torch
a, b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
first, second = torch.optim.SGD(a.parameters(), 0.1), torch.optim.Adam(b.parameters(), 0.1)
for i in range(8):
    for optimizer, model in ((first, a), (second, b)):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
"""


def collect(
    tmp_path: Path, source: str, *arguments: str, own: tuple[str, ...] = (), path: str | None = None
) -> dict[str, Any]:
    """What `python -m npulens.collectors own` answers for a script."""
    script = tmp_path / "job.py"
    script.write_text(source)
    command = [sys.executable, "-m", "npulens.collectors", "own", "-o", str(tmp_path / "out"), "--backend", "cpu", *own]
    found = subprocess.run(
        [*command, "--", sys.executable, str(script), *arguments], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, **({"PYTHONPATH": path} if path else {})}, timeout=300,
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return answer | {"printed": found.stdout, "complained": found.stderr, "rc": found.returncode}


def traces(directory: Path) -> list[list[dict[str, Any]]]:
    """The events of every trace, read by the json module."""
    return [json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] for path in sorted(directory.glob("*.gz"))]


def steps(events: list[dict[str, Any]]) -> set[str]:
    return {event["name"] for event in events if str(event.get("name", "")).startswith("ProfilerStep#")}


@needs_torch
def test_a_training_script_is_recorded_as_it_is(tmp_path: Path) -> None:
    plain = subprocess.run([sys.executable, "-c", TRAIN, "9"], capture_output=True, text=True, check=True, timeout=300)
    answer = collect(tmp_path, TRAIN, "9")
    assert answer["rc"] == 0 and answer["status"] == "complete" and answer["reason"] is None
    assert plain.stdout.strip() in answer["printed"]  # the very same loss: nothing of the job has changed
    (events,) = traces(tmp_path / "out")
    assert len(steps(events)) == 3
    assert sum(event.get("name") == "Optimizer.step#SGD.step" for event in events) == 3
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert told["evidence"] == "cpu" and told["backend"]["requested"] == "cpu" and told["traces"][0]["steps"] == 3
    assert told["traces"][0]["host_ops"] == sum(event.get("cat") == "cpu_op" for event in events) > 0
    assert told["environment"]["versions"]["torch"]


@needs_torch
def test_an_inference_script_has_steps_too(tmp_path: Path) -> None:
    answer = collect(tmp_path, INFER)
    assert answer["status"] == "complete"
    (events,) = traces(tmp_path / "out")
    assert len(steps(events)) == 3 and sum(event.get("name") == "aten::linear" for event in events) == 3


@needs_torch
def test_a_job_that_first_asks_whether_torch_is_there_is_recorded(tmp_path: Path) -> None:
    """As transformers and vLLM do: it looks for torch without importing it, and it may look twice."""
    asks = "import importlib.util as u, sys\nassert u.find_spec('torch') and u.find_spec('torch').origin\n"
    assert collect(tmp_path, asks + "assert 'torch' not in sys.modules\n" + TRAIN, "8")["status"] == "complete"


@needs_torch
def test_what_a_job_compiles_keeps_nothing_of_us(tmp_path: Path) -> None:
    """The hooks on every module go once the step is known; a graph that had them in it would look for them."""
    answer = collect(tmp_path, COMPILED)
    assert (answer["rc"], answer["status"]) == (0, "complete"), answer["complained"]
    assert len(steps(traces(tmp_path / "out")[0])) == 3


@needs_torch
def test_two_optimisers_make_one_step(tmp_path: Path) -> None:
    assert collect(tmp_path, TWO)["status"] == "complete"
    (events,) = traces(tmp_path / "out")
    made = [event["name"] for event in events if str(event.get("name", "")).startswith("Optimizer.step#")]
    assert (made.count("Optimizer.step#SGD.step"), made.count("Optimizer.step#Adam.step")) == (3, 3)


@needs_torch
def test_every_process_of_a_job_is_a_rank(tmp_path: Path) -> None:
    launcher = f"""
import os, subprocess, sys
job = [sys.executable, "-c", {TRAIN!r}, "8"]
ranks = [subprocess.Popen(job, env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2")) for rank in (0, 1)]
sys.exit(sum(rank.wait() for rank in ranks))
"""
    answer = collect(tmp_path, launcher)
    assert answer["status"] == "complete" and answer["traces"] == 2
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert sorted(process["rank"] for process in told["processes"]) == [0, 1]


@needs_torch
def test_a_job_that_ends_too_early_is_said_to(tmp_path: Path) -> None:
    answer = collect(tmp_path, TRAIN, "5")  # the second begins it; the last step that it begins is not whole
    assert answer["status"] == "partial" and "of 5 steps" in answer["reason"]
    assert 0 < len(steps(traces(tmp_path / "out")[0])) < 3


@needs_torch
@pytest.mark.parametrize(
    ("source", "why"),
    [("print('no torch here')", "no process of the job made a step"),
     ("import torch; torch.ones(2).sum()", "no process of the job made a step"),
     (TRAIN.replace("sys.argv[1]", "'3'"), "the job ended after")],
)  # fmt: skip
def test_nothing_recorded_is_a_failure_with_its_reason(tmp_path: Path, source: str, why: str) -> None:
    answer = collect(tmp_path, source)
    assert answer["rc"] == 0 and answer["status"] == "failed" and why in answer["reason"]


@needs_torch
def test_the_jobs_own_failure_is_passed_on(tmp_path: Path) -> None:
    answer = collect(tmp_path, TRAIN + "\nsys.exit(5)\n", "8")
    assert answer["rc"] == 5 and answer["exit_status"] == 5 and answer["status"] == "complete"


@needs_torch
def test_a_jobs_own_packages_and_customisation_stay_its_own(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.customised = True\n")
    (tmp_path / "analysis.py").write_text("mine = 41\n")
    source = "import analysis, sys\nprint('mine', analysis.mine, customised, 'app' in sys.modules)\n" + TRAIN
    answer = collect(tmp_path, source, "8", path=str(tmp_path))
    assert "mine 41 True False" in answer["printed"] and answer["status"] == "complete"


@needs_torch
def test_a_python_that_has_torch_and_nothing_of_ours_is_recorded(tmp_path: Path) -> None:
    import torch

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "theirs")], check=True)
    site = next((tmp_path / "theirs/lib").glob("python*/site-packages"))
    (site / "torch.pth").write_text(f"{Path(torch.__file__).parent.parent}\n")
    script = tmp_path / "job.py"
    script.write_text(TRAIN)
    job = [str(tmp_path / "theirs/bin/python"), str(script), "8"]
    found = subprocess.run(
        [sys.executable, "-m", "npulens.collectors", "own", "-o", str(tmp_path / "out"), "--backend", "cpu", "--",
         *job], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}, timeout=300,
    )  # fmt: skip
    assert json.loads(found.stdout.splitlines()[-1])["status"] == "complete", found.stderr


@needs_torch
def test_a_job_with_packages_of_our_folders_names_is_recorded(tmp_path: Path) -> None:
    """Its own app, analysis, ingest and collectors, imported before torch or after it, stay what they are."""
    ours = ("app", "analysis", "ingest", "collectors")
    for name in ours:
        (tmp_path / f"{name}.py").write_text("mine = 1\n")
    late = f"\nimport {', '.join(ours)}\nprint('own', {' + '.join(f'{name}.mine' for name in ours)})\n"
    answer = collect(tmp_path, "import collectors\n" + TRAIN + late, "8")  # the script's directory is first on its path
    assert answer["status"] == "complete" and "own 4" in answer["printed"]


@needs_torch
def test_an_armed_job_waits_for_its_beginning(tmp_path: Path) -> None:
    begin = [sys.executable, "-m", "npulens.collectors", "begin", "-o", str(tmp_path / "out")]
    source = TRAIN.replace(
        "    optimizer.step()",
        "    optimizer.step()\n    if i == 5:\n        import subprocess\n"
        f"        subprocess.run({begin!r}, cwd={str(ROOT)!r}, check=True)",
    )
    answer = collect(tmp_path, source, "20", own=("--armed",))
    assert answer["status"] == "complete"
    assert min(int(re.sub(r"\D", "", name)) for name in steps(traces(tmp_path / "out")[0])) >= 1
    assert collect(tmp_path / "..", TRAIN, "8", own=("--armed",))["status"] == "failed"  # nobody says begin


@needs_torch
def test_a_deferred_trace_is_written_when_the_job_ends(tmp_path: Path) -> None:
    """The job itself looks after each step whether a trace is there; three of its twelve steps are recorded."""
    looks = f"    import glob; print('there:', glob.glob({str(tmp_path / 'out')!r} + '/*.gz') != [])\n"
    source = TRAIN.replace("    optimizer.step()", f"    optimizer.step()\n{looks}")
    later, at_once = (collect(tmp_path, source, "12", own=own) for own in (("--defer",), ()))
    assert at_once["status"] == later["status"] == "complete"
    assert later["printed"].count("there: False") == 12 and "there: True" in at_once["printed"]
    (first, second) = traces(tmp_path / "out")
    assert len(steps(first)) == len(steps(second)) == 3


@needs_torch
def test_a_child_of_a_deferred_recording_writes_no_trace_of_its_own(tmp_path: Path) -> None:
    """It forks off when all steps are recorded, and ends as any process of Python does."""
    forks = "\nimport os, sys\npid = os.fork()\nif pid == 0:\n    sys.exit(0)\nos.waitpid(pid, 0)\n"
    answer = collect(tmp_path, TRAIN + forks, "12", own=("--defer",))
    assert (answer["status"], answer["rc"]) == ("complete", 0) and len(traces(tmp_path / "out")) == 1


@needs_torch
def test_a_job_that_empties_the_callbacks_of_gc_is_recorded_all_the_same(tmp_path: Path) -> None:
    source = TRAIN.replace("    optimizer.step()", "    optimizer.step()\n    import gc; gc.callbacks.clear()\n")
    answer = collect(tmp_path, source, "12")
    assert (answer["status"], answer["rc"]) == ("complete", 0)


@needs_torch
def test_a_deferred_trace_that_finds_no_place_harms_no_job(tmp_path: Path) -> None:
    source = TRAIN + f"\nimport shutil, pathlib\nshutil.rmtree({str(tmp_path / 'out')!r})\n" \
        f"pathlib.Path({str(tmp_path / 'out')!r}).write_text('in the way')\nprint('done')\n"  # fmt: skip
    answer = collect(tmp_path, source, "12", own=("--defer",))
    assert (answer["status"], answer["rc"]) == ("failed", 0) and "done" in answer["printed"]


@needs_torch
def test_the_three_lines_for_a_loop_of_ones_own(tmp_path: Path) -> None:
    import torch

    with recording(tmp_path / "out", Settings(wait=0, warmup=1, active=2), backend="cpu") as step:
        for _ in range(6):
            torch.ones(4).sum()
            step()
    (events,) = traces(tmp_path / "out")
    assert len(steps(events)) == 2
    assert sum(event.get("name") == "aten::ones" for event in events) == 2


@needs_torch
def test_a_profiler_inside_the_loop_cannot_stay_silent(tmp_path: Path) -> None:
    """The classic mistake: made anew for every batch, a profiler never gets beyond its warm-up."""
    import torch

    with pytest.raises(RuntimeError, match="nothing was recorded: the job ended after 1 of 5 steps"):  # noqa: PT012
        for _ in range(6):
            with recording(tmp_path / "out", backend="cpu") as step:
                torch.ones(4).sum()
                step()
    recorder = Recorder(tmp_path / "again", Settings(wait=0, warmup=1, active=1))
    recorder.start()
    with pytest.raises(RuntimeError, match="make another one"):
        recorder.start()
    recorder.stop()


def test_an_empty_or_absent_profile_is_a_failed_collection(tmp_path: Path) -> None:
    """torch_npu writes analyse.done over an analysis that failed; what counts is what can be opened."""
    assert collected(tmp_path, "npu", 3).status == "failed"
    out = tmp_path / "node_1_20260101000000000_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    out.mkdir(parents=True)
    (out / "analyse.done").touch()
    logs = out.parent / "logs"
    logs.mkdir()
    (logs / "profiler.log").write_text("[INFO] begin\n[ERROR] msprof is not on the path\n")
    found = collected(tmp_path, "npu", 3)
    assert found.status == "failed" and "empty" in str(found.reason)
    events = [{"name": "ProfilerStep#1"}, {"name": "aten::add", "cat": "cpu_op"}]
    (out / "trace_view.json").write_text(json.dumps(events))
    assert "no kernel" in str(collected(tmp_path, "npu", 1).reason)
    (out / "kernel_details.csv").write_text("Name,Type\nMatMul,MatMul\n\"Add\nV2\",Add\n")
    found = collected(tmp_path, "npu", 1)
    assert found.traces[0].kernels == 2 and found.traces[0].steps == 1
    assert found.status == "partial" and "msprof is not on the path" in str(found.reason)  # the log complains


def test_events_at_the_seam_of_two_pieces_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [{"ph": "X", "cat": "cpu_op", "name": f"ProfilerStep#{i % 7}", "ts": i} for i in range(500)]
    (tmp_path / "a.pt.trace.json").write_text(json.dumps({"traceEvents": events}))
    for size in (300, 311, 1000, 1 << 20):
        monkeypatch.setattr("npulens.collectors.collected._CHUNK", size)
        (trace,) = collected(tmp_path, "cpu", 7).traces
        assert (trace.steps, trace.host_ops) == (7, 500)


def test_settings_travel_as_json_and_refuse_nonsense() -> None:
    told = Settings(active=5, export=("text", "db"), host_system=("CPU",))
    assert Settings.from_json(told.to_json()) == told
    for wrong in ({"active": 0}, {"wait": -1}, {"level": "Level9"}, {"export": ()}, {"export": ("csv",)}):
        with pytest.raises(ValueError, match=r"step|level|export"):
            Settings(**wrong)
