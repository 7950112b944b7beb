"""The tray: a row a file, with its state, its reason and a way to dismiss it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hostile_capture
import pytest

from npulens.app.context import Context
from npulens.app.intake import drop_folders, load_queue, tray
from npulens.app.intake.load_queue import Load, Outcome
from npulens.app.intake.visitor_drops import Ended, Visit, ended
from npulens.app.text import i18n

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


def brought(store: Path, files: dict[str, bytes]) -> Visit:
    """A visit that dropped these at once, when all of it has ended."""
    _, given = drop_folders.grant(store, len(files), sum(map(len, files.values())))
    for name, data in files.items():
        (given.folder / name).write_bytes(data)
    visit = Visit(loads=[load_queue.submit(Load(given, store, f"{next(iter(files))} +{len(files) - 1}"))])
    assert visit.loads[0].done.wait(120)
    visit.finish()
    return visit


def test_each_file_of_a_drop_has_its_row(tmp_path: Path) -> None:
    trace = hostile_capture.write(tmp_path / "t.json").read_bytes()
    visit = brought(tmp_path / "store", {"good.json": trace, "picture.png": PNG, "poem.txt": b"no capture at all"})
    ctx = Context("en", tmp_path / "store", (), None, None)
    rows = {row.state: [tray.lines(ctx, each)[0] for each in visit.ended if each.state == row.state]
            for row in visit.ended}  # fmt: skip
    assert rows["loaded"][0].startswith("Loaded good.json: ")
    assert sorted(text.split(":")[0] for text in rows["refused"]) == ["Not loaded, picture.png", "Not loaded, poem.txt"]
    assert len({row.ident for row in visit.ended}) == 3
    one = next(row for row in visit.ended if row.state == "refused")
    visit.dismiss(one.ident)
    assert one not in visit.ended and len(visit.ended) == 2
    visit.dismiss()
    assert visit.ended == []


def test_a_drop_that_two_scripts_see_arrive_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A visitor's old script and the new one overlap; each looks whether the drop is all there."""
    trace = hostile_capture.write(tmp_path / "t.json").read_bytes()
    visit = Visit()
    visit.ask(tmp_path / "store", {"id": "1", "name": "t.json", "files": 1, "bytes": len(trace)})
    assert visit.travelling is not None
    given = visit.travelling.grant
    given.reserve(len(trace))
    (given.folder / "t.json").write_bytes(trace)
    given.close()
    submit, submitted = load_queue.submit, []

    def slowly(load: Load) -> Load:
        submitted.append(load)
        time.sleep(0.2)
        return submit(load)

    monkeypatch.setattr(load_queue, "submit", slowly)
    with ThreadPoolExecutor() as scripts:
        seen = [each.result() for each in [scripts.submit(visit.arrived, tmp_path / "store") for _ in range(3)]]
    assert sorted(seen) == [False, False, True] and visit.loads == submitted and len(submitted) == 1
    assert submitted[0].done.wait(120)
    visit.finish()
    assert [row.state for row in visit.ended] == ["loaded"]


def test_stopping_says_so(tmp_path: Path) -> None:
    _, given = drop_folders.grant(tmp_path, 1, 1)
    load = Load(given, tmp_path, "long.json")
    visit = Visit(loads=[load])
    visit.stop(load)
    (row,) = visit.ended
    assert (row.state, visit.loads, visit.busy) == ("stopped", [], False)
    for lang, said in (("en", "Stopped loading long.json."), ("zh", "已停止加载 long.json")):
        assert tray.lines(Context(lang, tmp_path, (), None, None), row)[0].startswith(said)


def test_what_was_loaded_a_while_ago_leaves_when_the_next_comes_and_what_failed_stays(tmp_path: Path) -> None:
    ago = time.monotonic() - 61
    visit = Visit(ended=[Ended("0", "just now", "loaded", at=ago + 5), Ended("1", "a", "loaded", at=ago),
                         Ended("2", "b", "refused", at=ago), Ended("3", "c", "exists", at=ago)])  # fmt: skip
    _, given = drop_folders.grant(tmp_path, 1, 1)
    load = Load(given, tmp_path, "d")
    load._ended = Outcome((), "the disk is full")
    load.done.set()
    visit.loads = [load]
    visit.finish()
    assert [(row.name, row.state) for row in visit.ended] == [("d", "failed"), ("just now", "loaded"), ("b", "refused")]


@pytest.mark.parametrize("state", ["waiting", "loading", "loaded", "exists", "refused", "failed", "stopped"])
def test_every_state_has_a_word_and_a_sign(state: str) -> None:
    assert i18n.known(f"upload.state_{state}") and state in tray._ICON


def test_a_load_that_failed_says_it_before_its_captures(tmp_path: Path) -> None:
    _, given = drop_folders.grant(tmp_path, 1, 1)
    rows = ended(Load(given, tmp_path, "x"), Outcome(({"run_id": None}, {"run_id": "r", "stored": "exists"}), "full"))
    assert [row.state for row in rows] == ["failed", "refused", "exists"]
