"""The history: what is kept comes back, in order, from several processes, and a damaged file is a sentence."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, render
from npulens.ingest.store import history, proof
from npulens.ingest.store.history import Identity, Point

ROOT = Path(__file__).resolve().parent.parent
DAY = 86_400 * 10**9
WHO = Identity("resnet50", "fp16", "b32", "Ascend910B", "aarch64")


def point(night: int, value: float = 1.0, usable: bool = True) -> Point:
    said = {"cann": "8.0" if night < 3 else "8.1"}
    return Point("", "step_ns", "ns", "lower", value, night * DAY, f"n{night}", f"run{night}", usable, said)


def test_what_is_added_comes_back_oldest_first(tmp_path: Path) -> None:
    assert history.identities(tmp_path) == [] and history.series(tmp_path, WHO.key, "step_ns") == []
    assert history.add(tmp_path, WHO, [point(4, 4.0), point(1, 1.5, usable=False), point(2)]) == 3
    found = history.series(tmp_path, WHO.key, "step_ns")
    assert [(each.night, each.value, each.usable) for each in found] == [
        ("n1", 1.5, False), ("n2", 1.0, True), ("n4", 4.0, True),
    ]  # fmt: skip
    assert found[2] == replace(point(4, 4.0), identity=WHO.key)
    assert history.identities(tmp_path) == [WHO] and history.metrics(tmp_path, WHO.key) == ["step_ns"]


def test_a_source_measured_again_replaces_what_it_said(tmp_path: Path) -> None:
    history.add(tmp_path, WHO, [point(1, 1.0)])
    history.add(tmp_path, WHO, [replace(point(1, 2.0), at_ns=5)])
    assert [(each.value, each.at_ns) for each in history.series(tmp_path, WHO.key, "step_ns")] == [(2.0, 5)]


def test_equal_sides_are_no_metric_of_their_own(tmp_path: Path) -> None:
    same = replace(point(1, -0.01), metric="step_ns" + history.AA, unit="log ratio")
    history.add(tmp_path, WHO, [point(1), same, replace(same, value=9.0, run_id="bad", usable=False)])
    assert history.metrics(tmp_path, WHO.key) == ["step_ns"]
    assert history.equal_sides(tmp_path, WHO.key, "step_ns") == [-0.01]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True])
def test_what_is_no_measurement_is_refused_and_nothing_is_kept(tmp_path: Path, value: float) -> None:
    with pytest.raises(IngestError, match="not a measurement"):
        history.add(tmp_path, WHO, [point(1), point(2, value)])
    assert history.identities(tmp_path) == []


def test_names_of_anybody_are_cut_to_one_line(tmp_path: Path) -> None:
    wild = Identity("a\nb\x1b[31m" + "x" * 5_000 + " y", hardware="\u202eevil")
    history.add(tmp_path, wild, [point(1)])
    (found,) = history.identities(tmp_path)
    assert found.workload.startswith("a b[31m") and len(found.workload) <= history.MOST_TEXT
    assert found.hardware == "evil"
    assert found.key == wild.key and len(history.series(tmp_path, found.key, "step_ns")) == 1


def test_annotations_are_added_edited_and_removed(tmp_path: Path) -> None:
    history.annotate(tmp_path, "k", "step_ns", 2, "driver 24.1")
    history.annotate(tmp_path, "k", None, 1, "new rack\nhere")
    first, second = history.annotated(tmp_path, "k")
    assert (first.text, first.metric, second.text) == ("new rack here", None, "driver 24.1")
    history.annotate(tmp_path, "k", "step_ns", 2, "driver 24.2", second.id)
    assert [each.text for each in history.annotated(tmp_path, "k")] == ["new rack here", "driver 24.2"]
    history.annotate(tmp_path, "k", "step_ns", 2, "", second.id)
    assert history.annotated(tmp_path, "k") == [first]


def test_a_person_takes_a_point_out_and_puts_it_back(tmp_path: Path) -> None:
    history.add(tmp_path, WHO, [point(1), point(2)])
    history.set_usable(tmp_path, WHO.key, "run1", False, "fan broken")
    assert [(each.usable, each.reason) for each in history.series(tmp_path, WHO.key, "step_ns")] == [
        (False, "fan broken"), (True, None),
    ]  # fmt: skip
    history.set_usable(tmp_path, WHO.key, "run1", True)
    assert all(each.usable for each in history.series(tmp_path, WHO.key, "step_ns"))


def test_processes_write_at_the_same_time(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from npulens.ingest.store import history\n"
        "from npulens.ingest.store.history import Identity, Point\n"
        "for n in range(20):\n"
        "    history.add(Path(sys.argv[1]), Identity('w'), [Point('', 'm', 'ns', 'lower', 1.0, n, None,"
        " f'{sys.argv[2]}.{n}')])\n"
    )
    several = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(i)], cwd=ROOT) for i in range(4)
    ]
    assert [each.wait(60) for each in several] == [0] * 4
    assert len(history.series(tmp_path, Identity("w").key, "m")) == 80


def test_a_damaged_file_is_a_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    history.add(tmp_path, WHO, [point(n) for n in range(50)])
    (tmp_path / history.NAME).write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    with pytest.raises(IngestError, match="move it away") as caught:
        history.identities(tmp_path)
    assert caught.value.kind == "history" and caught.value.path == str(tmp_path / history.NAME)
    with pytest.raises(IngestError, match="move it away"):
        history.add(tmp_path, WHO, [point(1)])


def test_a_reason_that_was_a_message_is_one_again(tmp_path: Path) -> None:
    lost = Message("file_cannot_be_read", {"file": "x" * 300, "error": "gone"})
    for source, reason in ((1, Message("it_holds_no_events")), (2, "fan broken"), (3, lost), (4, None)):
        history.add(tmp_path, WHO, [replace(point(source), usable=False, reason=reason)])
    assert [render(each.reason, "zh") for each in history.series(tmp_path, WHO.key, "step_ns")] == [
        "没有任何事件", "fan broken", render(lost, "zh"), ""
    ]  # fmt: skip


def test_a_file_of_an_earlier_release_has_texts_and_takes_messages(tmp_path: Path) -> None:
    history.add(tmp_path, WHO, [replace(point(1), usable=False, reason="cut off")])
    path = tmp_path / history.NAME

    def older() -> None:
        with sqlite3.connect(path) as con:
            proof.ready(con)
            con.execute("DROP TABLE reason")
            proof.keep(con)
            con.execute(f"PRAGMA user_version = {history.VERSION - 1}")
        con.close()

    older()
    assert [each.reason for each in history.series(tmp_path, WHO.key, "step_ns")] == ["cut off"]
    history.add(tmp_path, WHO, [replace(point(2), usable=False, reason=Message("it_holds_no_events"))])
    assert [render(each.reason, "zh") for each in history.series(tmp_path, WHO.key, "step_ns")] == [
        "cut off", "没有任何事件"
    ]  # fmt: skip
    older()
    with sqlite3.connect(path) as con:
        con.execute("UPDATE proof SET sum = sum + 1 WHERE name = 'point'")
    con.close()
    with pytest.raises(IngestError) as caught:  # new sums would take what is damaged for what was written
        history.add(tmp_path, WHO, [point(3)])
    assert caught.value.kind == "damaged_database"
    with sqlite3.connect(path) as con:
        assert con.execute("PRAGMA user_version").fetchone() == (history.VERSION - 1,)
    con.close()


def test_a_file_of_a_newer_program_is_left_alone(tmp_path: Path) -> None:
    history.add(tmp_path, WHO, [point(1)])
    with sqlite3.connect(tmp_path / history.NAME) as con:
        con.execute(f"PRAGMA user_version = {history.VERSION + 1}")
    con.close()
    with pytest.raises(IngestError, match="update npulens") as caught:
        history.add(tmp_path, WHO, [point(2)])
    assert caught.value.kind == "newer_database"
