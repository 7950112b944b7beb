"""RUN as a path: the capture is loaded first, and what cannot be one run is said in a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from npulens.app.cli import main
from npulens.ingest.store import runs

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"


def said(store: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [words[0], "--store", str(store), *words[1:]])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_check_loads_the_capture_of_a_path_once(store: Path) -> None:
    capture = str(SAMPLES / "kineto")
    first, again = said(store, "check", capture, "--json"), said(store, "check", capture, "--json")
    (run,) = runs.runs(store)
    assert first.exit_code == again.exit_code == 0
    assert json.loads(first.stdout) == json.loads(again.stdout)
    assert json.loads(first.stdout) == json.loads(said(store, "check", run.run_id, "--json").stdout)


def test_a_run_of_that_name_comes_before_a_path(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    assert said(store, "load", str(SAMPLES / "kineto"), "--label", "night").exit_code == 0
    (tmp_path / "night").write_text("no capture")
    monkeypatch.chdir(tmp_path)
    assert said(store, "check", "night").exit_code == 0


def test_compare_takes_two_paths(store: Path) -> None:
    base, head = str(SAMPLES / "cpu_conv_unfused"), str(SAMPLES / "cpu_conv_folded")
    by_path = said(store, "compare", base, head, "--json")
    assert by_path.exit_code == 0
    ids = [json.loads(said(store, "load", one, "--json").stdout)["runs"][0]["run_id"] for one in (base, head)]
    assert sorted(run.run_id for run in runs.runs(store)) == sorted(ids)
    assert json.loads(by_path.stdout) == json.loads(said(store, "compare", *ids, "--json").stdout)


def test_a_path_of_several_runs_names_them(store: Path, tmp_path: Path) -> None:
    for name in ("kineto", "cpu_train_step"):
        shutil.copytree(SAMPLES / name, tmp_path / "both" / name)
    done = said(store, "check", str(tmp_path / "both"))
    assert done.exit_code == 2 and "it holds 2 runs" in done.stderr
    assert all(run.run_id in done.stderr for run in runs.runs(store))


def test_what_is_no_capture_is_said(store: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    done = said(store, "check", str(tmp_path / "a.txt"))
    assert done.exit_code == 2 and "no capture that npulens knows" in done.stderr and not runs.runs(store)
    (tmp_path / "empty").mkdir()
    assert "nothing to load here" in said(store, "check", str(tmp_path / "empty")).stderr


def test_a_command_that_takes_runs_alone_says_how_a_path_becomes_one(store: Path) -> None:
    capture = str(SAMPLES / "kineto")
    done = said(store, "breakdown", capture)
    assert done.exit_code == 2 and f"`npulens load {capture}` makes it one" in done.stderr


def test_a_run_compared_with_itself_is_said(store: Path) -> None:
    capture = str(SAMPLES / "cpu_train_step")
    text = said(store, "compare", capture, capture).stdout
    assert text.startswith("Both sides are the same windows of the same run.")
    assert not said(store, "compare", capture, capture, "--steps", "1:2").stdout.startswith("Both sides")
