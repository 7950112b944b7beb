"""`npulens collect WORKLOAD`: recorded, verified, described, loaded and checked; a mistake is one line that helps."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npulens.collectors.our_job import chosen, sizes
from npulens.collectors.workloads.workload import names, workload

ROOT = Path(__file__).resolve().parent.parent
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
pytestmark = pytest.mark.torch


def npulens(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npulens.app.cli", *arguments], cwd=home, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NPULENS_STORE": str(home / "store")},
    )  # fmt: skip


def test_the_workloads_are_listed_without_torch(tmp_path: Path) -> None:
    told = npulens("collect", "--json", home=tmp_path)
    found = {each["workload"]: each for each in json.loads(told.stdout)["workloads"]}
    assert sorted(found) == names()
    assert found["cross_modal_attention"]["shapes"]["text77"]["keys"] == 77
    text = npulens("collect", home=tmp_path).stdout
    assert all(name in text for name in found)


@pytest.mark.parametrize("name", names())
def test_a_workload_says_what_it_is(name: str) -> None:
    found = workload(name)
    assert {"small"} < set(found.SHAPES) and found.VARIANTS[0] == "reference" and len(found.VARIANTS) >= 3
    assert found.BATCH is None or all(found.BATCH in made for made in found.SHAPES.values())
    # What the name of a variant does not say stands in the docstring.
    plain = {"reference", "unfused", "compiled"}
    assert {each for each in found.VARIANTS if f"``{each}``" not in (found.__doc__ or "")} <= plain


def test_a_shape_is_a_name_or_sizes_or_both() -> None:
    found = workload("matmul_layernorm_gelu")
    assert sizes(found, None) == found.SHAPES["tall"]  # the first that is not small
    assert sizes(found, "small") == {"rows": 64, "inner": 64, "width": 64}
    assert sizes(found, "small,rows=7") == {"rows": 7, "inner": 64, "width": 64}
    assert sizes(found, "rows=3,width=5") == {"rows": 3, "inner": 1280, "width": 5}
    assert sizes(workload("embedding_dense_grad"), "small,zipf=0")["zipf"] == 0
    for wrong in ("huge", "rows=", "rows=-1", "rows=0", "rows=1.5", "depth=3", "small;rows=3", "rows=99999999999"):
        with pytest.raises(ValueError, match=r"shape|size|at least"):
            sizes(found, wrong)
    assert chosen("train_step", None, None, None) == ("unfused", dict(workload("train_step").SHAPES["mlp"]), "float32")
    for bad in (("x", None), (None, "int8")):
        with pytest.raises(ValueError, match="has no"):
            chosen("train_step", bad[0], None, bad[1])


def test_a_mistake_is_one_line_that_helps(tmp_path: Path) -> None:
    for arguments, said in (
        (["trian_step"], "there is no workload 'trian_step'; there are: conv_bn_relu"),
        (["train_step", "--variant", "quick"], "train_step has no 'quick' among its variants: reference"),
        (["train_step", "--shape", "batch=x"], "is no size"),
        (["train_step", "--armed"], "are for jobs of yours"),
        (["train_step", "--varaint", "fused"], "as a workload it takes no --varaint"),
        (["--variant", "fused", "--", sys.executable, "-c", "1"], "what belongs to your command comes after a --"),
    ):
        told = npulens("collect", *arguments, home=tmp_path)
        assert told.returncode == 2 and said in told.stderr, told
        assert "Traceback" not in told.stderr


Collected = tuple[Path, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    home = tmp_path_factory.mktemp("collected")
    options = ["--backend", "cpu", "--shape", "small", "--active", "4", "--seed", "7", "-o", "out"]
    return home, npulens("collect", "train_step", *options, home=home)


@needs_torch
def test_steps_and_updates_are_in_the_trace(collected: Collected) -> None:
    home, told = collected
    assert told.returncode == 0, told.stderr
    (path,) = (home / "out").glob("*.pt.trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    named = [str(event.get("name")) for event in events]
    assert sum(name.startswith("ProfilerStep#") for name in set(named)) == 4
    assert named.count("Optimizer.step#SGD.step") == 4 and named.count("aten::linear") == 8


@needs_torch
def test_the_manifest_says_how_to_do_it_again(collected: Collected) -> None:
    home, _ = collected
    told = json.loads((home / "out" / "manifest.json").read_text())
    assert (told["workload"], told["variant"], told["dtype"], told["seed"]) == (
        "train_step",
        "unfused",
        "float32",
        7,
    )
    assert told["evidence"] == "cpu" and told["status"] == "complete" and told["traces"][0]["steps"] == 4
    assert told["shape"] == dict(workload("train_step").SHAPES["small"])
    words = told["command"]
    assert words[:3] == ["npulens", "collect", "train_step"]
    again = dict(zip(words[3::2], words[4::2], strict=True))
    assert chosen("train_step", again["--variant"], again["--shape"], again["--dtype"])[1] == told["shape"]


@needs_torch
def test_it_is_loaded_and_what_check_says_is_honest(collected: Collected) -> None:
    home, told = collected
    assert "out: complete" in told.stdout and "No device activity was recorded" not in told.stdout
    (run,) = json.loads(npulens("runs", "--json", home=home).stdout)["runs"]
    assert run["label"] == "out" and run["status"] == "complete"
    found = json.loads(npulens("check", "out", "--json", home=home).stdout)
    silent = {each["detector"] for each in found["outcomes"] if each["outcome"] == "not_measured"}
    assert len(found["outcomes"]) - len(silent) >= 20  # the operators are the device's work
    assert "gc" not in silent and {"memory_alloc", "aicpu", "dataloader"} <= silent
    again = npulens("collect", "train_step", "-o", "out", home=home)
    assert again.returncode == 2 and "holds a result already" in again.stderr


@needs_torch
def test_what_cannot_run_here_says_so(tmp_path: Path) -> None:
    told = npulens("collect", "launch_overhead", "--variant", "graph", "--backend", "cpu", home=tmp_path)
    assert told.returncode == 2 and "on CUDA and NPU only" in told.stderr
    told = npulens("collect", "train_step", "--backend", "npu", home=tmp_path)
    assert told.returncode == 2 and "npu:" in told.stderr
