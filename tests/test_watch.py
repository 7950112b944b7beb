"""The watched folder: whole captures are loaded once, half ones never, and a restart remembers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import hostile_capture
import pytest

from npulens import ingest
from npulens.app.commands import watch as verb
from npulens.app.commands.watch import WatchedFolder
from npulens.ingest.loading import settled
from npulens.ingest.store import runs

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def capture(path: Path, world: int = 4) -> Path:
    hostile_capture.write(path)
    path.write_text(path.read_text("utf-8").replace('"world_size": 4', f'"world_size": {world}'), "utf-8")
    return path


def turns(watch: WatchedFolder, count: int = 3) -> list[dict[str, object]]:
    said = []
    for _ in range(count):
        said += list(watch.turn())
        time.sleep(0.06)
    return said


def statuses(said: list[dict[str, object]]) -> list[tuple[str, object]]:
    return [(Path(str(one["path"])).name, one["status"]) for one in said]


def test_a_whole_capture_is_loaded_once_and_a_restart_remembers(folder: Path, store_dir: Path) -> None:
    capture(folder / "a.json")
    assert statuses(turns(WatchedFolder(folder, store_dir, 0.05))) == [("a.json", "new")]
    assert runs.runs(store_dir)[0].label == "a.json"
    again = WatchedFolder(folder, store_dir, 0.05)
    assert turns(again) == [] and not again.pending()
    capture(folder / "a.json", 2)
    assert statuses(turns(again)) == [("a.json", "new")]
    assert sorted(run.label or "" for run in runs.runs(store_dir)) == ["a.json", "a.json (2)"]


def test_one_look_is_never_enough(folder: Path, store_dir: Path) -> None:
    capture(folder / "a.json")
    os.utime(folder / "a.json", (1, 1))  # as old as a copy that keeps its stamps
    watch = WatchedFolder(folder, store_dir, 0)
    assert list(watch.turn()) == [] and watch.pending()
    assert statuses(list(watch.turn())) == [("a.json", "new")]


def test_what_grows_is_left_alone_until_it_rests(folder: Path, store_dir: Path) -> None:
    whole = capture(folder / "x").read_bytes()
    (folder / "x").unlink()
    watch = WatchedFolder(folder, store_dir, 0.05)
    for end in range(100, len(whole), 200):
        (folder / "a.json").write_bytes(whole[:end])
        assert turns(watch, 1) == []
    (folder / "a.json").write_bytes(whole)
    assert statuses(turns(watch)) == [("a.json", "new")]
    assert runs.runs(store_dir)[0].status == "complete"


def test_a_writer_that_pauses_longer_than_the_wait_is_noticed(folder: Path, store_dir: Path) -> None:
    whole = capture(folder / "x").read_bytes()
    (folder / "x").unlink()
    program = (
        "import sys; f = open(sys.argv[1], 'wb'); f.write(sys.stdin.buffer.read(400)); f.flush()\n"
        "print('.', flush=True); f.write(sys.stdin.buffer.read())"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(folder / "a.json")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert writer.stdin and writer.stdout
    writer.stdin.write(whole[:400])
    writer.stdin.flush()
    writer.stdout.read(1)
    if not settled.being_written(folder / "a.json"):
        writer.communicate(whole[400:])
        pytest.skip("this file system has no leases")
    watch = WatchedFolder(folder, store_dir, 0.05)
    assert turns(watch, 4) == [] and watch.pending()
    writer.communicate(whole[400:])
    assert statuses(turns(watch)) == [("a.json", "new")]


@pytest.mark.parametrize(
    "name", [".hidden", "t.json.part", "t.json.tmp", "x.crdownload", ".trace.json.Xa3f", "t.json~"]
)
def test_copies_under_way_keep_their_directory_waiting(name: str, folder: Path, store_dir: Path) -> None:
    (folder / "job").mkdir()
    capture(folder / "job" / "t.json")
    (folder / "job" / name).write_bytes(b"half")
    (folder / name).write_bytes(b"half")
    watch = WatchedFolder(folder, store_dir, 0.05)
    assert turns(watch) == [] and watch.pending()
    (folder / "job" / name).unlink()
    assert statuses(turns(watch)) == [("job", "new")]
    assert not watch.pending(), "a half file in the folder itself is no capture"


def test_what_changes_while_it_is_read_is_taken_back(
    folder: Path, store_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture(folder / "a.json")
    load = ingest.load

    def late(path: Path, place: Path, called: str) -> ingest.LoadReport:
        report = load(path, place, called=called)
        capture(folder / "a.json", 3)
        monkeypatch.setattr(verb.ingest, "load", load)
        return report

    monkeypatch.setattr(verb.ingest, "load", late)
    watch = WatchedFolder(folder, store_dir, 0.05)
    assert statuses(turns(watch, 6)) == [("a.json", "changed"), ("a.json", "new")]
    assert [run.world_size for run in runs.runs(store_dir)] == [3]


def test_a_refused_file_is_said_once(folder: Path, store_dir: Path) -> None:
    (folder / "poem.txt").write_text("no capture")
    said = turns(WatchedFolder(folder, store_dir, 0.05))
    assert statuses(said) == [("poem.txt", "refused")] and "no capture that npulens knows" in str(said[0]["reason"])
    assert turns(WatchedFolder(folder, store_dir, 0.05)) == []
    (folder / "poem.txt").write_text("no capture, either")
    assert statuses(turns(WatchedFolder(folder, store_dir, 0.05))) == [("poem.txt", "refused")]


def test_what_the_machine_failed_at_is_tried_at_the_next_start(
    folder: Path, store_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture(folder / "a.json")
    load = ingest.load

    def crash(path: Path, place: Path, called: str) -> ingest.LoadReport:
        raise ingest.IngestError("crashed", "out of luck")

    monkeypatch.setattr(verb.ingest, "load", crash)
    watch = WatchedFolder(folder, store_dir, 0.05)
    assert statuses(turns(watch, 6)) == [("a.json", "failed")]
    monkeypatch.setattr(verb.ingest, "load", load)
    assert statuses(turns(WatchedFolder(folder, store_dir, 0.05))) == [("a.json", "new")]


def test_links_out_of_the_folder_are_not_followed(folder: Path, store_dir: Path, tmp_path: Path) -> None:
    capture(tmp_path / "outside.json")
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    watch = WatchedFolder(folder, store_dir, 0)
    assert turns(watch) == [] and not watch.pending()


def test_the_command_loads_what_is_there_and_ends(folder: Path, store_dir: Path) -> None:
    capture(folder / "a\x1b[31m.json")
    shutil.copytree(folder, folder / "job")
    (folder / "notes.bin").write_bytes(b"\0\1")
    command = [sys.executable, "-m", "npulens.app.cli", "watch", str(folder), "--store", str(store_dir)]
    command += ["--settle", "0.2"]
    done = subprocess.run([*command, "--once"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("loaded ") == 1 and done.stdout.count("already in the store") == 1
    assert done.stdout.count("not loaded") == 1 and "\x1b" not in done.stdout
    assert len(runs.runs(store_dir)) == 1
    told = subprocess.run(
        [*command, "--once", "--json"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout == ""


def test_the_command_goes_on_until_it_is_told_to_stop(folder: Path, store_dir: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "npulens.app.cli",
        "watch",
        str(folder),
        "--store",
        str(store_dir),
        "--settle",
        "0.2",
        "--json",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        time.sleep(1)
        capture(folder / "late.json")
        said = json.loads(running.stdout.readline())
        assert said["status"] == "new" and said["run_id"] == runs.runs(store_dir)[0].run_id
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
