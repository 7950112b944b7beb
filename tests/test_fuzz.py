"""The fuzz targets without a fuzzer: their seeds changed by a seeded hand, and proof that a target can fail.

`make fuzz` does the same for minutes, led by coverage (docs/fuzzing.md).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from npulens.ingest import events as scanner
from npulens.ingest.events import plain
from npulens.ingest.readers.kineto import spools
from tests.fuzz.targets import events, kineto, names, target

#: Inputs a target is given here; those that run a whole load in memory take half a second each.
INPUTS = {"archive": 300, "events": 120, "sniff": 120, "address": 200}


def run(name: str, count: int, seed: int, tmp_path: Path) -> None:
    this, draw = target(name), Random(seed)
    seeds = this.seeds()
    for i in range(count):
        data = this.mutate(draw.choice(seeds), draw)
        scratch = tmp_path / str(i)
        scratch.mkdir()
        (tmp_path / "input").write_bytes(data)  # of a failure, the input lies there
        this.check(data, scratch)
        shutil.rmtree(scratch)


@pytest.mark.parametrize("name", names())
def test_changed_seeds_are_read_or_refused(name: str, tmp_path: Path) -> None:
    run(name, INPUTS.get(name, 3), 1, tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("name", names())
def test_many_changed_seeds_are_read_or_refused(name: str, tmp_path: Path) -> None:
    run(name, INPUTS.get(name, 3) * 50, 2, tmp_path)


def test_a_scanner_that_differs_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if scanner.CScanner is None:
        pytest.skip("the C scanner is not built")
    exact = plain._nanoseconds
    monkeypatch.setattr(plain, "_nanoseconds", lambda number: (exact(number) or 0) | 1)
    with pytest.raises(AssertionError, match="differ"):
        events.check(events.seeds()[0], tmp_path)


def test_an_event_that_is_lost_in_silence_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools._Parting, "_count_losses", lambda *_: None)
    with pytest.raises(AssertionError, match="at least"):
        kineto.check(kineto.seeds()[0].replace(b'"dur": 30.125', b'"dur": -1'), tmp_path)
