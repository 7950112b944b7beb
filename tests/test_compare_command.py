"""`npulens compare`: what it prints for people and scripts, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from npulens import ingest
from npulens.app.cli import main

SAMPLES = Path(ingest.__file__).resolve().parents[1] / "sample_traces"


def run(store: Path, *args: str) -> Result:
    return CliRunner().invoke(main, [*args, "--store", str(store)])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("compared")
    for name in ("kineto", "torch_npu_text"):
        ingest.load(SAMPLES / name, store, label=name)
    return store


def test_the_command_prints_keys_that_scripts_rely_on(loaded: Path) -> None:
    done = run(loaded, "compare", "kineto", "torch_npu_text", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert {"base", "head", "metric", "verdict", "delta_ns", "delta_share", "interval", "method", "contributions",
            "residual_ns"} <= set(found)  # fmt: skip
    assert sum(one["delta_ns"] for one in found["contributions"]) + found["residual_ns"] == found["delta_ns"]
    assert found["delta_ns"] == found["head_ns"] - found["base_ns"]


def test_the_command_speaks_to_people(loaded: Path) -> None:
    for args, word in ((("--top", "3"), "residual"), (("--lang", "zh", "--drift", "0.1"), "残差"),
                       (("--ranks", "0:0", "--by", "operator", "--keep-warm-up"), "residual")):  # fmt: skip
        done = run(loaded, "compare", "kineto", "torch_npu_text", *args)
        assert done.exit_code == 0 and word in done.output, done.output


def test_wrong_questions_are_refused(loaded: Path) -> None:
    for args in (("kineto", "nowhere"), ("kineto", "kineto", "--steps", "99999"), ("kineto", "kineto", "--ranks", "x"),
                 ("kineto", "kineto", "--ranks", "1:2:3"), ("kineto,", "kineto")):  # fmt: skip
        done = run(loaded, "compare", *args)
        assert done.exit_code == 2 and not isinstance(done.exception, ValueError | KeyError), args


def capture(path: Path, lengths: Sequence[int]) -> Path:
    """Steps of these lengths in us as torch.profiler writes them, each filled by a kernel but for 10 us."""
    events, at = [], 1000
    for number, length in enumerate(lengths):
        for cat, name, begin, dur, tid in (("user_annotation", f"ProfilerStep#{number}", at, length, 1),
                                           ("kernel", "matmul", at + 5, length - 10, 7)):  # fmt: skip
            args = {"stream": 7, "device": 0, "correlation": number} if cat == "kernel" else {}
            events.append({"ph": "X", "cat": cat, "name": name, "ts": begin, "dur": dur, "pid": int(cat != "kernel"),
                           "tid": tid, "args": args})  # fmt: skip
        at += length
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "x"}],
                                "traceEvents": events}), "utf-8")  # fmt: skip
    return path


def test_a_regression_is_an_exit_code_where_it_is_asked_for(tmp_path: Path) -> None:
    """Steps of 1 ms that differ by some us, and 3 % longer ones."""
    store = tmp_path / "store"
    base = [1000 + 3 * (place * 7 % 5) for place in range(20)]
    for name, lengths in (("before", base), ("after", [length + 30 for length in base])):
        ingest.load(capture(tmp_path / f"{name}.json", lengths), store, label=name)
    assert run(store, "compare", "before", "after", "--fail-on-regression").exit_code == 1
    assert run(store, "compare", "after", "before", "--fail-on-regression").exit_code == 0
    found = json.loads(run(store, "compare", "before", "after", "--json").output)
    assert found["verdict"] == "regressed" and found["delta_ns"] == 30_000
    assert found["interval"][0] < 0.03 < found["interval"][1]
    assert [(one["kind"], one["what"], one["delta_ns"]) for one in found["contributions"] if one["delta_ns"]] == [
        ("kernel", "matmul", 30_000)
    ]  # fmt: skip
    (matmul,) = (one for one in found["contributions"] if one["what"] == "matmul")
    low, high = matmul["interval_ns"]
    assert low < 30_000 < high and ", +" in run(store, "compare", "before", "after").output
