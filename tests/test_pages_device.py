"""Kernels, Launch and Copies as pages: both languages over empty, hostile, sample and real runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hostile_capture
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.app.charts import kernels as kernel_chart
from npulens.app.pages.copies import charts as copy_chart
from npulens.app.pages.launch import charts as launch_chart
from npulens.app.text import i18n

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("en", "zh")
SAMPLES = ("kineto", "torch_npu_db", "torch_npu_text", "late_rank")
VIEWS = ("slow", "pipes", "source", "instances", "durations")


def kernels() -> None:
    from npulens.app import context
    from npulens.app.pages.kernels import page

    page.render(context.current())


def launch() -> None:
    from npulens.app import context
    from npulens.app.pages.launch import page

    page.render(context.current())


def copies() -> None:
    from npulens.app import context
    from npulens.app.pages.copies import page

    page.render(context.current())


PAGES = (kernels, launch, copies)


def opened(page: Callable[[], None], lang: str, run_id: str | None = None) -> AppTest:
    shown = AppTest.from_function(page, default_timeout=120)
    shown.query_params["lang"] = lang
    if run_id:
        shown.query_params["run"] = run_id
    shown.run()
    whole(shown)
    return shown


def whole(shown: AppTest) -> None:
    assert not shown.exception, shown.exception[0].value


def texts(shown: AppTest) -> str:
    return "\n".join(element.value for element in shown.text)


def every_view(shown: AppTest) -> list[AppTest]:
    """The views of the chosen kind of kernels, one after the other."""
    found = []
    for view in VIEWS:
        shown.segmented_control(key="kernels_view").set_value(view).run()
        whole(shown)
        found.append(shown)
    return found


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "store"
    monkeypatch.setenv("NPULENS_STORE", str(place))
    return place


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
def test_an_empty_store_is_said(page: Callable[[], None], lang: str, store: Path) -> None:
    shown = opened(page, lang)
    assert i18n.say(lang, "shell.bring_one") in texts(shown)
    assert not shown.dataframe


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
def test_names_of_a_hostile_capture_stay_text(page: Callable[[], None], lang: str, store: Path, tmp_path: Path) -> None:
    ingest.load(hostile_capture.write(tmp_path / "trace.json"), store)
    shown = opened(page, lang)
    for drawn in every_view(shown) if page is kernels else [shown]:
        for kind in ("markdown", "caption", "subheader", "title", "header", "info", "error", "warning", "success"):
            for element in drawn.get(kind):
                assert "pwned" not in str(getattr(element, "value", "")), f"{kind} shows a name from the capture"
        for chart in drawn.get("plotly_chart"):
            assert "<script" not in chart.proto.spec and "<img" not in chart.proto.spec
    if page is kernels:
        assert hostile_capture.MARKUP[:50] in texts(shown)


@pytest.mark.parametrize("page", PAGES)
def test_a_run_without_a_device_says_what_lacks(page: Callable[[], None], store: Path, tmp_path: Path) -> None:
    trace = tmp_path / "host.json"
    trace.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
    )
    ingest.load(trace, store)
    shown = opened(page, "en")
    assert "not measured" in texts(shown) or "recorded" in texts(shown)
    assert not shown.get("plotly_chart")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The samples of this project in one store: what each is called, and its run."""
    place = tmp_path_factory.mktemp("samples") / "store"
    found = {name: ingest.load(ROOT / "sample_traces" / name, place).runs[0].run_id for name in SAMPLES}
    return {"": str(place), **{name: str(run_id) for name, run_id in found.items()}}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("sample", SAMPLES)
def test_every_page_of_every_sample(
    sample: str, lang: str, samples: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", samples[""])
    for page in PAGES:
        shown = opened(page, lang, samples[sample])
        assert shown.dataframe, page.__name__
        assert shown.get("plotly_chart"), page.__name__
        if page is kernels and lang == "zh":
            every_view(shown)


def test_filters_and_levels_change_the_table(samples: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", samples[""])
    shown = opened(kernels, "en", samples["torch_npu_text"])
    every = len(shown.dataframe[0].value)
    shown.segmented_control[0].set_value("shape").run()
    whole(shown)
    assert len(shown.dataframe[0].value) > every
    shown.segmented_control[0].set_value("type").run()
    words = f"kernels_text_{samples['torch_npu_text']}"
    shown.text_input(key=words).set_value("matmul").run()
    whole(shown)
    left = shown.dataframe[0].value
    assert 0 < len(left) < every and "matmul" in left["op"].iloc[0].lower()
    shown.text_input(key=words).set_value("no kernel is called like this").run()
    assert i18n.say("en", "kernels.answer_no_match") in texts(shown)


@pytest.mark.shared
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_two_rank_capture(lang: str, store: Path, shared_traces: Path) -> None:
    ingest.load(shared_traces / "Ascend+msinsight/test/data/pytorch/text/level2", store)
    found = opened(kernels, lang)
    assert "374" in texts(found) and "ForeachAddList" in texts(found)
    source = found.segmented_control(key="kernels_view").set_value("source").run()
    assert "imagenet_script/main.py(366): train" in texts(source)
    pipes = found.segmented_control(key="kernels_view").set_value("pipes").run()
    assert any("mte2" in chart.proto.spec for chart in pipes.get("plotly_chart"))
    assert "22.1 GB/s" in texts(opened(copies, lang))
    assert "498.0 µs" in texts(opened(launch, lang))


def test_words_of_directions_and_sizes() -> None:
    def say(key: str, values: object) -> str:
        return i18n.say("en", key, values)  # type: ignore[arg-type]

    assert copy_chart.way("h2d", say) == "host to device"
    assert copy_chart.way(None, say) == copy_chart.way("", say) == "direction not recorded"
    assert copy_chart.size_class(1024, say) == "1 KiB to 2 KiB"
    assert (copy_chart.size_class(0, say), copy_chart.size_class(None, say)) == ("empty", "size not recorded")
    assert copy_chart.rate(23_260_561_824) == "23.3 GB/s" and copy_chart.rate(None) == "–"
    assert (launch_chart.folded(0), launch_chart.folded(-999_000)) == (0, -3)
    assert launch_chart.whole(10_000) == "10 µs"
    assert kernel_chart.short("<b>" + "x" * 100).startswith("&lt;b&gt;xx")
    scope = "Default/network-WithLossCell/_backbone-AlexNet/conv5-Conv2d/Conv2D-op123"
    assert kernel_chart.short(scope) == "…_backbone-AlexNet/conv5-Conv2d/Conv2D-op123"
    assert kernel_chart.short("Memcpy DtoH (Device/Host/Pinned) " + "x" * 40).endswith("xx…")
