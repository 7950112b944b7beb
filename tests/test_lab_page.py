"""A result of the laboratory: into the store however hostile it is, onto the page in both languages, as two graphs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hostile_capture
import lab_result
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.look import laboratory as look
from npulens.app.pages.laboratory import charts as chart
from npulens.app.pages.laboratory import page as laboratory
from npulens.app.pages.laboratory import sentences
from npulens.app.text import i18n
from npulens.ingest.store import runs

DASHBOARD = Path(__file__).resolve().parents[1] / "app" / "dashboard.py"
SCRIPT = """
from npulens.app import context
from npulens.app.pages.{page} import page
page.render(context.current())
"""


def page(name: str, lang: str, run: str = "", **query: str) -> AppTest:
    shown = AppTest.from_string(SCRIPT.format(page=name), default_timeout=60)
    for key, value in {"lang": lang, "run": run, **query}.items():
        if value:
            shown.query_params[key] = value
    shown.run()
    assert not shown.exception, shown.exception[0].value
    return shown


def texts(shown: AppTest) -> str:
    return "\n".join(element.value for element in shown.text)


def loaded(path: Path, store: Path) -> ingest.LoadedRun:
    (run,) = ingest.load(path, store).runs
    return run


def result(path: Path, store: Path) -> look.Result:
    run = loaded(path, store)
    with runs.open_run(store, str(run.run_id)) as con:
        found = look.laboratory(con)
    assert found is not None
    return found


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))
    return path


# ---- Into the store


def test_a_result_is_a_run_of_its_own_kind_and_says_what_it_said(tmp_path: Path) -> None:
    path = lab_result.write(tmp_path / "made")
    run = loaded(path, tmp_path / "store")
    assert (run.formats, run.status, run.ranks, run.reason) == (("lab",), "complete", (0,), None)
    assert loaded(tmp_path / "made", tmp_path / "store").run_id == run.run_id  # the directory is the same
    found = result(path, tmp_path / "store")
    told = {each["rewrite"]: each for each in found.trials}
    for said in lab_result.trials():
        mine = told[said["rewrite"]]
        assert (mine["verdict"], mine["peak_bytes"]) == (said["verdict"], said["peak_bytes"])
        assert (mine["speed"] or {}).get("ratio") == (said["speed"] or {}).get("ratio")
        assert (mine["errors"] or {}).get("of_rewrite") == (said["errors"] or {}).get("of_rewrite")
    assert found.about["module"] == "Net" and found.versions == {"torch": "2.13.0"}
    assert set(found.drawings) == {"fold", "sdpa", "compile"}
    named = found.finding("sdpa")
    assert named is not None and named["saving_ns"] == 1_250_000 and found.finding("fold") is None


def test_a_result_may_have_any_name(tmp_path: Path) -> None:
    path = lab_result.write(tmp_path / "made")
    other = path.rename(tmp_path / "trials of tuesday.json")
    run = loaded(other, tmp_path / "store")
    assert run.formats == ("lab",) and run.run_id is not None


def test_a_trace_is_no_result(tmp_path: Path) -> None:
    run = loaded(Path(__file__).resolve().parents[1] / "sample_traces" / "kineto", tmp_path / "store")
    with runs.open_run(tmp_path / "store", str(run.run_id)) as con:
        assert look.laboratory(con) is None


def _trial(name: str, **more: Any) -> Callable[[dict[str, Any]], object]:
    return lambda said: next(each for each in said["trials"] if each["rewrite"] == name).update(more)


CONTRADICTIONS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "outside": (_trial("sdpa", speed={**lab_result.speed("faster", 0.5), "low": 0.6}), "outside its own interval"),
    "no times": (_trial("sdpa", speed=None), "not what its times say"),
    "other times": (_trial("sdpa", speed=lab_result.speed("slower", 1.5)), "not what its times say"),
    "no numerics": (_trial("sdpa", errors=None), "without right numerics"),
    "wrong": (_trial("sdpa", errors=lab_result.errors(0.5, ok=False)), "without right numerics"),
    "across": (_trial("sdpa", speed=lab_result.speed("faster", 0.99, 1.1)), "interval does not say"),
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_a_verdict_that_its_own_figures_contradict_is_refused(kind: str, tmp_path: Path) -> None:
    change, words = CONTRADICTIONS[kind]
    run = loaded(changed(lab_result.write(tmp_path / "made"), change), tmp_path / "store")
    assert run.run_id is None and run.error is not None
    assert run.error["kind"] == "contradiction" and words in run.error["message"]


DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "backend": lambda said: said.update(backend="npu-910B"),
    "status": lambda said: said.update(status="splendid"),
    "module": lambda said: said.update(module="x" * 100_000),
    "calls": lambda said: said.update(calls=-1),
    "trials": lambda said: said.update(trials=7),
    "training": lambda said: said.update(training="yes"),
    "findings": lambda said: said.update(findings=[{"rewrite": "sdpa"}]),
}


def test_a_head_of_odd_values_is_refused_in_one_sentence(tmp_path: Path) -> None:
    for kind, change in DAMAGED.items():
        changed(lab_result.write(tmp_path / "in" / kind), change)
    half = lab_result.write(tmp_path / "in" / "half")
    half.write_text(half.read_text()[:-200])
    deep = lab_result.write(tmp_path / "in" / "deep")
    deep.write_text('{"subject": "x", "module": ' + "[" * 100_000)
    with lab_result.write(tmp_path / "in" / "huge").open("r+b") as stream:
        stream.truncate(64 << 20)
    found = ingest.load(tmp_path / "in", tmp_path / "store").runs
    assert len(found) == len(DAMAGED) + 3 and all(run.run_id is None for run in found)
    for run in found:
        assert run.error is not None and "\n" not in run.error["message"]
        assert run.error["kind"] == ("too_large" if "huge" in run.error["path"] else "damaged")


ODD_TRIALS: list[Any] = [
    None, 3, "x", [], {}, {"rewrite": "a"}, {"rewrite": "b", "verdict": "splendid"},
    {"rewrite": "c" * 999, "verdict": "same"}, {"rewrite": "d", "verdict": "refused", "changed": 10**400},
    {"rewrite": "e", "verdict": "refused", "speed": {"said": "faster", "ratio": -1.0}},
    {"rewrite": "sdpa", "verdict": "refused"},  # a second one of that name
]  # fmt: skip


def test_a_trial_that_cannot_be_read_is_lost_alone_and_counted(tmp_path: Path) -> None:
    path = changed(lab_result.write(tmp_path / "made"), lambda said: said["trials"].extend(ODD_TRIALS))
    run = loaded(path, tmp_path / "store")
    assert run.status == "partial" and f"{len(ODD_TRIALS)} trials cannot be read" in str(run.reason)
    assert len(result(path, tmp_path / "store").trials) == len(lab_result.trials())


def test_an_error_that_is_no_number_is_kept_as_none(tmp_path: Path) -> None:
    """Python writes NaN and Infinity; a rewrite that gives them is refused and still has a row."""
    path = changed(
        lab_result.write(tmp_path / "made"), _trial("hasty", errors=lab_result.errors(float("nan"), ok=False))
    )
    assert "NaN" in path.read_text()
    found = result(path, tmp_path / "store")
    hasty = next(each for each in found.trials if each["rewrite"] == "hasty")
    assert hasty["errors"]["of_rewrite"] is None and hasty["verdict"] == "refused"
    assert sentences.row(found, hasty, "en")[4] == "– / 2.0e-06"


def test_drawings_may_be_missing_damaged_or_strange(tmp_path: Path) -> None:
    alone = lab_result.write(tmp_path / "alone")
    for drawn in (tmp_path / "alone" / "drawn").iterdir():
        drawn.unlink()
    assert loaded(alone, tmp_path / "store").status == "complete"
    bad = lab_result.write(tmp_path / "bad")
    for name, text in (("fold", "{"), ("sdpa", '{"rewrite": "sdpa", "changes": {"gone": 3}}'), ("other", "[]")):
        (tmp_path / "bad" / "drawn" / f"{name}.json").write_text(text)
    run = loaded(bad, tmp_path / "store")
    assert run.status == "partial" and "2 drawings" in str(run.reason)  # nobody asks for one of no trial
    assert set(result(bad, tmp_path / "store").drawings) == {"compile"}
    round_ = lab_result.write(tmp_path / "round")
    circle = changed(
        tmp_path / "round" / "drawn" / "original.json",
        lambda said: said["nodes"].append({"name": "scores", "op": "matmul", "inputs": ["mixed", "scores", "nobody"]}),
    )
    assert circle.exists()
    drawing = result(round_, tmp_path / "store").drawings["sdpa"]
    assert [len(place.modules) for place in look.places(drawing)] == [1]  # a circle is drawn, and ends


# ---- What was replaced


def test_places_that_look_alike_are_one_kind_with_what_stands_beside_them(tmp_path: Path) -> None:
    found = result(lab_result.write(tmp_path / "made", blocks=5), tmp_path / "store")
    first, *others = look.places(found.drawings["fold"])
    assert others == [] and len(first.modules) == 5
    assert first.modules[:2] == ("layer0.0", "layer0.1")
    before = {box.name: (box.state, box.row) for box in first.before.boxes}
    assert before == {"x": ("kept", 0), "conv2d_0": ("changed", 1), "batch_norm_0": ("gone", 2), "relu_0": ("kept", 3)}
    assert {box.name for box in first.after.boxes} == {"x", "conv2d_0", "relu_0"}
    assert set(first.after.lines) == {("x", "conv2d_0"), ("conv2d_0", "relu_0")}
    (attention,) = look.places(found.drawings["sdpa"])
    states = {box.name: box.state for box in attention.before.boxes}
    assert {name for name, state in states.items() if state == "gone"} == {"scores", "scaled", "weights", "mixed"}
    assert {name for name, state in states.items() if state == "kept"} == {"q", "k", "head"}
    assert [box.name for box in attention.after.boxes if box.state == "new"] == ["attended"]
    assert found.drawings["sdpa"].count == (24, 21)


def test_a_program_of_thousands_is_folded_by_module_and_its_places_stay_small(tmp_path: Path) -> None:
    found = result(lab_result.write(tmp_path / "made", blocks=900), tmp_path / "store")
    drawing = found.drawings["fold"]
    rows = look.parts(drawing)
    assert len(rows) <= look.MOST_MODULES
    assert sum(row.gone for row in rows) == sum(row.changed for row in rows) == 900
    assert sum(row.kept + row.gone + row.changed for row in rows) == 3 * 900 + 9
    (kind,) = look.places(drawing)
    assert len(kind.modules) == 900 and len(kind.before.boxes) == 4


def test_a_row_that_is_too_wide_becomes_several(tmp_path: Path) -> None:
    path = lab_result.write(tmp_path / "made")
    readers = [lab_result.node(f"reader_{place}", "add", "", "scores") for place in range(60)]
    changed(tmp_path / "made" / "drawn" / "original.json", lambda said: said["nodes"].extend(readers))
    (place,) = look.places(result(path, tmp_path / "store").drawings["sdpa"])
    assert len(place.before.boxes) == look.MOST_NODES and place.before.left_out > 0
    per_row = [sum(box.row == row for box in place.before.boxes) for row in {box.row for box in place.before.boxes}]
    assert max(per_row) <= look.MOST_BESIDE
    assert len({(box.row, box.column) for box in place.before.boxes}) == look.MOST_NODES  # no two in one place


# ---- On the page


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_answer_comes_first_with_its_error_and_every_rewrite_has_a_row(
    lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    loaded(lab_result.write(tmp_path / "made"), tmp_path / "store")
    shown = page("laboratory", lang)
    first = texts(shown).splitlines()[0]
    assert "sdpa" in first and "1.51" in first and "[0.648, 0.674]" in first and "1.4e-07" in first
    table = shown.dataframe[0].value
    assert list(table["c0"]) == [each["rewrite"] for each in lab_result.trials()]
    assert table["c3"][0] == "0.700 [0.630, 0.770]" and table["c3"][2] == i18n.say(lang, "laboratory.not_predicted")
    assert table["c2"][5] == sentences.ABSENT  # what is wrong has no time
    assert "attended = torch.nn" in [code.value for code in shown.code][0]
    assert [code.value for code in shown.code][-1] == (
        f"npulens lab /home/somebody/subject/{lab_result.SUBJECT} --record sdpa"
    )
    page("laboratory", lang, rewrite={"en": "fold", "zh": "hasty"}[lang])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_without_trials_the_three_commands_stand_there(
    lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    page("laboratory", lang)
    ingest.load(hostile_capture.write(tmp_path / "trace.json"), tmp_path / "store")
    shown = page("laboratory", lang)
    assert [code.value for code in shown.code] == list(laboratory._COMMANDS)
    assert i18n.say(lang, "laboratory.none") in texts(shown)


def test_what_could_not_be_tried_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    run = loaded(
        lab_result.write(tmp_path / "made", trials=[], status="failed", reason="it draws random numbers"),
        tmp_path / "store",
    )
    assert run.status == "partial"
    assert "it draws random numbers" in texts(page("laboratory", "en"))


def test_every_other_page_of_a_result_is_honest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    loaded(lab_result.write(tmp_path / "made"), tmp_path / "store")
    for name in ("timeline", "efficiency", "bench"):
        page(name, "en")
    whole = AppTest.from_file(str(DASHBOARD), default_timeout=60)
    whole.query_params["lang"] = "en"
    whole.run()
    assert not whole.exception and "sdpa is 1.51 times as fast" in texts(whole)


def test_recordings_of_both_lead_to_their_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    monkeypatch.setenv("NPULENS_STORE", str(store))
    run = loaded(lab_result.write(tmp_path / "made"), store)
    samples = Path(__file__).resolve().parents[1] / "sample_traces"
    for side, name in (("original", "kineto"), ("sdpa", "late_rank")):
        ingest.load(samples / name, store, label=look.recorded_as(f"/x/{lab_result.SUBJECT}", side))
    shown = page("laboratory", "en", str(run.run_id))
    assert [each.label for each in shown.toggle] == [i18n.say("en", "laboratory.timelines")]
    assert not any("--record" in code.value for code in shown.code)
    other = page("laboratory", "en", str(run.run_id), rewrite="fold")  # only one of its two is there
    assert not other.toggle and any("--record fold" in code.value for code in other.code)


def test_names_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are HTML, Markdown and a formula at once are shown as they are written."""
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    bad = hostile_capture.MARKUP[:150]
    path = lab_result.write(tmp_path / "made", module=bad, device=bad)

    def odd(said: dict[str, Any]) -> None:
        for each in said["trials"]:
            each["why"] = {"name": bad, "values": {bad: bad}}
            each["left"] = {bad: 2}
            each["dtype"] = bad
        said["trials"].append({"rewrite": bad, "verdict": "refused", "why": {"name": "wrong", "values": {}}})

    def nodes(said: dict[str, Any]) -> None:
        for each in said["nodes"]:
            each.update(op=bad, module=bad, value=bad)

    changed(path, odd)
    changed(tmp_path / "made" / "drawn" / "original.json", nodes)
    for lang in ("en", "zh"):
        page("laboratory", lang)
    found = result(path, tmp_path / "store")

    def say(key: str, values: Any) -> str:
        return i18n.say("en", key, values)

    (place,) = look.places(found.drawings["sdpa"])
    timed = [each for each in found.trials if each["speed"]]
    parts = look.parts(found.drawings["sdpa"])
    ink = "#000"
    for picture in (chart.ratios(timed, say, ink), chart.parts(parts, say, ink), chart.graph(place.before, ink)):
        told = picture.to_json()
        assert told is not None and "<script" not in told and "<img" not in told
