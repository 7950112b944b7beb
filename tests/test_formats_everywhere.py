"""Runs without spans, without a device or without steps: every command and every page still answers in sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.app import pages
from npulens.app.cli import main
from tests import test_kineto_npu, test_reader_cluster_analysis, test_reader_mindspore, test_reader_opprof
from tests import test_reader_opprof_simulator as simulator
from tests.test_pages_data import opened

KINDS = ("mindspore", "mindspore_steps", "mindspore_sums", "cluster", "opprof", "opprof_simulator", "npu")
#: Pages of the run on the screen; the others do not look at it.
PAGES = (
    "workspace", "timeline", "efficiency", "kernels", "communication", "copies", "counters", "launch", "parallel",
    "memory", "flame", "requests",
)  # fmt: skip
#: No device, no span at all, no step: what a page can meet; the other kinds lack less.
BARE = ("mindspore_steps", "cluster", "opprof", "opprof_simulator")


def write(kind: str, directory: Path) -> Path:
    """A small capture of a kind."""
    if kind == "cluster":
        return test_reader_cluster_analysis.output(directory)
    if kind == "opprof":
        return test_reader_opprof.write(
            directory, OpBasicInfo=test_reader_opprof.BASIC, PipeUtilization=test_reader_opprof.PIPES
        )
    if kind == "opprof_simulator":
        return simulator.write(directory)
    directory.mkdir()
    if kind == "npu":
        trace = {"schemaVersion": 1, "traceEvents": test_kineto_npu.job()}
        (directory / "rank0.pt.trace.json").write_text(json.dumps(trace))
    elif kind == "mindspore_sums":
        (directory / "aicore_intermediate_0_type.csv").write_text(
            "kernel_type,total_time,execution_frequency,percent\nMatMul,2.8,25,57.60\n"
        )
    else:
        op, steps = test_reader_mindspore.op, [(1000, 1100), (1100, 1200)]
        events = [op("MatMul-op1", 0.1, 0.5), op("stream_7_parallel_0", 0.3, 0.4, tid=7, pid=10000),
                  op("Add-op2", 1.1, 0.5)]  # fmt: skip
        test_reader_mindspore.make(directory, events if kind == "mindspore" else None, steps)
    return directory


@pytest.fixture(scope="module")
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp(request.param)
    (run,) = ingest.load(write(request.param, folder / "capture"), folder / "store").runs
    assert run.run_id, run.reason
    return folder / "store", run.run_id


@pytest.mark.parametrize("held", KINDS, indirect=True)
def test_every_command_answers(held: tuple[Path, str], tmp_path: Path) -> None:
    place, run = held
    for args in (
        ["breakdown", run], ["breakdown", run, "--json"], ["check", run, "--lang", "zh"],
        ["report", run, "-o", str(tmp_path / "r.html")], ["report", run, "-o", str(tmp_path / "r.md")],
        ["export", run, "--to", str(tmp_path / "run.duckdb")],
    ):  # fmt: skip
        answer = CliRunner().invoke(main, [*args, "--store", str(place)])
        assert answer.exit_code == 0, (args, answer.output, answer.exception)
    judged = CliRunner().invoke(main, ["check", run, "--json", "--store", str(place)])
    outcomes = json.loads(judged.output)["outcomes"]
    assert not [outcome for outcome in outcomes if outcome["outcome"] == "failed"]
    assert all(outcome["reason"] for outcome in outcomes if outcome["outcome"] == "not_measured")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("held", BARE, indirect=True)
def test_every_page_says_what_it_shows_or_why_not(
    name: str, held: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, run = held
    assert (Path(pages.__path__[0]) / name / "page.py").is_file()
    monkeypatch.setenv("NPULENS_STORE", str(place))
    page = opened(name, "en", {"run": run})
    assert page.text or page.get("plotly_chart") or page.get("info"), f"{name} is empty and does not say why"
