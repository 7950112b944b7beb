"""The dashboard without a browser: its page in both languages, what it says, and how it writes numbers."""

from __future__ import annotations

import os
import string
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import hostile_capture
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.app.panels import cells
from npulens.app.text import i18n
from npulens.ingest.store import runs

DASHBOARD = Path(__file__).resolve().parent.parent / "app" / "dashboard.py"
LANGUAGES = ("en", "zh")


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one run, its label as hostile as its names."""
    place = tmp_path / "store"
    ingest.load(hostile_capture.write(tmp_path / "trace.json"), place, label=hostile_capture.MARKUP)
    monkeypatch.setenv("NPULENS_STORE", str(place))
    return place


def opened(lang: str, query: Mapping[str, str] | None = None) -> AppTest:
    page = AppTest.from_file(str(DASHBOARD), default_timeout=60)
    page.query_params["lang"] = lang
    for key, value in (query or {}).items():
        page.query_params[key] = value
    page.run()
    assert not page.exception, page.exception[0].value
    return page


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_empty_store_says_what_to_do(lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "nothing"))
    page = opened(lang)
    assert [code.value for code in page.code] == ["npulens load PATH", "npulens watch DIR", "npulens demo"]
    assert page.header[0].value == {"en": "This store is empty.", "zh": "当前存储为空。"}[lang]
    assert str(tmp_path / "nothing") in texts(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_run_is_said_in_a_sentence_with_what_it_lacks(lang: str, run_dir: Path) -> None:
    page = opened(lang)
    shown = texts(page)
    sentence = {
        "en": "This run holds 1 of the job's 4 ranks (rank 0), recorded as PyTorch (Kineto) trace",
        "zh": "本次采集包含任务 4 个 rank 中的 1 个（rank 0），采集格式为 PyTorch（Kineto）trace",
    }
    assert sentence[lang] in shown
    assert {"en": "Ranks 1–3 were not captured", "zh": "rank 1–3 未采集"}[lang] in shown
    assert {"en": "1 of 4 ranks · 2 steps", "zh": "4 卡中的 1 卡 · 2 步"}[lang] in shown
    for panel in ("time", "recorded"):
        assert len(opened(lang, {"panel": panel}).get("plotly_chart")) == 1, panel


@pytest.mark.parametrize("lang", LANGUAGES)
def test_names_from_a_capture_never_reach_markdown(lang: str, run_dir: Path) -> None:
    page = opened(lang)
    assert hostile_capture.MARKUP in texts(page), "the label should be on the screen, as text"
    for kind in ("markdown", "caption", "subheader", "title", "header", "info", "error", "warning", "success"):
        for element in page.get(kind):
            assert "pwned" not in str(getattr(element, "value", "")), f"{kind} shows a name from the capture"


def test_the_language_switch_changes_the_page_and_the_link(run_dir: Path) -> None:
    page = opened("en")
    page.segmented_control(key="language").set_value("zh").run()
    assert page.query_params["lang"] == "zh"
    assert "单步耗时" in "".join(one.proto.body for one in page.get("html"))


def test_a_link_to_a_run_this_store_does_not_hold_says_so(run_dir: Path) -> None:
    page = opened("en", {"run": "0123456789abcdef"})
    assert "this store does not hold: 0123456789abcdef" in texts(page)


def test_a_link_chooses_its_run(run_dir: Path, tmp_path: Path) -> None:
    first = runs.runs(run_dir)[0].run_id
    other = hostile_capture.write(tmp_path / "other.json")
    other.write_text(other.read_text("utf-8").replace('"world_size": 4', '"world_size": 2'), "utf-8")
    ingest.load(other, run_dir, label="the other")
    assert "the job's 4 ranks" in texts(opened("en", {"run": first}))


def test_idle_time_of_a_cut_capture_is_not_taken_for_idleness(run_dir: Path, tmp_path: Path) -> None:
    whole = hostile_capture.write(tmp_path / "cut.json")
    whole.write_text(whole.read_text("utf-8")[:-300], "utf-8")
    run = ingest.load(whole, run_dir).runs[0]
    assert run.status == "partial"
    shown = texts(opened("en", {"run": str(run.run_id), "panel": "time"}))
    assert f"The capture is partial: {run.reason}" in shown
    assert "time shown as idle may be work that is missing" in shown


def test_cells_cannot_become_formulas() -> None:
    hostile = pd.DataFrame({"name": ["=1+1", "+1", "-1", "@x", "\tx", "plain", "a=b", None], "ns": range(8)})
    safe = cells.safe(hostile)
    assert safe["name"].tolist()[:4] == ["'=1+1", "'+1", "'-1", "'@x"]
    assert safe["name"].tolist()[5:7] == ["plain", "a=b"] and safe["name"].isna().tolist()[7]
    assert safe["ns"].tolist() == list(range(8)), "numbers stay numbers"


def test_every_text_is_there_in_both_languages_with_the_same_blanks() -> None:
    for key, (english, chinese) in i18n.texts().items():
        blanks = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (english, chinese)]
        assert english.strip() == english or key.endswith(("and", "comma", "mean")), key
        assert bool(english) == bool(chinese), key
        assert blanks[0] == blanks[1] or key.endswith(".one"), key


@pytest.mark.parametrize(
    ("ns", "text"),
    [(None, "–"), (0, "0 ns"), (999, "999 ns"), (1_500, "1.500 µs"), (346_701_234, "346.7 ms"),
     (98_071_947, "98.07 ms"), (999_996_000, "1.000 s"), (12_346_701_234, "12.35 s"), (125 * 10**9, "2 min 5 s")],
)  # fmt: skip
def test_lengths_of_time_read_well(ns: int | None, text: str) -> None:
    assert i18n.duration(ns) == text


def test_an_exact_length_keeps_every_nanosecond() -> None:
    assert i18n.exact(9_007_199_254_740_993) == "9,007,199,254,740,993 ns"
    assert i18n.exact(-1) == "−1 ns"


def test_rank_lists_join_their_runs() -> None:
    assert i18n.ranges([7, 0, 2, 3, 4]) == "0, 2–4, 7"
    assert i18n.ranges([7, 0, 2, 3, 4], most=3) == "0, 2–4, 7"
    assert i18n.ranges([7, 0, 2, 3, 4], most=2) == "0, …"


def test_a_checkout_that_is_not_installed_says_how(tmp_path: Path) -> None:
    """The finder that pip installs is what knows the name npulens."""
    main = str(DASHBOARD.with_name("main.py"))
    program = (
        "import runpy, sys\n"
        "sys.meta_path[:] = [each for each in sys.meta_path if 'editable' not in repr(each).lower()]\n"
        f"runpy.run_path({main!r})\n"
    )
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=bare, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install -e ." in done.stderr, done.stderr
