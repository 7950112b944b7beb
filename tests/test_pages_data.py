"""Compare and Learn without a browser: both languages, empty and hostile stores, real captures, links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import hostile_capture
import judged
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.discovery import detectors
from npulens.analysis.look import learned
from npulens.analysis.look.compare import Delta
from npulens.analysis.settings import DEFAULT
from npulens.app import docs_of
from npulens.app.charts import roles
from npulens.app.context import Context
from npulens.app.pages.compare import charts as chart
from npulens.app.pages.compare import pick
from npulens.app.text import i18n
from npulens.ingest.store import runs as stores

LANGUAGES = ("en", "zh")
SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
PAGES = ("compare", "sql", "learn")
MARKED = ("markdown", "caption", "subheader", "title", "header", "info", "error", "warning", "success")


def page_of(name: str) -> None:
    import importlib

    from npulens.app import context

    importlib.import_module(f"npulens.app.pages.{name}.page").render(context.current())


def opened(name: str, lang: str, query: Mapping[str, str]) -> AppTest:
    page = AppTest.from_function(page_of, args=(name,), default_timeout=120)
    for key, value in {"lang": lang, **query}.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception, page.exception[0].value
    return page


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


def table(page: AppTest, column: str) -> list[object]:
    """A column of the first table that has it."""
    return next(frame.value[column].tolist() for frame in page.dataframe if column in frame.value)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A store with two hostile runs: the second lasts longer and says that its job is smaller."""
    folder = tmp_path_factory.mktemp("two")
    place = folder / "store"
    first = hostile_capture.write(folder / "a.json")
    base = ingest.load(first, place, label="=1+1" + hostile_capture.MARKUP).runs[0]
    second = hostile_capture.write(folder / "b.json")
    text = second.read_text("utf-8").replace('"world_size": 4', '"world_size": 2').replace('"dur": 30', '"dur": 36')
    second.write_text(text, "utf-8")
    head = ingest.load(second, place, label="b").runs[0]
    return place, str(base.run_id), str(head.run_id)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", PAGES)
def test_an_empty_store_is_no_error(name: str, lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "nothing"))
    page = opened(name, lang, {"part": "collect"})
    assert page.text, "an empty page says why"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_two_runs_are_compared_part_by_part(
    lang: str, two_runs: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, base, head = two_runs
    monkeypatch.setenv("NPULENS_STORE", str(place))
    page = opened("compare", lang, {"base": base, "head": head})
    # Steps of 100 and 50 us: 75 us; the kernels grow from 30 to 36 us (of which 10 us overlap as before) and 20.
    assert table(page, "base") == ["25,000", "5,000", "5,000", "40,000", "75,000"]
    assert table(page, "head")[0] == "28,000"
    shown = texts(page)
    sized = {"en": "The jobs are of different size: 4 and 2 ranks.", "zh": "任务规模不同：4 个与 2 个 rank。"}
    assert sized[lang] in shown
    assert {"en": "run-to-run variation cannot be ruled out", "zh": "无法排除正常波动"}[lang] in shown
    assert len(page.get("plotly_chart")) >= 2


@pytest.mark.parametrize("name", PAGES)
def test_names_from_a_capture_stay_text(
    name: str, two_runs: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, base, head = two_runs
    monkeypatch.setenv("NPULENS_STORE", str(place))
    evil = hostile_capture.MARKUP
    query = {"run": base, "base": base, "head": head, "part": "about", "detector": evil}
    for asked in ({**query, "sql": 'SELECT name AS "' + evil.replace('"', '""') + '" FROM span'}, query):
        page = opened(name, "en", asked)
        for kind in MARKED:
            for element in page.get(kind):
                assert "pwned" not in str(getattr(element, "value", "")), f"{kind} shows a name from the capture"
        for element in page.get("plotly_chart"):
            assert "<script" not in element.proto.spec and "<img" not in element.proto.spec


def test_swapping_turns_the_change_around(two_runs: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    place, base, head = two_runs
    monkeypatch.setenv("NPULENS_STORE", str(place))
    page = opened("compare", "en", {"base": base, "head": head})
    before = table(page, "change")
    page.button(key="compare_swap").click().run()
    assert page.query_params["base"] == head and page.query_params["head"] == base
    flipped = [text[1:] if text.startswith("−") else f"−{text}" for text in map(str, before)]
    assert table(page, "change") == ["0" if text == "−0" else text for text in flipped]


def test_the_two_newest_runs_are_compared_unless_a_link_says_otherwise(
    two_runs: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, *_ = two_runs
    monkeypatch.setenv("NPULENS_STORE", str(place))
    held = sorted(stores.runs(place), key=lambda run: run.loaded_at, reverse=True)
    page = opened("compare", "en", {"by": "runs"})
    assert (page.query_params["head"], page.query_params["base"]) == (held[0].run_id, held[1].run_id)
    page = opened("compare", "en", {"base": "0123", "head": held[1].run_id})
    assert "this store does not hold: 0123" in texts(page)


def _listed(run_id: str, minute: int, size: int, job: str | None = None, status: str = "complete") -> stores.RunInfo:
    at = f"2026-01-05T08:{minute:02}:00+00:00"
    return stores.RunInfo(run_id, None, at, status, None, ("kineto",), (0,), size, None, 0, 100, 3, 9, 99, 1, job=job)


def test_a_run_is_measured_against_the_last_one_like_it(tmp_path: Path) -> None:
    """By hand: the other job is nearer in time, the damaged one and the later one are of the same job but worse."""
    old, mine = _listed("old", 1, 8, "a"), _listed("mine", 5, 8, "a")
    near, other, bad, late = (
        _listed("near", 2, 8, "a"), _listed("other", 4, 6, "b"), _listed("bad", 3, 8, "a", "damaged"),
        _listed("late", 9, 8, "a"),
    )  # fmt: skip
    ctx = Context("en", tmp_path, (late, mine, other, bad, near, old), mine, None)
    assert pick.usual_base(ctx, mine) == (near, True)
    assert pick.usual_base(replace(ctx, runs=(late, mine, other)), mine) == (late, True)
    assert pick.usual_base(replace(ctx, runs=(mine, other)), mine) == (other, False)
    device = replace(near, formats=("torch_npu_text",))
    assert pick.usual_base(replace(ctx, runs=(mine, device)), mine) == (device, False), "of another profiler"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_job_that_is_alone_in_the_store_is_compared_with_itself(
    lang: str, two_runs: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(two_runs[0]))
    assert opened("compare", lang, {}).query_params["by"] == "steps"


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("by", ["ranks", "steps"])
def test_ranks_and_steps_of_one_run(by: str, lang: str, store_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest.load(SAMPLES / "late_rank" / "capture", store_dir)
    monkeypatch.setenv("NPULENS_STORE", str(store_dir))
    page = opened("compare", lang, {"by": by})
    parts = [int(str(text).replace("−", "-").replace(".", "").replace(",", "")) for text in table(page, "change")]
    assert sum(parts[:-1]) == parts[-1], "the changes of the parts sum to that of the step"
    assert page.query_params["by"] == by


@pytest.mark.parametrize("by", ["ranks", "steps"])
def test_one_rank_or_one_step_says_so(
    by: str, two_runs: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, base, _ = two_runs
    monkeypatch.setenv("NPULENS_STORE", str(place))
    page = opened("compare", "en", {"by": by, "run": base})
    assert ("This run holds one rank" in texts(page)) == (by == "ranks")


@pytest.mark.shared
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_real_capture_in_two_formats(
    lang: str, shared_traces: Path, store_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("text/level0", "db/level1"):
        ingest.load(shared_traces / "Ascend+msinsight/test/data/pytorch" / kind, store_dir)
    monkeypatch.setenv("NPULENS_STORE", str(store_dir))
    shown = texts(opened("compare", lang, {"by": "runs"}))
    assert {"en": "Recorded in different formats", "zh": "采集格式不同"}[lang] in shown
    assert {"en": "Recorded at different profiler levels", "zh": "profiler level 不同"}[lang] in shown


def test_a_cause_of_idle_time_has_the_colour_that_the_timeline_gives_it() -> None:
    """`unknown` is idle time without a reason beside other causes, and unknown work beside the parts of a step."""
    says = {name: name for name in ("host_late", "unknown", "idle", "gap:gc#0", "unknown#1", "step")}
    for names, whole, colours in (
        (("host_late", "unknown"), "idle", (roles.of_cause("host_late"), roles.of_cause("unknown"))),
        (("gap:gc#0", "unknown#1"), "step", (roles.of_cause("gc"), roles.colour("unknown"))),
    ):
        deltas = [Delta(name, 100, 300) for name in names]
        (bars,) = chart.waterfall(deltas, Delta(whole, 200, 600), says, "", "#000").data
        assert tuple(bars.marker.color[:2]) == colours, names


def test_changes_carry_their_sign() -> None:
    assert [chart.signed(ns) for ns in (27_575_565, -400, 0)] == ["+27.58 ms", "−400 ns", "±0 ns"]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", [detector.name for detector in detectors(DEFAULT)])
def test_a_link_opens_a_detector(name: str, lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "nothing"))
    page = opened("learn", lang, {"detector": name})
    known = {detector.name: detector for detector in detectors(DEFAULT)}[name]
    assert page.selectbox(key="learn_detector").value == name == page.query_params["detector"]
    written = "\n".join(element.value for element in page.markdown)
    headings = {"en": ("What to do", "Limits of the method"), "zh": ("怎么做", "方法的局限")}
    assert all(heading in written for heading in headings[lang])
    assert (headings["en"][0] in written) == (lang == "en")
    assert "min_share" in table(page, "name") and len(table(page, "source")) == len(table(page, "unit"))
    if known.needs:
        assert len(table(page, "need")) == len(known.needs)
    assert next(iter(known.text[lang].values())).advice.split("{")[0] in texts(page)


def test_a_detector_of_ones_own_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged.folder(tmp_path)
    evil = tmp_path / "own" / "quiet.py"
    evil.write_text(evil.read_text("utf-8").replace('"""quiet"""', f"'''{hostile_capture.MARKUP} $x$ # no head'''", 1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "nothing"))
    page = opened("learn", "en", {"detector": "quiet"})
    assert hostile_capture.MARKUP in texts(page)
    assert all("pwned" not in str(element.value) for kind in MARKED for element in page.get(kind))


def test_a_detector_of_ones_own_speaks_chinese_where_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged.folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "nothing"))
    page = opened("learn", "zh", {"detector": "quiet"})
    assert "quiet" in texts(page).splitlines()
    assert i18n.say("zh", "learn.english") in [element.value for element in page.caption]
    (tmp_path / "own" / "quiet.zh.md").write_text(f"什么也不说 {hostile_capture.MARKUP}\n", "utf-8")
    page = opened("learn", "zh", {"detector": "quiet"})
    assert f"什么也不说 {hostile_capture.MARKUP}" in texts(page) and "quiet" not in texts(page).splitlines()
    assert i18n.say("zh", "learn.english") not in [element.value for element in page.caption]
    assert all("pwned" not in str(element.value) for kind in MARKED for element in page.get(kind))
    (tmp_path / "own" / "quiet.zh.md").write_bytes(b"\xff\xfe")
    assert "quiet.zh.md" in texts(opened("learn", "zh", {"detector": "quiet"}))


def test_a_detector_that_there_is_not_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "nothing"))
    assert "a detector that there is not: nope" in texts(opened("learn", "en", {"detector": "nope"}))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_manual_has_words_code_and_a_level(lang: str, store_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ingest.load(SAMPLES / "kineto", store_dir).runs[0]
    monkeypatch.setenv("NPULENS_STORE", str(store_dir))
    assert len(opened("learn", lang, {"part": "words"}).dataframe) == 4
    code = "\n".join(element.value for element in opened("learn", lang, {"part": "collect"}).code)
    assert "torch_npu.profiler.profile(" in code and "torch.profiler.profile(" in code
    for snippet in opened("learn", lang, {"part": "collect"}).code:
        if snippet.language == "python":
            compile(snippet.value, "snippet", "exec")
    about = texts(opened("learn", lang, {"part": "about", "run": str(run.run_id)}))
    assert i18n.say(lang, "learn.level_simulated") in about and docs_of.version() in about


def test_a_run_that_says_nothing_of_its_device_is_unknown() -> None:
    from tablecase import connection

    cases = (("npu", "", "npu"), ("cuda", "a/b", "cuda"), (None, "", "unknown"), ("abacus", "", "unknown"),
             ("npu", "sim-node-0_1_ascend_pt", "simulated"))  # fmt: skip
    for backend, path, expected in cases:
        con = connection({"rank": {0: {"backend": backend, "path": path}}})
        assert learned.level(con, ()).level == expected
    assert learned.level(con, ("x/sim-node-0.json",)).level == "simulated"


def test_accuracy_is_only_taken_from_a_page_of_ours(tmp_path: Path) -> None:
    page = tmp_path / "accuracy.md"
    assert docs_of.accuracy("late_rank", page) is None
    page.write_text("# Accuracy\n\nsomebody else's\n## By cause\n| `late_rank` | 1 | 2 | 3 | 4 | 5 | 6 |\n")
    assert docs_of.accuracy("late_rank", page) is None
    page.write_text(f"{docs_of._ACCURACY_HEAD} from\n## By cause\n| `late_rank` | 7 | 1.000 | 0.9 | 1 | 0.1% | 0 |\n")
    assert docs_of.accuracy("late_rank", page) == docs_of.Accuracy("7", "1.000", "0.9", "0.1%")


def test_every_table_and_view_is_documented() -> None:
    from npulens.analysis.views import views
    from npulens.ingest.tables import schema

    names = {relation.name for relation in docs_of.relations()}
    assert names == set(schema.tables()) | {view.name for view in views()}
    found = docs_of.columns("input shapes kernel", None, {})
    assert ("kernel", "input_shapes") in {(column.table, column.name) for column in found}
    assert {column.table for column in docs_of.columns("", "split", {})} == {"split"}
