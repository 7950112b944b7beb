"""The findings on the first page, without a browser: every outcome, both languages, names as text, and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import judged
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.causes import CAUSES
from npulens.analysis.device.strip import Strip
from npulens.analysis.finding import Evidence
from npulens.app import context, run_check
from npulens.app.charts import evidence
from npulens.app.text import i18n
from npulens.ingest.store import runs as stores

DASHBOARD = Path(__file__).resolve().parent.parent / "app" / "dashboard.py"
MARKUP = '<script>window.pwned=1</script>**pwned** ![x](http://evil.invalid/x.png) :material/bug:'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run whose names are hostile, judged by the settings beside it."""
    ingest.load(judged.capture(tmp_path / "trace.json", MARKUP), tmp_path / "store", label="night")
    judged.folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    return tmp_path


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


def every_finding() -> None:
    """The page of all findings, as the dashboard draws it."""
    from npulens.app import context
    from npulens.app.pages.findings import page as findings

    findings.render(context.current())


def opened(lang: str, until: str, script: Callable[[], None] | None = None) -> AppTest:
    page = AppTest.from_function(script) if script else AppTest.from_file(str(DASHBOARD))
    page.default_timeout = 60
    page.query_params["lang"] = lang
    for _ in range(60):
        page.run()
        assert not page.exception, page.exception[0].value
        if until in texts(page):
            return page
        time.sleep(0.2)
    raise AssertionError(texts(page))


def test_the_answer_and_the_first_cards_on_the_first_page(place: Path) -> None:
    page = opened("en", "Fixing it gives back")
    shown = texts(page)
    saving = "at most 40.0 µs of the 100 µs step (40.0 %)."
    assert f"{MARKUP} runs 40.0 µs of each step. Fixing it gives back {saving}" in shown
    assert "1 · 40.0 µs · 40.0 % of the step" in shown
    assert f"What to do: Make {MARKUP} faster" in shown
    assert "Of 4 detectors, 1 found something, 1 looked and found nothing, 1 could not look, 1 failed." in shown
    assert "RuntimeError" not in shown


def test_every_card_and_every_other_outcome(place: Path) -> None:
    page = opened("en", "Fixing it gives back", every_finding)
    shown = texts(page)
    assert "RuntimeError: it broke" in shown and "nothing of the kind was seen" in shown
    assert "To record it: torch.profiler.profile(profile_memory=True)" in shown
    labels = [expander.label for expander in page.expander]
    assert labels == [
        "Evidence: 10 moments", "Could not be measured · 1", "Failed · 1", "Looked at and clean · 1",
        f"Not looked for · {len(CAUSES)}", "A better capture",
    ]  # fmt: skip
    code = next(element.value for element in page.code if "torch.profiler.profile(" in element.value)
    compile(code, "configuration", "exec")
    assert not page.dataframe or len(page.dataframe[0].value) != judged.STEPS, "evidence is drawn when it is opened"
    (run,) = stores.runs(place / "store")
    page.session_state[f"folded_1_en_{run.run_id}"] = True
    page.run()
    assert not page.exception
    table = page.dataframe[0].value
    assert len(table) == judged.STEPS and table.iloc[0, 2] == "0.040"


def test_a_limit_that_is_moved_judges_again(place: Path) -> None:
    page = opened("en", "Fixing it gives back", every_finding)
    assert "These are the limits in force." in [element.value for element in page.caption]
    share, most = page.slider
    assert (share.label, share.value, most.label) == ("min_share", 0.01, "most")
    assert page.selectbox[0].value == "longest", "what found something comes first"
    share.set_value(share.max).run()
    assert not page.exception
    assert "[limits.longest]\nmin_share = 0.05" in [element.value for element in page.code]


def test_a_run_held_open_is_judged_by_other_limits(place: Path) -> None:
    (run,) = stores.runs(place / "store")
    settings = run_check.settings(place / "npulens.toml")
    detector = next(one for one in run_check.ready(settings) if one.name == "longest")
    bench = run_check.hold(place / "store", run.run_id)
    (found,), outcome = bench.judge(detector, {}, settings)
    assert (outcome.outcome, found.saving_share) == ("found", 0.4)
    assert bench.judge(detector, {"min_share": 0.41}, settings)[1].outcome == "clean"
    assert bench.judge(detector, {"min_share": 0.4}, settings)[1].outcome == "found"
    bench.close()


def test_chinese(place: Path) -> None:
    shown = texts(opened("zh", "最多可省"))
    assert "1 · 40.0 µs · 占步长 40.0 %" in shown and "怎么做：让" in shown and "采集质量：" in shown


def test_names_never_reach_markup(place: Path) -> None:
    page = opened("en", "Fixing it gives back")
    for kind in ("markdown", "caption", "subheader", "title", "header", "info", "error", "warning", "success", "code"):
        for element in page.get(kind):
            assert "pwned" not in str(getattr(element, "value", "")), kind
    assert not any("pwned" in expander.label for expander in page.expander)


def test_the_drawing_of_the_evidence_is_to_scale_and_its_names_are_text() -> None:
    steps = ((1, 0, 2_000_000), (2, 2_000_000, 4_000_000))
    strip = Strip(3, 0, 4_000_000, (0.0, 1.0, 1.0, 0.5), (), (0.0, 0.0, 0.0, 0.0), steps)
    moments = [Evidence(3, 1_000_000, 500_000, 7, "<b>kernel</b>"), Evidence(4, 0, 1), Evidence(3, 5_000_000, 1)]
    picture = evidence.figure([strip], moments, partial(i18n.say, "en"), "#000")
    shapes, bars = picture.data
    assert (bars.base, bars.x, bars.y) == ((1.0,), (0.5,), (0,))  # of another rank, or beyond the strip: not drawn
    assert "&lt;b&gt;kernel" in bars.hovertext[0] and "<b>" not in bars.hovertext[0]
    assert shapes.x[1:9] == (0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0)
    high = [round(shapes.y[0] - y, 9) for y in shapes.y[1:9]]
    assert high == [0, 0, 0.3, 0.3, 0.3, 0.3, 0.15, 0.15]
    assert len(picture.layout.shapes) == 1  # where the second step begins


def test_while_it_is_judged_the_rest_of_the_page_is_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = judged.BODIES["quiet"][1].replace("    return", "    import time; time.sleep(3)\n    return")
    own = place / "own" / "quiet.py"
    own.write_text(own.read_text("utf-8").replace(judged.BODIES["quiet"][1], slow), "utf-8")
    monkeypatch.setattr(context, "_PATIENCE", 0.05)
    page = AppTest.from_file(str(DASHBOARD), default_timeout=60).run()
    assert not page.exception
    assert "Looking for what costs time in this run, " in texts(page)
    assert {"Where the time goes", "What was recorded"} <= {element.value for element in page.subheader}
    opened("en", "Fixing it gives back")


def test_a_mistake_in_the_settings_is_said_and_mended_without_a_restart(place: Path) -> None:
    good = (place / "npulens.toml").read_text("utf-8")
    (place / "npulens.toml").write_text("[limits.nobody]\nx = 1\n", "utf-8")
    page = opened("en", "there is no detector nobody")
    assert [element.value for element in page.error] == ["This run could not be judged."]
    (place / "npulens.toml").write_text(good, "utf-8")
    opened("en", "Fixing it gives back")
