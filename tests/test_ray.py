"""Loads on a real Ray cluster of two nodes: the same rows as on one machine, and whole or not there when a part of the
cluster is lost. `make torture` and `python -m tests.fleet` run it: a cluster takes a minute of processor time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from npulens import ingest
from npulens.ingest import IngestError
from npulens.ingest.store import runs
from npulens.ingest.tables import schema
from tests.fleet import cluster as clusters
from tests.fleet.cluster import Cluster

pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(clusters.missing() is not None, reason=str(clusters.missing())),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with clusters.cluster() as found:
        yield found


@pytest.fixture(autouse=True)
def here(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six ranks, each large enough to be caught in the middle."""
    folder = tmp_path_factory.mktemp("job")
    asked = ["simulate", "clean", "--ranks", "6", "--missing-ranks", "0", "--steps", "12", "--format", "kineto"]
    subprocess.run(
        [sys.executable, "-m", "npulens.app.cli", *asked, "-o", str(folder)], check=True, capture_output=True
    )
    return folder / "capture"


@pytest.fixture(scope="module")
def local(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("local")
    return store / str(ingest.load(job, store).runs[0].run_id)


def same(local: Path, store: Path) -> None:
    """The run of a store is the local one, but for when it was loaded and how long ranks took."""
    assert [run.run_id for run in runs.runs(store)] == [local.name]
    for table in schema.tables():
        ours, theirs = (pq.read_table(folder / f"{table}.parquet") for folder in (store / local.name, local))
        assert ours.equals(theirs), table
    for name in ("coverage", "ranks", "steps", "events", "warnings", "dur_ns"):
        assert runs.manifest(store, local.name)[name] == runs.manifest(local.parent, local.name)[name]
    assert not list((store / ".staging").iterdir())


def meanwhile(task: str, cluster: Cluster, act: Callable[[], object], again: bool = False) -> threading.Event:
    """Do something once a task is under way, or whenever one is; the event is set when it was done."""
    done = threading.Event()

    def watch() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end and (again or not done.is_set()):
            if cluster.workers(task):
                time.sleep(0.3)
                act()
                done.set()
            time.sleep(0.05)

    threading.Thread(target=watch, daemon=True).start()
    return done


@pytest.mark.parametrize("how", ["ray", "client"])
def test_rows_are_those_of_a_local_load(cluster: Cluster, job: Path, local: Path, tmp_path: Path, how: str) -> None:
    report = ingest.load(job, tmp_path / "store", engine="ray" if how == "ray" else cluster.client)
    assert report.runs[0].stored == "new"
    same(local, tmp_path / "store")


@pytest.mark.parametrize("task", ["read", "write"])
def test_a_worker_that_is_killed_is_replaced(
    cluster: Cluster, job: Path, local: Path, tmp_path: Path, task: str
) -> None:  # fmt: skip
    killed = meanwhile(task, cluster, lambda: cluster.kill_worker(task))
    ingest.load(job, tmp_path / "store", engine="ray")
    assert killed.is_set() or task == "write", "writing may be over before anybody sees it"
    same(local, tmp_path / "store")


def test_a_node_that_is_lost_is_done_without(cluster: Cluster, job: Path, local: Path, tmp_path: Path) -> None:
    lost = meanwhile("read", cluster, cluster.lose_node)
    try:
        ingest.load(job, tmp_path / "store", engine="ray")
        assert lost.is_set()
        same(local, tmp_path / "store")
    finally:
        cluster.add_node()


def test_workers_that_die_again_and_again_end_the_load_and_nothing_stays(
    cluster: Cluster, job: Path, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()

    def kill() -> None:
        while not stop.is_set():
            cluster.kill_worker("read")
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(
            IngestError, match="the cluster lost a part of the load for good, so nothing was stored"
        ) as error:
            ingest.load(job, tmp_path / "store", engine="ray")
    finally:
        stop.set()
        killer.join()
    assert "\n" not in str(error.value)
    assert runs.runs(tmp_path / "store") == [] and not list((tmp_path / "store" / ".staging").iterdir())
    ingest.load(job, tmp_path / "store", engine="ray")
    same(local, tmp_path / "store")


def test_a_rank_that_cannot_be_read_is_refused_and_the_others_are_a_run(
    cluster: Cluster, job: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "capture"
    for number, path in enumerate(sorted(job.rglob("*.json"))):
        content = path.read_bytes()
        target = broken / path.relative_to(job)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if number else b'{"traceEvents": [' + b"\x00" * 100)
    here = ingest.load(broken, tmp_path / "here")
    there = ingest.load(broken, tmp_path / "there", engine="ray")
    assert [(run.run_id, run.status, run.reason) for run in here.runs] == [
        (run.run_id, run.status, run.reason) for run in there.runs
    ]
    assert any(run.run_id is None for run in there.runs) or here.runs[0].status == "partial"


def test_no_cluster_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Path) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(IngestError, match="no Ray cluster answers there"):
        ingest.load(job, tmp_path / "store", engine="ray")
    assert runs.runs(tmp_path / "store") == []
