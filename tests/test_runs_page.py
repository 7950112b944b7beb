"""Managing runs: what is said about them is kept and stays text, search finds, deleting can be taken back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import hostile_capture
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.app import searching
from npulens.app.text import i18n
from npulens.ingest import IngestError
from npulens.ingest.store import notes
from npulens.ingest.store import runs as store
from npulens.ingest.store.notes import About
from npulens.ingest.store.runs import RunInfo

LANGUAGES = ("en", "zh")
HOSTILE = (
    hostile_capture.MARKUP, '=HYPERLINK("http://evil.invalid")', "+1", "-2+3", "@SUM(A1)",
    "**bold** [x](javascript:1)", ":material/delete: :red[x]", "$\\frac{1}{2}$", "\u202egnp.exe\u2066",
    "a\x00b\x1b[31mred", "{{7*7}} {0} {n}", "%s%n", "'; DROP TABLE label; --", "\ud800 lone", "x" * 10_000, "مرحبا",
    "👩‍👩‍👧", "tab\tnew\nline",
)  # fmt: skip


def manage() -> None:
    from npulens.app import context
    from npulens.app.pages.runs import page as runs

    runs.render(context.current())


def edit() -> None:
    from npulens.app import context
    from npulens.app.pages.runs import edit as run_edit
    from npulens.app.pages.runs import trash

    ctx = context.current()
    trash.undo(ctx)
    run_edit.show(ctx, ctx.runs[:1])
    trash.show(ctx)


def opened(script: object, lang: str = "en") -> AppTest:
    page = AppTest.from_function(script, default_timeout=60)
    page.query_params["lang"] = lang
    page.run()
    assert not page.exception, page.exception[0].value
    return page


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: 'one' of a job of four ranks, 'two' of a job of two, loaded later; the trace of the latter beside."""
    folder = tmp_path_factory.mktemp("loaded")
    trace = hostile_capture.write(folder / "trace.json")
    ingest.load(trace, folder / "store", label="one")
    trace.write_text(trace.read_text("utf-8").replace('"world_size": 4', '"world_size": 2'), "utf-8")
    ingest.load(trace, folder / "store", label="two")
    return folder


@pytest.fixture
def place(loaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of this test's own with the two runs."""
    shutil.copytree(loaded, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def called(place: Path, label: str) -> RunInfo:
    return store.resolve(place, label)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_lists_runs_with_what_is_said_about_them(lang: str, place: Path) -> None:
    notes.set_tags(place, called(place, "one").run_id, ["night", "910B"])
    notes.set_note(place, called(place, "one").run_id, "first line\nsecond")
    page = opened(manage, lang)
    table = page.dataframe[0].value
    assert table["label"].tolist() == ["two", "one"]
    assert table["tags"].tolist() == ["", "910B, night"]
    assert table["note"].tolist() == ["", "first line second"]
    assert table["world"].tolist() == ["2", "4"]
    assert i18n.say(lang, "manage.count_all", {"n": 2}) in texts(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_where_a_run_comes_from_is_said_or_not_known(lang: str, place: Path) -> None:
    def origins() -> dict[str, str] | None:
        (shown,) = (frame.value for frame in opened(manage, lang).dataframe if "label" in frame.value)
        return dict(zip(shown["label"], shown["origin"], strict=True)) if "origin" in shown else None

    assert origins() is None  # nothing says it of any
    folder = place.parent / "capture"
    folder.mkdir()
    trace = hostile_capture.write(folder / "trace.json")
    trace.write_text(trace.read_text("utf-8").replace('"world_size": 4', '"world_size": 3'), "utf-8")
    (folder / "manifest.json").write_text(json.dumps({"what": "a job", "evidence": "npu"}), "utf-8")
    ingest.load(folder, place, label="three")
    found = origins() or {}
    words = {"en": ("recorded on an NPU", "not known"), "zh": ("在 NPU 上采集", "未知")}[lang]
    assert sorted(found.values()) == sorted([words[0], words[1], words[1]])


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_empty_store_says_how_to_fill_it(lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "nothing"))
    page = opened(manage, lang)
    assert {"npulens load PATH", "npulens watch DIR", "npulens demo"} <= {code.value for code in page.code}


@pytest.mark.parametrize(
    ("query", "labels"),
    [("", ["two", "one"]), ("NIGHT", ["one"]), ("tag:night", ["one"]), ("note:night", []), ("slow gc", ["two"]),
     ("ranks:1", ["two", "one"]), ("ranks:4", []), ("format:kineto", ["two", "one"]), ("label:tw", ["two"]),
     ("status:partial", []), ("tag：night one", ["one"]), ("nothing:like:that", []), ("label:", ["two", "one"])],
)  # fmt: skip
def test_search_asks_every_field(query: str, labels: list[str], place: Path) -> None:
    runs = tuple(store.runs(place))
    said = {
        called(place, "one").run_id: About("", ("night",)), called(place, "two").run_id: About("GC is slow here", ()),
    }  # fmt: skip
    found = searching.found(runs, said, query, lambda run: (run.label or "", "PyTorch (Kineto) trace"))
    assert [run.label for run in found] == labels


def test_search_finds_by_the_beginning_of_the_id_only(place: Path) -> None:
    runs = tuple(store.runs(place))
    assert searching.found(runs, {}, runs[0].run_id[:9], lambda run: ("", "")) == runs[:1]
    assert searching.found(runs, {}, runs[0].run_id[5:], lambda run: ("", "")) == ()


def test_the_search_field_narrows_the_table(place: Path) -> None:
    page = opened(manage)
    page.text_input(key="run_search").set_value("label:one").run()
    assert page.dataframe[0].value["label"].tolist() == ["one"] and "1 of 2 runs" in texts(page)
    page.text_input(key="run_search").set_value("nobody").run()
    assert not page.dataframe and "No run fits this search." in texts(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_form_keeps_name_tags_and_note(lang: str, place: Path) -> None:
    run = called(place, "two")
    page = opened(edit, lang)
    page.text_input[0].set_value("the fix")
    page.text_area[0].set_value("batch 64\nnew driver")
    page.multiselect[0].set_value([])
    next(button for button in page.button if button.label == i18n.say(lang, "manage.save")).click().run()
    assert not page.exception
    assert called(place, "the fix").run_id == run.run_id
    assert notes.about(place)[run.run_id] == About("batch 64\nnew driver", ())


def test_a_name_of_another_run_is_refused_not_taken(place: Path) -> None:
    run = called(place, "two")
    page = opened(edit)
    page.text_input[0].set_value("one")
    page.text_area[0].set_value("kept all the same")
    next(button for button in page.button if button.label == "Save").click().run()
    assert "Another run has this name" in page.error[0].value
    assert called(place, "two").run_id == run.run_id and called(place, "one").run_id != run.run_id
    assert notes.about(place)[run.run_id].note == "kept all the same"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_deleting_is_undone_right_there(lang: str, place: Path) -> None:
    run = called(place, "two")
    page = opened(edit, lang)
    page.button(key="delete_runs").click().run()
    assert [held.label for held in store.runs(place)] == ["one"]
    assert i18n.say(lang, "manage.deleted", {"names": "two"}) in texts(page)
    page.button(key="undo_delete").click().run()
    assert {held.run_id for held in store.runs(place)} >= {run.run_id} and called(place, "two").run_id == run.run_id
    assert not [button for button in page.button if button.key == "undo_delete"]


def test_a_deleted_run_is_listed_until_it_is_had_back(place: Path) -> None:
    run = called(place, "one")
    store.remove(place, run.run_id)
    page = opened(manage)
    assert "one" in texts(page)
    page.button(key=f"restore_{run.run_id}").click().run()
    assert called(place, "one").run_id == run.run_id and store.deleted(place) == []


def test_a_day_later_the_next_load_collects_it_with_what_was_said(place: Path, tmp_path: Path) -> None:
    run = called(place, "one")
    notes.set_note(place, run.run_id, "remember")
    store.remove(place, run.run_id)
    gone = place / ".trash" / run.run_id
    os.utime(gone, (time.time() - store.UNDO_S - 1,) * 2)
    assert store.collect(place) == 1
    assert store.deleted(place) == [] and run.run_id not in notes.about(place) | notes.labels(place)
    with pytest.raises(IngestError, match="no deleted run"):
        store.restore(place, run.run_id)


def test_restoring_what_was_loaded_again_keeps_one(place: Path, tmp_path: Path) -> None:
    run = called(place, "two")
    store.remove(place, run.run_id)
    ingest.load(tmp_path / "trace.json", place)
    assert store.restore(place, "two") == run.run_id
    assert len(store.runs(place)) == 2 and store.deleted(place) == []


def test_deleting_twice_says_so(place: Path) -> None:
    run = called(place, "two")
    store.remove(place, run.run_id)
    with pytest.raises(IngestError, match="not in the store any more"):
        store.remove(place, run.run_id)
    assert [each.run.run_id for each in store.deleted(place)] == [run.run_id]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_words_are_kept_as_text(text: str, place: Path) -> None:
    run = called(place, "two")
    notes.rename(place, run.run_id, text[: notes.MOST_LABEL])
    notes.set_note(place, run.run_id, text)
    notes.set_tags(place, run.run_id, [text[: notes.MOST_TAG]])
    about = notes.about(place)[run.run_id]
    for kept in (about.note, *about.tags, store.runs(place)[0].label or ""):
        assert not set("\u202e\u2066\x00\x1b\ud800") & set(kept)
    for script in (manage, edit):
        page = opened(script)
        for kind in ("markdown", "caption", "subheader", "title", "header", "info", "error", "warning", "success"):
            for element in page.get(kind):
                assert text[:40] not in str(getattr(element, "value", "")), kind
        for table in page.dataframe:
            cells = [cell for name in table.value for cell in table.value[name] if isinstance(cell, str)]
            assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_texts_have_an_end(place: Path) -> None:
    run = called(place, "two").run_id
    for kind, write in (
        ("label_long", lambda: notes.rename(place, run, "x" * 201)),
        ("note_long", lambda: notes.set_note(place, run, "x" * 10_001)),
        ("tag_long", lambda: notes.set_tags(place, run, ["x" * 41])),
        ("tag_long", lambda: notes.set_tags(place, run, map(str, range(21)))),
    ):
        with pytest.raises(IngestError) as refused:
            write()
        assert refused.value.kind == kind and i18n.known(f"manage.problem_{kind}")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_link_for_a_colleague_and_its_curl_command(lang: str, place: Path) -> None:
    from npulens.app.intake import invitations

    page = opened(manage, lang)
    page.number_input(key="invite_captures").set_value(2).run()
    page.button(key="invite_make").click().run()
    link, curl = (code.value for code in page.code)
    token = link.partition("?drop=")[2]
    given = invitations.ticket(place, token)
    assert given.captures == 2 and 23.9 < (given.until - time.time()) / 3600 < 24
    assert curl.startswith("curl -T CAPTURE -H ") and token in curl and curl.endswith("/api/upload/capture/")


def test_the_command_line_lists_what_is_said_and_searches(place: Path) -> None:
    notes.set_tags(place, called(place, "one").run_id, ["night"])
    notes.set_note(place, called(place, "one").run_id, "driver 25.2")
    store.remove(place, called(place, "two").run_id)
    command = [sys.executable, "-m", "npulens.app.cli", "runs", "--store", str(place)]
    root = Path(__file__).resolve().parent.parent

    def said(*words: str) -> list[tuple[str, str, list[str]]]:
        done = subprocess.run([*command, *words, "--json"], cwd=root, capture_output=True, text=True, check=True)
        return [(run["label"], run["note"], run["tags"]) for run in json.loads(done.stdout)["runs"]]

    assert said("tag:night", "driver") == [("one", "driver 25.2", ["night"])]
    assert said("nobody") == []
    assert said("--deleted") == [("two", "", [])]
