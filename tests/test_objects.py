"""Runs in object storage: whole or not there, whatever the storage does; copies here are checked and kept within a
limit. A real S3 server answers, behind a proxy that fails as it is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from npulens import ingest
from npulens.ingest import IngestError, objects
from npulens.ingest.objects import mirror
from npulens.ingest.objects.bucket import Bucket
from npulens.ingest.store import runs
from npulens.ingest.store.place import located
from npulens.ingest.tables import schema
from tests import s3_server
from tests.s3_server import Fault, Storage

CAPTURE = Path(__file__).resolve().parents[1] / "sample_traces" / "cpu_conv_folded"
OTHER = CAPTURE.with_name("cpu_conv_unfused")
here = pytest.mark.skipif(s3_server.missing() is not None, reason=str(s3_server.missing()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    with s3_server.storage(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture
def storage(server: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """The server without faults, for this test's own prefix; a request is tried for two seconds."""
    server.fault = lambda method, path: None
    server.asked.clear()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NPULENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NPULENS_STORAGE_PATIENCE", "2")
    return server


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"s3://tests/{tmp_path.name}"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Two runs of an ordinary store."""
    store = tmp_path_factory.mktemp("local")
    return store, [str(ingest.load(each, store).runs[0].run_id) for each in (CAPTURE, OTHER)]


def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows is on another machine: nothing is here yet."""
    monkeypatch.setenv("NPULENS_CACHE", str(tmp_path / f"machine{time.monotonic_ns()}"))


def put(local: tuple[Path, list[str]], which: int, store: Path, tmp_path: Path) -> str:
    """Commit a copy of a run as a load does."""
    source, ids = local
    staged = tmp_path / f"staged{time.monotonic_ns()}"
    shutil.copytree(source / ids[which], staged)
    runs.open_store(store)
    try:
        return runs.commit(store, staged, ids[which])
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def same(run_id: str, ours: Path, theirs: Path) -> None:
    for table in schema.tables():
        read = [pq.read_table(store / run_id / f"{table}.parquet") for store in (ours, theirs)]
        assert read[0].equals(read[1]), table
    assert runs.manifest(ours, run_id)["coverage"] == runs.manifest(theirs, run_id)["coverage"]


@here
def test_a_run_is_loaded_into_a_bucket_and_opened_from_another_machine(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = ingest.load(CAPTURE, address, label="folded")
    assert report.runs[0].stored == "new"
    run_id = str(report.runs[0].run_id)
    assert run_id == local[1][0]
    put_there = storage.puts()
    assert f"/runs/{run_id}.json" in put_there[-2] and "/labels/" in put_there[-1], "the head comes after every file"
    assert ingest.load(CAPTURE, address).runs[0].stored == "exists"

    another(tmp_path, monkeypatch)
    store = located(address)
    listed = runs.runs(store)
    assert [(run.run_id, run.label, run.ranks) for run in listed] == [(run_id, "folded", (0,))]
    assert not list((store / run_id).glob("*.parquet")), "a list needs no tables"
    runs.open_run(store, run_id).close()
    same(run_id, store, local[0])
    assert ingest.load(CAPTURE, address).runs[0].stored == "exists", "also where nobody loaded it"


@here
def test_a_deleted_run_is_gone_everywhere_and_comes_back(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run_id = located(address), local[1][0]
    assert put(local, 0, store, tmp_path) == "new"
    runs.remove(store, run_id)
    another(tmp_path, monkeypatch)
    store = located(address)
    assert runs.runs(store) == []
    assert [each.run.run_id for each in runs.deleted(store)] == [run_id]
    assert runs.restore(store, run_id[:6]) == run_id
    runs.open_run(store, run_id).close()
    runs.remove(store, run_id)
    monkeypatch.setattr(runs, "UNDO_S", -1)
    runs.collect(runs.open_store(store))
    assert s3_server.objects(address) == []


@here
@pytest.mark.parametrize("first", [0, 3, 11, "head"])
def test_storage_that_refuses_leaves_no_run(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, first: int | str
) -> None:
    """From the n-th file on, and for the head alone."""
    store, seen = located(address), count()

    def refuse(method: str, path: str) -> Fault | None:
        if method != "PUT":
            return None
        return Fault(status=503) if ("/runs/" in path if first == "head" else next(seen) >= int(first)) else None

    storage.fault = refuse
    with pytest.raises(IngestError, match="answers with status 503, also when asked again for 2 s") as error:
        put(local, 0, store, tmp_path)
    assert "\n" not in str(error.value)
    assert runs.runs(store) == [] and s3_server.objects(address) == []
    storage.fault = lambda method, path: None
    assert put(local, 0, store, tmp_path) == "new"


@here
def test_storage_that_refuses_now_and_then_is_asked_again(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = count()
    storage.fault = lambda method, path: Fault(status=503) if next(seen) % 3 == 0 else None
    assert put(local, 0, located(address), tmp_path) == "new"
    another(tmp_path, monkeypatch)
    store = located(address)
    assert [run.run_id for run in runs.runs(store)] == [local[1][0]]
    runs.open_run(store, local[1][0]).close()
    same(local[1][0], store, local[0])


@here
def test_slow_storage_is_waited_for_within_limits(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = located(address)
    storage.fault = lambda method, path: Fault(pause_s=0.05)
    assert put(local, 0, store, tmp_path) == "new"
    another(tmp_path, monkeypatch)
    monkeypatch.setenv("NPULENS_STORAGE_PATIENCE", "0.5")
    storage.fault = lambda method, path: Fault(pause_s=3)
    with pytest.raises(IngestError, match="does not answer in time, also when asked again for 0.5 s"):
        runs.runs(located(address))


@here
def test_what_is_damaged_there_is_refused_and_what_is_damaged_here_is_fetched_again(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(local, 0, located(address), tmp_path)
    another(tmp_path, monkeypatch)
    store, run_id = located(address), local[1][0]
    assert runs.resolve(store, run_id)
    storage.fault = lambda method, path: Fault(damage=path.endswith("span.parquet"))
    with pytest.raises(IngestError, match="what the storage holds is damaged") as error:
        runs.open_run(store, run_id)
    assert error.value.path is not None and error.value.path.endswith("span.parquet")
    storage.fault = lambda method, path: None
    runs.open_run(store, run_id).close()
    copy = store / run_id / "span.parquet"
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    mirror._seen.cache_clear()  # another process looks at it
    runs.open_run(store, run_id).close()
    same(run_id, store, local[0])


@here
def test_a_load_that_is_killed_leaves_no_run_and_the_next_day_nothing(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, hung = count(), threading.Event()

    def hang(method: str, path: str) -> Fault | None:
        if method == "PUT" and next(seen) >= 5:
            hung.set()
            return Fault(pause_s=2, status=503)
        return None

    storage.fault = hang
    command = [sys.executable, "-m", "npulens.app.cli", "load", str(CAPTURE), "--store", address]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as load:
        assert hung.wait(60)
        os.killpg(load.pid, signal.SIGKILL)
    storage.fault = lambda method, path: None
    time.sleep(2.1)  # what was under way has arrived
    another(tmp_path, monkeypatch)
    store = located(address)
    assert runs.runs(store) == []
    assert s3_server.objects(address), "the files of a load that was killed are still there"
    put(local, 1, store, tmp_path)
    monkeypatch.setattr(mirror, "_ABANDONED_S", -1)
    runs.collect(store)
    left = s3_server.objects(address)
    assert all(local[1][1] in name for name in left), "what no run names is gone"
    another(tmp_path, monkeypatch)
    runs.open_run(located(address), runs.resolve(located(address), local[1][1]).run_id).close()


@here
def test_two_that_put_the_same_run_there_leave_one(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []
    for _ in range(2):
        another(tmp_path, monkeypatch)
        places.append(located(address))
    told: list[str] = []
    both = [
        threading.Thread(target=lambda store=store: told.append(put(local, 0, store, tmp_path))) for store in places
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted(told) == ["exists", "new"]
    names = s3_server.objects(address)
    assert len({name.rpartition("/")[0] for name in names if name.startswith("data/")}) == 1
    another(tmp_path, monkeypatch)
    store = located(address)
    assert len(runs.runs(store)) == 1
    runs.open_run(store, local[1][0]).close()
    same(local[1][0], store, local[0])


@here
def test_copies_stay_within_their_limit(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (first, second) = located(address), local[1]
    for which in (0, 1):
        put(local, which, store, tmp_path)
    sizes = [sum(p.stat().st_size for p in (local[0] / run_id).iterdir()) for run_id in (first, second)]
    another(tmp_path, monkeypatch)
    store = located(address)
    assert {run.run_id for run in runs.runs(store)} == {first, second}
    monkeypatch.setenv("NPULENS_CACHE_SIZE", str(min(sizes) - 1))
    with pytest.raises(IngestError, match="raise NPULENS_CACHE_SIZE"):
        runs.open_run(store, first)
    monkeypatch.setenv("NPULENS_CACHE_SIZE", str(max(sizes) + 1))
    open_first = (
        "import sys; from pathlib import Path; from npulens.ingest.store import runs;"
        "runs.open_run(Path(sys.argv[1]), sys.argv[2]); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", open_first, str(store), first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "open\n"
        runs.open_run(store, second).close()
        assert list((store / first).glob("*.parquet")), "another process reads it"
        reader.communicate("")
    shutil.rmtree(store / second)
    runs._refresh(store, objects.of(store), now=True)  # type: ignore[arg-type]
    mirror._seen.cache_clear()
    runs.open_run(store, second).close()
    assert not list((store / first).glob("*.parquet")), "nobody reads it, and there is room for one"
    assert (store / first / "manifest.json").is_file()
    assert {run.run_id for run in runs.runs(store)} == {first, second}


@here
@pytest.mark.parametrize(
    "change",
    [
        lambda head: b"no JSON",
        lambda head: b"[]",
        lambda head: json.dumps({**head, "place": "../elsewhere"}).encode(),
        lambda head: json.dumps({**head, "files": {"../../outside.parquet": [3, "0"]}}).encode(),
    ],
)
def test_a_head_that_is_not_ours_is_a_damaged_run_and_the_others_are_listed(
    storage: Storage, address: str, local: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    change: Callable[[dict[str, Any]], bytes],
) -> None:  # fmt: skip
    for which in (0, 1):
        put(local, which, located(address), tmp_path)
    name = f"runs/{local[1][0]}.json"
    bucket = Bucket(address)
    bucket.put(name, change(json.loads(bucket.get(name))))
    bucket.put("runs/notes.txt", b"somebody else's")
    another(tmp_path, monkeypatch)
    store = located(address)
    assert {run.run_id: run.status for run in runs.runs(store)} == {local[1][0]: "damaged", local[1][1]: "complete"}
    with pytest.raises(IngestError, match="manifest"):
        runs.open_run(store, local[1][0])
    runs.open_run(store, local[1][1]).close()


@here
def test_a_bucket_that_is_not_there_is_said(storage: Storage) -> None:
    with pytest.raises(IngestError, match="the storage has no such bucket .s3://nobody/here"):
        runs.runs(located("s3://nobody/here"))


def test_without_the_library_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(IngestError, match=r"pip install 'npulens\[s3\]'"):
        runs.runs(located("s3://tests/x"))


def test_another_kind_of_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="a store is a directory or s3://bucket/prefix"):
        located("gopher://x/y")
    assert located("s3:/b/p/") == located("s3://b/p"), "a path has lost one of the strokes"
    assert located(tmp_path) == tmp_path and located("plain/dir") == Path("plain/dir")


def test_an_ordinary_store_imports_neither_object_storage_nor_engines(tmp_path: Path) -> None:
    program = (
        "import json, sys\n"
        "from npulens.app.cli import main\n"
        "try: main(['runs', '--json', '--store', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "print(json.dumps([n for n in sys.modules if n.startswith(('obstore', 'ray', 'npulens.ingest.objects.'))]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
