"""Too little of everything: a disk that is full, files that may not grow, memory that ends. What then must hold:

whoever loads is told in a sentence what there was too little of, no half of a run can be seen, and the same load with
enough of it makes the same run as if nothing had happened.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from npulens.ingest.store import runs
from tests.crashing import visible
from tests.test_store import kineto

ROOT = Path(__file__).resolve().parent.parent
MB = 1 << 20
#: One load in a process of its own, so that limits hold for the whole tree of it.
_LOAD = """
import json, sys, ingest
try:
    print(json.dumps([run.error or {"kind": None} for run in ingest.load(sys.argv[1], sys.argv[2]).runs]))
except ingest.IngestError as error:
    print(json.dumps([error.as_dict()]))
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kineto(tmp_path_factory.mktemp("starved") / "trace.json", spans=3000)


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Too large to be made in memory: what it reads first goes to the disk."""
    return kineto(tmp_path_factory.mktemp("larger") / "trace.json", spans=15_000)


@pytest.fixture(scope="module")
def whole(capture: Path) -> dict[str, str]:
    return made(capture)


@pytest.fixture(scope="module")
def larger_whole(larger: Path) -> dict[str, str]:
    return made(larger)


def made(capture: Path) -> dict[str, str]:
    """The run as a load with enough of everything makes it."""
    where = capture.parent / "whole"
    assert load(capture, where) == [{"kind": None}]
    found = visible(where)
    assert found
    return found


def load(capture: Path, where: Path, limit: Callable[[], None] | None = None) -> list[dict[str, Any]]:
    """The errors of a load, {"kind": None} for a run."""
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, str(capture), str(where)], cwd=ROOT, capture_output=True, text=True, check=False,
        preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said: list[dict[str, Any]] = json.loads(done.stdout)
    return said


def check(capture: Path, where: Path, whole: dict[str, str], said: list[dict[str, Any]], kinds: set[str]) -> None:
    """Told, nothing half visible, and healed by the next load."""
    (error,) = said
    if error["kind"] is None:
        assert visible(where) == whole
    else:
        assert error["kind"] in kinds, error
        assert error["message"] and "please report" not in error["message"], error
        assert runs.runs(where) == []
    assert load(capture, where) == [{"kind": None}]
    assert visible(where) == whole
    assert list((where / ".staging").iterdir()) == []


@contextmanager
def disk(kilobytes: int) -> Iterator[Path]:
    """A disk of that size; skips where this user may not mount one."""
    place = Path(tempfile.mkdtemp(prefix="npulens-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "npulens", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no small disk to fill here: {error}")
    if mounted.returncode:
        place.rmdir()
        pytest.skip(f"no small disk to fill here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


def grow(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=256m", str(place)], check=True)


def fill(capture: Path, whole: dict[str, str], kilobytes: int) -> str | None:
    """Load onto a disk of that size, then onto a larger one; what was said the first time."""
    with disk(kilobytes) as place:
        where = place / "store"
        said = load(capture, where)
        if said[0]["kind"] is not None:
            assert runs.runs(where) == []  # also while the disk is still full
        grow(place)
        check(capture, where, whole, said, {"disk_full", "store"})
    return said[0]["kind"]


@pytest.mark.parametrize("kilobytes", [16, 64])
def test_a_full_disk_is_called_one(kilobytes: int, capture: Path, whole: dict[str, str]) -> None:
    """The run itself takes a hundred kilobytes."""
    assert fill(capture, whole, kilobytes) in ("disk_full", "store")


def test_a_disk_that_holds_the_run_but_not_what_is_made_on_the_way(larger: Path, larger_whole: dict[str, str]) -> None:
    assert fill(larger, larger_whole, 600) in ("disk_full", "store")


@pytest.mark.torture
def test_a_disk_that_is_full_at_any_size(capture: Path, whole: dict[str, str]) -> None:
    """From where not even the store's folders fit to where everything does."""
    said = [fill(capture, whole, kilobytes) for kilobytes in [4, 8, 12, *range(16, 2048, 48)]]
    assert said[0] is not None and said[-1] is None
    assert len(set(said)) > 1


@pytest.mark.torture
def test_a_disk_that_is_full_at_each_megabyte(tmp_path: Path) -> None:
    capture = kineto(tmp_path / "large.json", spans=60_000)
    assert load(capture, tmp_path / "whole") == [{"kind": None}]
    whole = visible(tmp_path / "whole")
    assert whole
    said = [fill(capture, whole, megabytes << 10) for megabytes in range(1, 41, 1)]
    assert said[0] == "disk_full" and said[-1] is None


@pytest.mark.parametrize("size", [0, 4096, 10_000])
def test_files_that_may_not_grow(size: int, capture: Path, whole: dict[str, str], tmp_path: Path) -> None:
    """The manifest alone has twelve thousand bytes."""
    said = load(capture, tmp_path / "store", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
    assert said[0]["kind"] is not None
    check(capture, tmp_path / "store", whole, said, {"system", "store", "disk_full"})


def test_spilled_files_that_may_not_grow(larger: Path, larger_whole: dict[str, str], tmp_path: Path) -> None:
    said = load(larger, tmp_path / "store", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)))
    assert said[0]["kind"] is not None
    check(larger, tmp_path / "store", larger_whole, said, {"system", "store", "disk_full"})


@pytest.mark.torture
def test_files_that_may_grow_to_any_size(capture: Path, whole: dict[str, str], tmp_path: Path) -> None:
    for i, size in enumerate([0, 1, 100, 4096, 8192, 20_000, 50_000, 100_000, 200_000, 400_000, 800_000, 4 * MB]):
        where = tmp_path / f"store{i}"
        limit = (lambda most: lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))(size)
        check(capture, where, whole, load(capture, where, limit), {"system", "store", "disk_full"})
        shutil.rmtree(where)


#: At the smallest not even the libraries fit, at the largest everything does.
MEMORY_MB = (100, 200, 400, 800, 1600)
_HUNGRY = {"memory", "too_large", "crashed", "system", "failed"}


def starve(megabytes: int, capture: Path, whole: dict[str, str], where: Path) -> None:
    said = load(capture, where, lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes * MB,) * 2))
    check(capture, where, whole, said, _HUNGRY)


@pytest.mark.parametrize("megabytes", [400, 800])
def test_memory_that_ends(megabytes: int, capture: Path, whole: dict[str, str], tmp_path: Path) -> None:
    starve(megabytes, capture, whole, tmp_path / "store")


@pytest.mark.torture
@pytest.mark.parametrize("megabytes", MEMORY_MB)
def test_memory_that_ends_at(megabytes: int, capture: Path, whole: dict[str, str], tmp_path: Path) -> None:
    starve(megabytes, capture, whole, tmp_path / "store")


@pytest.mark.torture
def test_two_hundred_loads_killed_at_random(tmp_path: Path) -> None:
    capture, memory = kineto(tmp_path / "trace.json"), Path("/dev/shm")
    mill = tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.crashing", mill, str(capture), "--random", "200"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    shutil.rmtree(mill, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["killed"] == 200
    assert (seen["half_visible"], seen["not_healed"], seen["leaked"]) == (0, 0, 0)
