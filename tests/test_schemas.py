"""The schemas of what commands print with --json: each is one, each command has one, and what is printed fits."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import judged
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.app import schemas
from npulens.app.cli import main

jsonschema = pytest.importorskip("jsonschema")
def fits(name: str, document: object) -> None:
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(document)


def speaking(command: click.Command, path: str = "") -> Iterator[str]:
    """The commands that have --json, a part of a command after a dash."""
    if isinstance(command, click.Group):
        with click.Context(command) as ctx:
            for name in command.list_commands(ctx):
                found = command.get_command(ctx, name)
                assert found is not None
                yield from speaking(found, f"{path}-{name}".lstrip("-"))
    elif any("--json" in option.opts for option in command.params):
        yield path


def test_every_command_with_json_has_a_schema() -> None:
    assert set(speaking(main)) - set(schemas.names()) == set()


@pytest.mark.parametrize("name", schemas.names())
def test_a_schema_is_one(name: str) -> None:
    for version in range(1, schemas.names()[name] + 1):
        found = schemas.schema(name, version)
        jsonschema.Draft202012Validator.check_schema(found)
        assert found["$id"] == f"urn:npulens:{name}:{version}" and found["title"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("schemas")
    ingest.load(judged.capture(directory / "a.json", "gemm"), directory / "store", label="night")
    ingest.load(judged.capture(directory / "b.json", "gemm", steps=5), directory / "store", label="short")
    return directory


def said(place: Path, *words: str) -> Any:
    return printed(*words, "--store", str(place / "store"), "--json")


def printed(*words: str, status: int = 0) -> Any:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", [
    ("runs",), ("check", "night"), ("check", "night", "--lang", "zh"), ("breakdown", "night"), ("path", "night"),
    ("fleet", "night"), ("kernel", "night"), ("modules", "night"), ("modules", "night", "short"), ("roofline", "night"),
    ("roofline", "night", "short"), ("compare", "night", "short"), ("history",), ("token",), ("token", "--revoke"),
    ("sql", "night", "SELECT rank, avg(dur_ns), NULL FROM span GROUP BY ALL"), ("rm", "short"),
    ("rm", "--undo", "short"),
], ids=" ".join)  # fmt: skip
def test_what_a_command_prints_fits(words: tuple[str, ...], place: Path) -> None:
    fits(words[0], said(place, *words))


def test_what_leaves_and_comes_in_fits(place: Path, tmp_path: Path) -> None:
    fits("export", said(place, "export", "night", "--to", str(tmp_path / "span.csv")))
    fits("report", said(place, "report", "night", "-o", str(tmp_path / "night.md")))
    capture = judged.capture(tmp_path / "c.json", "gemm", steps=3)
    fits("load", said(place, "load", str(capture)))
    fits("load", said(place, "load", str(capture)))  # it is there already


def test_what_the_store_says_of_itself_fits(place: Path, tmp_path: Path) -> None:
    there, back = (("store", word, "--store", str(at), "--json") for word, at in (
        ("backup", place / "store"), ("restore", tmp_path / "store"),
    ))  # fmt: skip
    fits("store-backup", printed(*there[:2], str(tmp_path / "b.tar"), *there[2:]))
    fits("store-restore", printed(*back[:2], str(tmp_path / "b.tar"), *back[2:]))
    fits("store-migrate", printed("store", "migrate", "--store", str(tmp_path / "store"), "--json"))
    check = ("store", "check", "--store", str(tmp_path / "store"), "--json")
    fits("store-check", printed(*check))
    (damaged, *_) = sorted((tmp_path / "store").glob("*/span.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    for words, status in ((check, 1), ((*check, "--repair"), 0)):
        told = printed(*words, status=status)
        fits("store-check", told)
        (thing,) = [each for each in told["things"] if each["state"] != "whole"]
        assert (thing["state"], thing["healed"]) == ("damaged", None if status else True)


REPORT = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at add_kernel+0x1f0 in add.py:12
=========     by thread (5,0,0) in block (1,0,0)
=========     Address 0x7f0000000414 is out of bounds
========= ERROR SUMMARY: 1 error
"""


def test_what_memcheck_says_fits(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(REPORT)
    told = printed("memcheck", "--read", str(tmp_path / "report.txt"), "--json", status=1)
    fits("memcheck", told)
    assert [(each["kind"], each["line"]) for each in told["findings"]] == [("outside", 12)]


needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@needs_torch
def test_what_a_benchmark_says_fits(tmp_path: Path) -> None:
    told = by_itself("bench", "matmul_layernorm_gelu", "--variant", "unfused", "--variant", "reference", "--dtype",
                     "float32", "--quick", "--time-budget", "2", "--pairs", "2", "--cold", "--throughput",
                     "--batch-curve", "--concurrency", "2", "--sweep", "--backend", "cpu", "-o", str(tmp_path / "b"),
                     "--store", str(tmp_path / "store"))  # fmt: skip
    fits("bench", told)
    assert {each["part"] for each in told["figures"]} == {
        "numerics", "latency", "versus", "throughput", "batch", "together", "sweep",
    }  # fmt: skip
    del told["figures"][-1]["refused"]
    with pytest.raises(jsonschema.ValidationError, match="refused"):
        fits("bench", told)


@needs_torch
@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler is there")
def test_what_a_generated_kernel_says_fits(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    words = ("compile", f"{tmp_path / 'plain.py'}:plain", "--backend", "cpu", "--pairs", "2", "--seconds", "0.2")
    fits("compile", by_itself(*words, "-o", str(tmp_path / "one")))
    told = by_itself(*words, "--tune", "--tries", "2", "-o", str(tmp_path / "two"))
    fits("compile", told)
    assert len(told["tuning"]["tries"]) == 2


PLAIN = """import torch

def plain(x):
    return torch.relu(x) * 2 + 1

def inputs():
    return torch.ones(64, 64)
"""


def by_itself(*words: str) -> Any:
    """In a process of its own: what the collectors print goes past a runner of tests."""
    done = subprocess.run(
        [sys.executable, "-m", "npulens.app.cli", *words, "--json"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_an_error_fits(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["check", "zork", "--store", str(place / "store"), "--json"]
    monkeypatch.setattr(sys, "argv", ["npulens", *words])
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    fits("error", json.loads(done.stdout))


@pytest.mark.parametrize("key", ["run_id", "findings", "quality", "together_ns"])
def test_what_lacks_a_promised_key_does_not_fit(key: str, place: Path) -> None:
    document = said(place, "check", "night")
    del document[key]
    with pytest.raises(jsonschema.ValidationError, match=key):
        fits("check", document)
    with pytest.raises(jsonschema.ValidationError):
        fits("check", {**document, key: {"zork": 1.5}})
