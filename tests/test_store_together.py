"""Readers of a store while others load, delete, restore and collect: whole runs, or a sentence, never a traceback."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path, PosixPath
from random import Random

import duckdb
import pytest

from npulens.ingest import IngestError
from npulens.ingest.store import notes, runs, seal
from tests.store_templates import Templates


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates"))


def writes(templates: Templates, where: Path, draw: Random) -> None:
    """One change of the store; that somebody was faster is said in a sentence."""
    name = draw.choice(list(templates.ids))
    change: Callable[[], object] = draw.choice(
        (
            lambda: templates.copy(where, name),
            lambda: templates.copy(where, name),
            lambda: runs.remove(where, templates.ids[name]),
            lambda: runs.restore(where, templates.ids[name]),
            lambda: runs.set_label(where, templates.ids[name], name),
            lambda: old(where),
        )
    )
    try:
        change()
    except IngestError as error:
        assert error.kind == "unknown_run", error


def old(where: Path) -> None:
    """A collection that finds everything in the trash too old."""
    for entry in (where / ".trash").glob("[!.]*"):
        try:
            os.utime(entry, (time.time() - 2 * runs.UNDO_S,) * 2)
        except FileNotFoundError:
            continue
    runs.collect(where)


def reads(templates: Templates, where: Path) -> int:
    """Everything a page asks of a store; runs that were read whole."""
    whole = 0
    runs.deleted(where)
    notes.about(where)
    for run in runs.runs(where):
        try:
            with runs.open_run(where, run.run_id) as con:
                rows = con.execute("SELECT count(*) FROM span").fetchall()
        except IngestError as error:
            assert error.kind == "unknown_run", error
        except duckdb.IOException as error:  # removed for good between opening and asking
            assert "No such file" in str(error), error
        except duckdb.PermissionException as error:  # the same: it lies nowhere that may be read
            assert "span.parquet" in str(error), error
        else:
            assert rows == [(templates.rows[run.run_id]["span"],)]
            whole += 1
    return whole


def together(templates: Templates, where: Path, seconds: float, writers: int, readers: int) -> int:
    """Writers and readers side by side for a while; runs read whole."""
    end, failures, whole = time.monotonic() + seconds, [], [0] * readers

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def thread() -> None:
            try:
                while time.monotonic() < end and not failures:
                    work()
            except BaseException as error:
                failures.append(error)
                raise

        return thread

    def writer(seed: int) -> Callable[[], None]:
        draw = Random(seed)
        return lambda: writes(templates, where, draw)

    def reader(number: int) -> Callable[[], None]:
        def work() -> None:
            whole[number] += reads(templates, where)

        return work

    works = [*(writer(i) for i in range(writers)), *(reader(i) for i in range(readers))]
    threads = [threading.Thread(target=guarded(work)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(whole)


def test_readers_beside_writers(templates: Templates, tmp_path: Path) -> None:
    runs.open_store(tmp_path / "store")
    assert together(templates, tmp_path / "store", 3, writers=2, readers=2) > 0


class Disturbing(PosixPath):
    """A file; whenever it is asked for its hash, another thread forgets one more."""

    others: list[Path] = []

    def __hash__(self) -> int:
        if Disturbing.others:
            seal.forget(Disturbing.others.pop())
        return super().__hash__()


def test_what_is_known_of_files_is_forgotten_while_another_thread_forgets(tmp_path: Path) -> None:
    disturbing = Disturbing(tmp_path / "disturbing")
    others = [tmp_path / str(number) for number in range(9)]
    for file in (disturbing, *others):
        file.write_text("x")
        seal.hash_once(file)
        file.unlink()
    Disturbing.others = others
    seal.forget_gone()
    assert not [path for path in seal._LOOKED_AT if path.parent == tmp_path]


@pytest.mark.torture
def test_readers_beside_writers_for_a_minute(templates: Templates, tmp_path: Path) -> None:
    runs.open_store(tmp_path / "store")
    assert together(templates, tmp_path / "store", 60, writers=4, readers=4) > 0
    shutil.rmtree(tmp_path / "store")
