"""The History page and `npulens history`: both languages, empty, hostile and damaged stores, notes and nights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import hostile_capture
import numpy as np
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from npulens.analysis.regression.covariates import Suspect
from npulens.app.cli import main
from npulens.app.histories import confirming, judged
from npulens.ingest.messages import Message
from npulens.ingest.store import history
from npulens.ingest.store.history import Identity, Point

DAY, FIRST = 86_400 * 10**9, 1_767_225_600 * 10**9  # 1 January 2026
WHO = Identity("=1+1" + hostile_capture.MARKUP, "8 ranks", "", "8 x Ascend910B3", "Kunpeng")


def page_of() -> None:
    from npulens.app import context
    from npulens.app.pages.history import page as history

    history.render(context.current())


def opened(store: Path, monkeypatch: pytest.MonkeyPatch, query: Mapping[str, str]) -> AppTest:
    monkeypatch.setenv("NPULENS_STORE", str(store))
    page = AppTest.from_function(page_of, default_timeout=120)
    for key, value in query.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception, page.exception[0].value
    return page


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Forty nights of 20 ms, 8 % slower from 21 January on with another CANN; the night of the 11th is cut off."""
    noise = np.random.default_rng(3).normal(0, 0.004, 40)
    for metric, size in (("step_ns", 20e6), ("idle_ns", 1e6)):
        slow = 1.08 if metric == "step_ns" else 1.0
        points = [
            Point("", metric, "ns", "lower", size * float(np.exp(noise[night])) * (slow if night >= 20 else 1),
                  FIRST + night * DAY, None, f"run{night}", night != 10,
                  {"cann": "8.0" if night < 20 else "8.1", "commit": f"{night:07x}", "host": "<b>a"},
                  None if night != 10 else "cut off")
            for night in range(34)
        ]  # fmt: skip
        history.add(tmp_path / "store", WHO, points)
    return tmp_path / "store"


def test_a_change_is_told_dated_and_explained(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(store, monkeypatch, {"lang": "en"})
    said = texts(page)
    assert "Step regressed on 2026-01-21: +8." in said and "It is 21." in said
    assert "The night is sure" in said
    suspects = next(frame.value for frame in page.dataframe if "switches" in frame.value)
    assert suspects["name"].tolist() == ["cann", "commit"] and suspects["after"].tolist()[0] == "8.1"
    assert (page.query_params["identity"], page.query_params["metric"]) == (WHO.key, "step_ns")
    nights = next(frame.value for frame in page.dataframe if "unusable" in frame.value)
    assert nights["unusable"].dropna().tolist() == ["cut off"] and len(nights) == 34


def test_it_speaks_chinese_and_keeps_to_the_link(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(store, monkeypatch, {"lang": "zh", "identity": WHO.key, "metric": "idle_ns"})
    assert "空闲没有变化" in texts(page) and "未发现变化" in texts(page)
    lost = opened(store, monkeypatch, {"lang": "zh", "identity": "nobody"})
    assert "nobody" in texts(lost) and "变差" in texts(lost)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_empty_store_says_what_fills_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str) -> None:
    page = opened(tmp_path / "none", monkeypatch, {"lang": lang})
    assert [code.value for code in page.code] == ["npulens load PATH", "npulens watch DIR"]


def test_notes_and_nights_change_what_is_said(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(store, monkeypatch, {"lang": "en"})
    page.text_input[0].input("driver 24.1")
    next(button for button in page.button if button.label == "Save").click().run()
    assert [note.text for note in history.annotated(store, WHO.key)] == ["driver 24.1"]
    next(box for box in page.selectbox if box.label == "Night" and len(box.options) == 34 and "take" in box.key).select(
        "run5"
    ).run()
    page.text_input[-1].input("fan").run()
    next(button for button in page.button if button.label == "Take out").click().run()
    assert not page.exception
    lost = [point for point in history.series(store, WHO.key, "idle_ns") if not point.usable]
    assert [(point.run_id, point.reason) for point in lost] == [("run5", "fan"), ("run10", "cut off")]


def test_why_a_night_says_nothing_is_said_in_chinese(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = history.series(store, WHO.key, "step_ns")[10]
    history.add(store, WHO, [replace(lost, reason=Message("it_holds_no_events"))])
    page = opened(store, monkeypatch, {"lang": "zh"})
    shown = next(frame.value for frame in page.dataframe if "unusable" in frame.value)
    assert "没有任何事件" in shown["unusable"].tolist()
    (drawn,) = page.get("plotly_chart")
    assert "没有任何事件" in json.dumps(json.loads(drawn.proto.spec), ensure_ascii=False)
    said = CliRunner().invoke(main, ["history", WHO.key[:6], "step_ns", "--store", str(store), "--lang", "zh"]).output
    assert "没有任何事件" in said


def test_a_damaged_history_is_a_sentence(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store / history.NAME).write_bytes(b"no database at all " * 500)
    found = CliRunner().invoke(main, ["history", "--store", str(store)])
    assert found.exit_code == 2 and "move it away" in found.output and "Traceback" not in found.output


def test_the_command_lists_and_answers_scripts(store: Path) -> None:
    listed = CliRunner().invoke(main, ["history", "--store", str(store)]).output
    assert "regressed" in listed and "+8." in listed and "\x1b" not in listed
    key = WHO.key[:6]
    asked = ["history", key, "step_ns", "--store", str(store), "--json"]
    (found,) = json.loads(CliRunner().invoke(main, asked).output)["series"]
    assert (found["verdict"], found["stands"], found["usable"], len(found["series"])) == ("regressed", True, 33, 34)
    (change,) = found["changes"]
    assert (change["night"], change["said"]) == (None, "regressed") and change["at_ns"] == FIRST + 20 * DAY
    assert change["compare"] == {"base": "run19", "head": "run20"} and change["suspects"][0]["name"] == "cann"
    unknown = CliRunner().invoke(main, ["history", "zz", "--store", str(store)])
    assert unknown.exit_code == 2 and "0 identities" in unknown.output
    none = CliRunner().invoke(main, ["history", "--store", str(store / "other")])
    assert none.exit_code == 0 and "npulens load" in none.output


def test_a_confirming_command_measures_before_against_after(store: Path) -> None:
    (step,) = [each for each in judged(store) if each.metric == "step_ns"]
    cann, commit = step.suspects(0)
    assert confirming([commit], "w") == "npulens nightly CONFIG --only w --base commit=0000013 --head commit=0000014"
    assert "--base python=PYTHON_WITH_8.0 --head python=PYTHON_WITH_8.1" in confirming([cann, commit], "w")
    queue = Suspect("env TASK_QUEUE_ENABLE", "1", "2", 1.0, 1)
    assert confirming([queue], "a b").endswith("--only 'a b' --base TASK_QUEUE_ENABLE=1 --head TASK_QUEUE_ENABLE=2")
    assert confirming([Suspect("driver", "24", "25", 1.0, 1)], "w") == ""  # no command sets a driver
