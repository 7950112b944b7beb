"""What a training says of itself: written step by step, read as series, compared between two runs."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis import training as look
from npulens.app.cli import main
from npulens.ingest.readers.training import read_training
from npulens.ingest.store import runs

MOMENT = 1_795_699_962_000_000_000
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def step(number: int, **more: Any) -> dict[str, Any]:
    return {"step": number, "optimizer": 0, "ts_ns": MOMENT + number, "left_out": 0, "not_finite": 0, **more}


def written(path: Path, *lines: object) -> Path:
    told = [json.dumps({"npulens_training": 1, "rank": None}), *(json.dumps(each) for each in lines)]
    path.write_text("\n".join(told) + "\n")
    return path


def test_its_first_line_says_what_a_file_is(tmp_path: Path) -> None:
    claim = read_training.sniff(written(tmp_path / "any_name", step(1, loss=0.5)))
    assert claim is not None and claim.format == "training" and claim.facts.begin_ns == MOMENT + 1
    (tmp_path / "other").write_text('{"npulens": 1}\n')
    assert read_training.sniff(tmp_path / "other") is None


def test_a_run_has_its_series_and_what_is_no_step_is_counted(tmp_path: Path) -> None:
    lines = [step(1, loss=0.5, scale=2), [1, 2], step(2, loss=None, not_finite=1), {"step": 3, "ts_ns": "soon"}]
    (run,) = ingest.load(written(tmp_path / "one.jsonl", *lines), tmp_path / "store").runs
    assert run.status == "complete" or run.reason
    con = runs.open_run(tmp_path / "store", run.run_id or "")
    told = con.execute("SELECT ts_ns, series, value FROM sample ORDER BY ts_ns, series").fetchall()
    assert told == [
        (0, "loss", 0.5), (0, "loss scale", 2.0), (0, "not finite", 0.0), (0, "skipped steps", 0.0),
        (1, "not finite", 1.0), (1, "skipped steps", 0.0),
    ]  # fmt: skip
    assert con.execute("SELECT dropped FROM coverage WHERE table_name = 'sample'").fetchone() == (2,)
    assert look.series(con)["loss"] == [0.5, None]


def test_a_file_without_a_step_is_refused(tmp_path: Path) -> None:
    (run,) = ingest.load(written(tmp_path / "none.jsonl"), tmp_path / "store").runs
    assert run.run_id is None and run.error


def test_trainings_part_at_the_first_step_that_differs() -> None:
    one = {"loss": [1.0, 0.5, 0.25, 0.125], "loss scale": [8.0, 8.0, 8.0, 8.0], "other": [1.0]}
    two = {"loss": [1.0, 0.504, 0.3, 0.125], "loss scale": [8.0, 8.0, 8.0]}
    assert list(look.parted(one, two)) == [
        look.Parted("loss", 3, 0.25, 0.3, 4), look.Parted("loss scale", None, None, None, 3)
    ]  # fmt: skip
    assert next(look.parted({"loss": [1.0, 0.5]}, {"loss": [1.0, None]})) == look.Parted("loss", 2, 0.5, None, 2)


def test_compare_says_where_they_part(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for name, last in (("a", 0.5), ("b", 0.75)):
        path = written(tmp_path / f"{name}.jsonl", step(1, loss=1.0), step(2, loss=last))
        ingest.load(path, store, label=name)
    said = CliRunner().invoke(main, ["compare", "a", "b", "--training", "--store", str(store)])
    assert said.exit_code == 0 and "They part at step 2" in said.output and "0.75" in said.output
    said = CliRunner().invoke(main, ["compare", "a", "a", "--training", "--json", "--store", str(store)])
    assert all(one["step"] is None for one in json.loads(said.output)["series"])


@pytest.mark.torch
@needs_torch
@pytest.mark.parametrize("fused", [False, True])
def test_a_training_is_written_as_it_is(tmp_path: Path, fused: bool) -> None:
    """A fused step takes the scale off by itself, and leaves itself out."""
    import torch
    from torch import nn

    from npulens.collectors.steps.training import Training

    watching = Training(tmp_path)
    watching.watch(sys.modules["torch.optim.optimizer"])
    torch.manual_seed(0)
    model, scaler = nn.Linear(3, 1), torch.amp.GradScaler("cpu", init_scale=2.0**10)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=fused)
    expected = []
    for number in range(4):
        loss = model(torch.ones(2, 3)).square().mean() * (math.inf if number == 2 else 1.0)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        held = scaler.get_scale() if fused else 1.0
        if not fused:
            scaler.unscale_(optimizer)
        given = [each.grad / held for each in model.parameters() if each.grad is not None]
        norm = math.sqrt(sum(float(each.square().sum()) for each in given))
        expected.append((float(loss.detach()), norm))
        scaler.step(optimizer)
        scaler.update()
    for each in watching._heard:
        each.stop()
    watching._over = True
    (path,) = tmp_path.glob("training_rank_0_*.jsonl")
    head, *lines = (json.loads(line) for line in path.read_text().splitlines())
    assert head == {"npulens_training": 1, "rank": None} and [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [line["left_out"] for line in lines] == [0, 0, 1, 0] == [line["not_finite"] for line in lines]
    for number in (0, 1, 3):
        assert lines[number]["loss"] == pytest.approx(expected[number][0], rel=1e-5)
        assert lines[number]["norm"] == pytest.approx(expected[number][1], rel=1e-5)
    assert [line["scale"] for line in lines] == [1024.0, 1024.0, 1024.0, 512.0] and lines[2]["loss"] is None
