"""[store] of npulens.toml: where runs go, what is kept; options and the environment come before it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import judged
import pytest

from npulens.ingest.store import raw

VARIABLES = ("NPULENS_STORE", "NPULENS_RAW", "NPULENS_MAX_DISK", "NPULENS_MAX_TIME")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    judged.capture(tmp_path / "a.json", "gemm")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def npulens(place: Path, *words: str, **said: str) -> subprocess.CompletedProcess[str]:
    rest = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    command = [sys.executable, "-m", "npulens.app.cli", *words]
    return subprocess.run(command, cwd=place, env=rest | said, capture_output=True, text=True, timeout=120)


def test_runs_go_where_the_file_says_and_nothing_is_kept_where_it_says_so(place: Path) -> None:
    (place / "npulens.toml").write_text('[store]\ndir = "../runs"\nraw = "off"\n[serving]\nslo = "ttft=200"\n')
    done = npulens(place, "load", "../a.json")
    assert done.returncode == 0, done.stderr
    store = place.parent / "runs"
    (run,) = json.loads(npulens(place, "runs", "--json").stdout)["runs"]
    assert raw.names(store) == []
    assert npulens(place, "check", run["run_id"]).returncode == 0, "the section is no mistake to those that judge"


def test_an_option_and_the_environment_come_first(place: Path) -> None:
    (place / "npulens.toml").write_text('[store]\ndir = "file"\nraw = "off"\n')
    assert npulens(place, "load", "../a.json", "--store", "option", "--raw", "1G").returncode == 0
    assert npulens(place, "load", "../a.json", NPULENS_STORE="environment").returncode == 0
    assert len(raw.names(place / "option")) == 1 and raw.names(place / "environment") == []
    assert (place / "environment").is_dir() and not (place / "file").exists()


@pytest.mark.parametrize(
    "text, said",
    [
        ("[store]\nraw = 20", "npulens.toml: [store] holds dir, raw, max_disk, max_time, each a text"),
        ('[store]\npath = "x"', "npulens.toml: [store] holds dir"), ("store = 1", "npulens.toml: [store] holds dir"),
        ('[store]\nraw = "lots"', "npulens.toml: store.raw: 'lots' is not a size such as 500M"),
        ('[store]\nmax_time = "off"', "npulens.toml: store.max_time: 'off' is not a time"),
        ("[store", "npulens.toml: "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(place: Path, text: str, said: str) -> None:
    (place / "npulens.toml").write_text(text)
    done = npulens(place, "runs")
    assert done.returncode == 2 and done.stderr.startswith(f"npulens: {said}") and done.stderr.count("\n") == 1


def test_a_load_takes_no_longer_than_the_file_says(place: Path) -> None:
    (place / "npulens.toml").write_text('[store]\ndir = "runs"\nmax_time = "0.000001s"\n')
    done = npulens(place, "load", "../a.json")
    assert done.returncode != 0 and "time" in done.stderr + done.stdout
