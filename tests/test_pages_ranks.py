"""Ranks, Communication, Memory and Counters, drawn whole: in both languages, over every kind of run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hostile_capture
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest

PAGES = ("ranks", "communication", "memory", "counters")
LANGUAGES = ("en", "zh")
ROOT = Path(__file__).resolve().parent.parent
TWO_RANKS = "Ascend+msinsight/test/data/pytorch/text/level1"
QUESTION = {
    "ranks": ("Ranks: who is slow?", "各 rank：谁慢？"),
    "communication": ("What does communication cost", "通信花了多少时间"),
    "memory": ("How much device memory", "任务占用多少设备内存"),
    "counters": ("What did the hardware count", "硬件计数随时间如何变化"),
}


def _page(name: str) -> None:
    import importlib

    from npulens.app import context
    from npulens.app.pages.workspace import ranks

    if name == "ranks":  # a view of the workspace, which draws it for a run only
        ranks.show(context.current())
    else:
        importlib.import_module(f"npulens.app.pages.{name}.page").render(context.current())


def opened(name: str, lang: str) -> AppTest:
    page = AppTest.from_function(_page, kwargs={"name": name}, default_timeout=120)
    page.query_params["lang"] = lang
    page.run()
    assert not page.exception, page.exception[0].value
    assert QUESTION[name][lang == "zh"] in page.header[0].value
    return page


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("pages")
    for name in ("kineto", "late_rank", "torch_npu_db", "torch_npu_text"):
        ingest.load(ROOT / "sample_traces" / name, place / name)
    ingest.load(hostile_capture.write(place / "trace.json"), place / "hostile", label=hostile_capture.MARKUP)
    yield place


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", PAGES[1:])
def test_an_empty_store_is_said(name: str, lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path))
    page = opened(name, lang)
    assert {"en": "This store is empty.", "zh": "当前存储为空。"}[lang] in [title.value for title in page.header]
    assert {"en": "Drop a capture anywhere", "zh": "把采集文件拖到页面任意位置"}[lang] in texts(page)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("sample", ["kineto", "late_rank", "torch_npu_db", "torch_npu_text"])
@pytest.mark.parametrize("name", PAGES)
def test_a_sample_draws_or_says_why_not(
    name: str, sample: str, lang: str, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(stores / sample))
    page = opened(name, lang)
    if name == "counters" and sample == "kineto":
        assert {"en": "not measured", "zh": "未采集"}[lang] in texts(page)
    else:
        assert len(page.get("plotly_chart")) >= 1
        assert len(page.dataframe) >= 1


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", PAGES)
def test_names_from_a_capture_never_reach_markdown(
    name: str, lang: str, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(stores / "hostile"))
    page = opened(name, lang)
    for kind in ("markdown", "caption", "subheader", "title", "header", "info", "error", "warning", "success"):
        for element in page.get(kind):
            assert "pwned" not in str(getattr(element, "value", "")), f"{kind} shows a name from the capture"
    for chart in page.get("plotly_chart"):
        assert "<script" not in chart.proto.spec, "a chart holds markup from the capture"
        assert "<img" not in chart.proto.spec, "a chart holds markup from the capture"


@pytest.fixture(scope="module")
def two_ranks(shared_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("two_ranks")
    ingest.load(shared_traces / TWO_RANKS, place)
    return place


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", PAGES)
def test_the_two_rank_capture_is_drawn(name: str, lang: str, two_ranks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(two_ranks))
    page = opened(name, lang)
    assert len(page.get("plotly_chart")) >= 1
    assert len(page.dataframe) >= 1
    if name == "communication":
        assert "rank 5" in texts(page), "the capture's waits name rank 5, which was not captured"


def test_the_grid_switches_what_it_shows(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(stores / "late_rank"))
    page = opened("ranks", "en")
    metric = next(one for one in page.segmented_control if one.label == "Show")
    for name in ("Computing", "Idle", "Step time", "Exposed communication", "Work start"):
        metric = next(one for one in page.segmented_control if one.label == "Show")
        metric.set_value(next(option for option in metric.options if option == name)).run()
        assert not page.exception
    how = next(one for one in page.segmented_control if one.label == "As")
    how.set_value("From the median").run()
    assert not page.exception


def test_the_background_of_counters_can_be_turned_on(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(stores / "late_rank"))
    page = opened("counters", "en")
    before = page.get("plotly_chart")[0].proto.spec
    page.toggle[0].set_value(True).run()
    assert not page.exception
    assert len(page.get("plotly_chart")[0].proto.spec) > len(before)
