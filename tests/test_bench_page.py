"""The Bench page, in both languages: a benchmark, a trace, an empty store, hostile names."""

from __future__ import annotations

from pathlib import Path

import bench_result
import hostile_capture
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.look import bench as look
from npulens.app.pages.bench import charts as chart
from npulens.app.pages.bench import sentences
from npulens.app.text import i18n
from npulens.ingest.store import runs

DASHBOARD = Path(__file__).resolve().parents[1] / "app" / "dashboard.py"
SCRIPT = """
import sys
from npulens.app import context
from npulens.app.pages.{page} import page
page.render(context.current())
"""


def page(name: str, lang: str, run: str = "") -> AppTest:
    shown = AppTest.from_string(SCRIPT.format(page=name), default_timeout=60)
    shown.query_params["lang"] = lang
    if run:
        shown.query_params["run"] = run
    shown.run()
    assert not shown.exception, shown.exception[0].value
    return shown


def texts(shown: AppTest) -> str:
    return "\n".join(element.value for element in shown.text)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_benchmark_answers_first_and_shows_every_part(
    lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    ingest.load(bench_result.write(tmp_path / "made"), tmp_path / "store")
    shown = page("bench", lang)
    first = texts(shown).splitlines()[0]
    assert "1.66" in first and "fused" in first and "[0.599, 0.603]" in first
    heads = [head.value for head in shown.subheader]
    for part in ("versus", "latency", "batch", "together", "throughput", "sweep", "numerics"):
        assert i18n.say(lang, f"bench.{part}") in heads
    assert len(shown.dataframe) == 8  # a table a part, and the environment


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_trace_says_that_it_is_none_and_how_to_make_one(
    lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    ingest.load(hostile_capture.write(tmp_path / "trace.json"), tmp_path / "store")
    shown = page("bench", lang)
    assert [code.value for code in shown.code] == ["npulens bench conv_bn_relu"]
    assert i18n.say(lang, "bench.none") in texts(shown)


def test_every_other_page_of_a_benchmark_is_honest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    ingest.load(bench_result.write(tmp_path / "made"), tmp_path / "store")
    for name in ("workspace", "timeline", "efficiency", "kernels", "launch", "copies", "communication", "parallel",
                 "flame", "requests", "memory", "counters"):  # fmt: skip
        page(name, "en")
    whole = AppTest.from_file(str(DASHBOARD), default_timeout=60)
    whole.query_params["lang"] = "en"
    whole.run()
    assert not whole.exception and i18n.say("en", "bench.is_one") in texts(whole)


def test_names_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is HTML, Markdown and a formula at once is shown as it is written."""
    monkeypatch.setitem(bench_result.LEVELS_NS, hostile_capture.MARKUP[:60], 50_000)
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    (run,) = ingest.load(bench_result.write(tmp_path / "made"), tmp_path / "store").runs
    page("bench", "en")
    with runs.open_run(tmp_path / "store", str(run.run_id)) as con:
        found = look.bench(con)
    assert found is not None
    drawn = chart.versus(found.part("versus"), lambda key, values: i18n.say("en", key, values), "#000").to_json()
    assert drawn is not None and "<script" not in drawn and "<img" not in drawn


def test_a_call_stands_at_its_time_on_the_screen(tmp_path: Path) -> None:
    (run,) = ingest.load(bench_result.write(tmp_path / "made"), tmp_path / "store").runs
    with runs.open_run(tmp_path / "store", str(run.run_id)) as con:
        found, rows = look.bench(con), look.course(con, "folded float32 hot host")
    assert found is not None
    made = bench_result.series(80_000, 1000, 1).ns
    assert all(made[int(place)] == ns for place, ns in rows.itertuples(index=False, name=None))
    assert {max(made), min(made)} <= set(rows["ns"]) and 400 <= len(rows) <= 800
    figure = next(each for each in found.part("latency") if each["variant"] == "folded")
    (points,) = chart.course(rows, figure, lambda key, values: i18n.say("en", key, values), "#000").data
    assert list(points.y) == list(rows["ns"]) and points.hovertext[0] == i18n.duration(int(rows["ns"][0]))


def test_a_verdict_says_by_which_clock_it_is(tmp_path: Path) -> None:
    (run,) = ingest.load(bench_result.write(tmp_path / "made"), tmp_path / "store").runs
    with runs.open_run(tmp_path / "store", str(run.run_id)) as con:
        found = look.bench(con)
    assert found is not None
    by_variant = {figure["variant"]: figure for figure in found.part("versus")}
    assert sentences.sentence(by_variant["folded"], "en").endswith("By CPU time.")
    assert "CPU time" not in sentences.sentence(by_variant["fused"], "en")
    assert sentences.other_clock(by_variant["folded"], "zh") == "主机: 0.900 [0.300, 2.700]"
    wide = {**by_variant["fused"], "withheld": "as far as this", "withheld_by": "wide"}
    assert "the same variant twice, reaches as far from 1" in sentences.sentence(wide, "en")
    assert "不予采信" in sentences.sentence(wide, "zh")
