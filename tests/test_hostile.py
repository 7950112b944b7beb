"""Every hostile file ends as a run, a partial run or a refusal in one sentence, within its seconds and megabytes.

`make test` loads every 60th of them, `make torture` all; `python -m tests.hostile KIND NUMBER` loads one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npulens import ingest
from npulens.ingest.store import runs
from tests.hostile import archives
from tests.hostile.corpora import planted
from tests.hostile.kinds import FAMILIES, KINDS
from tests.hostile.page import rows, table
from tests.hostile.runner import ROOT, Outcome, Runner

CORPORA = os.environ.get("NPULENS_CORPORA")


def _failures(outcomes: list[Outcome]) -> str:
    return "\n".join(str(one) for one in outcomes if one.wrong)


def test_there_are_enough_of_them() -> None:
    assert len(KINDS) == len({kind.name for kind in KINDS}) >= 25
    assert sum(kind.count for kind in KINDS) >= 2_000


@pytest.mark.parametrize("family", FAMILIES)
def test_every_60th_file(family: str, tmp_path: Path) -> None:
    with Runner(tmp_path) as runner:
        assert _failures(list(runner.run(FAMILIES[family], sparse=True))) == ""


@pytest.mark.torture
@pytest.mark.parametrize("family", FAMILIES)
def test_every_file(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Runner(tmp_path) as runner:
        outcomes = list(runner.run(FAMILIES[family], sparse=False))
    with capsys.disabled():
        print("", table(rows(outcomes)), sep="\n")
    assert _failures(outcomes) == ""


@pytest.mark.torture
@pytest.mark.skipif(not CORPORA, reason="NPULENS_CORPORA names no directory of other people's hostile files")
def test_public_corpora(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that others have collected, wherever they lie; none of them is kept here."""
    assert CORPORA is not None
    with Runner(tmp_path) as runner:
        found = planted(Path(CORPORA), tmp_path / "within")
        outcomes = [runner.load(kind, number, file) for kind, number, file in found]
    with capsys.disabled():
        print("", table(rows(outcomes)), sep="\n")
    assert outcomes, f"no file in {CORPORA}"
    assert _failures(outcomes) == ""


#: Loads what it is given through `ingest.load` and prints how many bytes of memory that has cost this process.
_WAITING = """
import json, os, sys
from npulens import ingest
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
store, *paths = sys.argv[1:]
ingest.load(paths[0], store)
before = resident()
for path in paths:
    ingest.load(path, store)
print(json.dumps(resident() - before))
"""


def test_whoever_waits_for_a_load_keeps_its_memory(tmp_path: Path) -> None:
    """The dashboard's process only waits: not a megabyte of a file, nor of what unpacks, is ever its own."""
    wanted = ("kineto giant", "kineto deep", "bomb", "database huge", "side file whole")
    paths = []
    for kind in (kind for kind in KINDS if kind.name in wanted):
        place = tmp_path / kind.name
        place.mkdir()
        paths.append(str(kind.make(place, kind.dice(4), 4).path))
    command = [sys.executable, "-c", _WAITING, str(tmp_path / "store"), *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) < 2 << 20


def test_a_job_of_more_ranks_than_there_can_be_is_of_unknown_size(tmp_path: Path) -> None:
    """A world of 10**18 ranks is damage: nobody lists those that are missing."""
    kind = next(kind for kind in KINDS if kind.name == "side file whole")
    planted = kind.make(tmp_path, kind.dice(77), 77)
    assert '"world_size": ' + "9" * 18 in (planted.path / "profiler_metadata.json").read_text()
    (run,) = ingest.load(planted.path, tmp_path / "store").runs
    assert run.status == "complete"
    assert [run.world_size for run in runs.runs(tmp_path / "store")] == [None]


@pytest.mark.parametrize("first", ["", "{0}", "[1]"])
def test_a_tar_is_one_whatever_its_first_member_is_called(first: str, tmp_path: Path) -> None:
    """Without a name it begins with a NUL, and with some it begins as JSON does."""
    raw = archives.tarred([archives.member(first, b"{}"), archives.member(archives.MEMBER, archives.TRACE)])
    (tmp_path / "x.tar").write_bytes(raw)
    (run,) = ingest.load(tmp_path / "x.tar", tmp_path / "store").runs
    assert run.formats == ("kineto",) and sum(row["rows"] for row in run.coverage if row["table"] == "span") == 20
