"""The workspace without a browser: its head, its list, the chosen problem, remarks, both languages."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import judged
import numpy as np
import pytest
import tablecase
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.causes import CAUSES
from npulens.analysis.device.conversion import CONVERSIONS
from npulens.analysis.discovery import detectors
from npulens.analysis.finding import Change, Evidence, Finding, Words
from npulens.analysis.problems import shown as look
from npulens.analysis.serving import role_times
from npulens.analysis.settings import DEFAULT
from npulens.analysis.split import Row
from npulens.app import context, run_check
from npulens.app.pages.workspace import problems
from npulens.app.settings.of_checks import in_force
from npulens.app.text import i18n, wording
from npulens.app.text.snippets import SNIPPETS
from npulens.collectors.serving.engine import run
from npulens.collectors.serving.plants import PLANTS, plan
from npulens.collectors.serving.reinforcement import JOB_PLANTS, job, spans, stages, step_ns
from npulens.collectors.serving.writers import write
from npulens.ingest.store import history_run, notes
from npulens.ingest.store import runs as stores
from npulens.ingest.store.notes import Remark

DASHBOARD = Path(__file__).resolve().parent.parent / "app" / "dashboard.py"
MARKUP = "<script>window.pwned=1</script>**pwned** ![x](http://evil.invalid/x.png) :material/bug:"
VERDICT = {
    "en": "Biggest saving: occasionally slow kernels on rank 0, up to 40.0 % of the step.",
    "zh": "最大可省：算子偶发变慢（rank 0），最多占单步 40.0 %。",
}


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


def lists(page: AppTest) -> list[dict[str, Any]]:
    """What the lists of the page were given: the problems first, then the moments."""
    given = [element.proto for element in page.get("bidi_component")]
    data = [json.loads(proto.mixed.json if proto.WhichOneof("data") == "mixed" else proto.json) for proto in given]
    return [one for one in data if "rows" in one and "chips" in one]


def opened(lang: str, until: str, **query: str) -> AppTest:
    page = AppTest.from_file(str(DASHBOARD), default_timeout=60)
    page.query_params["lang"] = lang
    for key, value in query.items():
        page.query_params[key] = value
    for _ in range(60):
        page.run()
        assert not page.exception, page.exception[0].value
        if until in texts(page):
            return page
        time.sleep(0.2)
    raise AssertionError(texts(page))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_head_says_the_largest_saving_in_one_line_and_six_figures(place: Path, lang: str) -> None:
    page = opened(lang, VERDICT[lang])
    (tiles,) = [one.proto.body for one in page.get("html") if 'class="tiles"' in one.proto.body]
    # of each step of 100 us: 40 us of kernels, 10 us of a copy, the rest idle; the operator's 40 us can be saved
    figures = re.findall(r"<b>(.*?)</b>", tiles)
    assert figures[:2] == ["100 µs", "40.0 %"] and figures[3:5] == ["50.0 %", "40.0 %"]
    assert len(figures) == 6 and figures[5].endswith("/ 100")
    saving = {"en": "at most 40.0 µs of the 100 µs step (40.0 %)", "zh": "最多可省 40.0 µs"}
    assert saving[lang] in texts(page), "the sentence lies behind the button"


def test_the_list_holds_every_problem_and_chips_hold_every_other_outcome(place: Path) -> None:
    problems, moments = lists(opened("en", VERDICT["en"]))
    (row,) = problems["rows"]
    assert (row["key"], row["amount"]) == ("longest", "40.0 µs")
    assert (row["who"], row["share"]) == ("rank 0", "40.0 % of the step")
    assert row["bar"] == 0.4 and problems["chosen"] == "longest" and row["title"].startswith(f"{MARKUP} runs 40.0 µs")
    chips = {chip["key"]: chip["items"] for chip in problems["chips"]}
    assert {name: len(items) for name, items in chips.items()} == {
        "clean": 1, "not_measured": 1, "failed": 1, "unseen": len(CAUSES)
    }  # fmt: skip
    assert chips["failed"][0]["text"] == "RuntimeError: it broke"
    assert "To record it: torch.profiler.profile(profile_memory=True)" in chips["not_measured"][0]["text"]
    assert len(moments["rows"]) == judged.STEPS and {one["amount"] for one in moments["rows"]} == {"40.0 µs"}
    assert {one["head"] for one in moments["rows"]} == {MARKUP[:70]}


def test_the_chosen_problem_says_what_to_do(place: Path) -> None:
    page = opened("en", f"Make {MARKUP} faster")
    table = next(one.value for one in page.dataframe if one.value.shape[1] == 2)
    assert dict(table.to_numpy().tolist())["Length"] == "40.0 µs"
    code = next(element.value for element in page.code if "torch.profiler.profile(" in element.value)
    compile(code, "configuration", "exec")


def test_a_remark_settles_a_problem_for_the_next_run_of_the_same_job(place: Path) -> None:
    store = place / "store"
    (run,) = stores.runs(store)
    page = opened("en", VERDICT["en"])
    key = f"longest_{run.run_id}_en"
    page.segmented_control(key=f"state_{key}").set_value("ignored")
    page.text_input(key=f"owner_{key}").set_value("  Ada\nL. ")
    page.button(key=f"keep_{key}").click().run()
    job = history_run.workload(store, run)
    assert job == "night" and notes.remarks(store, job) == {"longest": Remark("ignored", "Ada L.", "")}
    ingest.load(judged.capture(place / "next.json", "other", steps=12), store, label="night (2)")
    later = next(one for one in stores.runs(store) if one.run_id != run.run_id)
    assert history_run.workload(store, later) == "night"
    page = opened("en", "Every problem that was found is settled.", run=str(later.run_id))
    (row,) = lists(page)[0]["rows"]
    assert row["settled"] and row["who"] == "rank 0 · ignored · Ada L."
    notes.set_remark(store, job, "longest", Remark())
    assert notes.remarks(store, job) == {}
    with pytest.raises(ValueError, match="open, done, ignored"):
        notes.set_remark(store, job, "longest", Remark("gone"))


def test_checks_show_every_outcome_and_judge_again_by_other_limits(place: Path) -> None:
    page = opened("en", "4 checks: 1 with problems", panel="checks")
    names = (("not_measured", 1), ("broken", 1), ("clean", 1), ("not_looked_for", len(CAUSES)))
    labels = [f"{i18n.say('en', f'findings.{name}')} · {count}" for name, count in names]
    assert [one.label for one in page.expander] == [*labels, i18n.say("en", "findings.collect")]
    assert "RuntimeError: it broke" in texts(page)
    assert i18n.say("en", "findings.limits_same") in [element.value for element in page.caption]
    share, most = page.slider
    assert (share.value, most.label) == (0.01, "most")
    assert 50 <= round((share.max - share.min) / share.step) <= 200, "a slider moves by a hundredth of its length or so"
    share.set_value(share.max).run()
    assert not page.exception
    assert "[limits.longest]\nmin_share = 0.05" in [element.value for element in page.code]


def test_a_run_held_open_is_judged_by_other_limits(place: Path) -> None:
    (run,) = stores.runs(place / "store")
    settings = in_force(place / "npulens.toml")
    detector = next(one for one in run_check.ready(settings) if one.name == "longest")
    bench = run_check.hold(place / "store", run.run_id)
    (found,), outcome = bench.judge(detector, {}, settings)
    assert (outcome.outcome, found.saving_share) == ("found", 0.4)
    assert bench.judge(detector, {"min_share": 0.41}, settings)[1].outcome == "clean"
    assert bench.judge(detector, {"min_share": 0.4}, settings)[1].outcome == "found"
    bench.close()


@pytest.mark.parametrize("panel", ["problems", "time", "ranks", "recorded", "checks"])
def test_names_never_reach_markup(place: Path, panel: str) -> None:
    page = opened("en", VERDICT["en"], panel=panel)
    for kind in ("markdown", "caption", "subheader", "title", "header", "info", "error", "warning", "success"):
        for element in page.get(kind):
            assert "pwned" not in str(getattr(element, "value", "")), kind
    assert not any("pwned" in str(one.proto.body) for one in page.get("html"))
    assert not any("pwned" in expander.label for expander in page.expander)


def test_while_it_is_judged_the_figures_are_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = judged.BODIES["quiet"][1].replace("    return", "    import time; time.sleep(3)\n    return")
    own = place / "own" / "quiet.py"
    own.write_text(own.read_text("utf-8").replace(judged.BODIES["quiet"][1], slow), "utf-8")
    monkeypatch.setattr(context, "_PATIENCE", 0.05)
    page = AppTest.from_file(str(DASHBOARD), default_timeout=60).run()
    assert not page.exception
    assert "Looking for what costs time.\n" in texts(page), "without seconds that stand still"
    (tiles,) = [one.proto.body for one in page.get("html") if 'class="tiles"' in one.proto.body]
    assert "100 µs" in tiles
    opened("en", VERDICT["en"])


def test_a_mistake_in_the_settings_is_said_and_mended_without_a_restart(place: Path) -> None:
    good = (place / "npulens.toml").read_text("utf-8")
    (place / "npulens.toml").write_text("[limits.nobody]\nx = 1\n", "utf-8")
    page = opened("en", "there is no detector nobody")
    assert [element.value for element in page.error] == ["This run could not be judged."]
    (place / "npulens.toml").write_text(good, "utf-8")
    opened("en", VERDICT["en"])


def _row(rank: int, step: int | None, dur: int, computing: int, exposed: int | None, idle: int) -> Row:
    return Row(rank, step, 0, dur, computing, exposed, exposed, 0, 0, 0, 0, 0, idle, 0, None)


def test_a_glance_is_the_mean_step_and_nothing_unmeasured_becomes_zero() -> None:
    rows = [_row(0, None, 999, 1, 1, 1), _row(0, 1, 100, 60, 20, 20), _row(0, 2, 200, 100, 40, 60),
            _row(1, 1, 300, 140, None, 100)]  # fmt: skip
    assert look.glance(rows) == look.Glance(2, 2, 200, 100, None, 60)
    assert look.glance(rows[:3]) == look.Glance(1, 2, 150, 80, 30, 40)
    assert look.glance(rows[:1]) == look.Glance(1, 0, 999, 1, 1, 1)
    assert look.glance([]) is None


def _finding(detector: str, numbers: dict[str, Any], evidence: tuple[Evidence, ...], cause: str = "gc") -> Finding:
    words = {"en": Words("", ""), "zh": Words("", "")}
    return Finding(detector, cause, "low", words, 1, 1, 0.1, "high", numbers, evidence, Change())


def test_findings_are_called_by_their_detector_and_speak_of_ranks() -> None:
    one, two, other = (_finding(name, {}, ()) for name in ("gc", "gc", "aicpu"))
    assert look.finding_ids((one, other, two)) == ("gc", "aicpu", "gc-2")
    seen = (Evidence(4, 0, 1), Evidence(2, 0, 1))
    assert look.ranks_of(_finding("x", {"ranks": "0-2, 7"}, seen)) == (0, 1, 2, 7)
    assert look.ranks_of(_finding("x", {"rank": 3, "ranks": "All slow links end at rank 3."}, seen)) == (3,)
    assert look.ranks_of(_finding("x", {"peer": 5, "ranks": "0"}, seen, "late_rank")) == (5,)
    assert look.ranks_of(_finding("x", {"ranks": "all of them"}, seen)) == (2, 4)


def test_a_stretch_of_time_is_one_moment() -> None:
    inner, around, apart, elsewhere = (
        Evidence(0, 10, 5), Evidence(0, 5, 20), Evidence(0, 22, 10), Evidence(1, 10, 5)
    )  # fmt: skip
    assert look.moments(_finding("x", {}, (inner, around, apart, elsewhere))) == (inner, apart, elsewhere)


def _run(formats: tuple[str, ...], dur_ns: int) -> stores.RunInfo:
    at = "2026-01-05T08:00:00+00:00"
    return stores.RunInfo("a", None, at, "complete", None, formats, (0,), 1, None, 0, dur_ns, 3, 9, 99, 1)


def test_moments_within_the_trace_come_before_those_beyond_it() -> None:
    early, late, later = Evidence(0, 20, 5), Evidence(0, 150, 50), Evidence(0, 120, 9)
    assert problems._reached_first(_run((), 100), (late, later, early)) == (early, late, later)


def test_formats_of_a_run_are_a_list_in_words() -> None:
    run = _run(("kineto", "otlp", "vllm_log"), 1)
    assert wording.formats(run, "en") == "PyTorch (Kineto) trace, spans of OpenTelemetry and iteration log of vLLM"
    assert wording.formats(run, "zh") == "PyTorch（Kineto）trace、OpenTelemetry 区间、vLLM 迭代日志"
    assert wording.formats(_run(("kineto",), 1), "en") == "PyTorch (Kineto) trace"
    assert wording.formats(_run((), 1), "en") == ""


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_requests_without_a_trace_are_told_by_their_own_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    """No rank, no step, no empty picture: what requests took, and the request of the chosen moment."""
    draw = random.Random(7)
    faulty, _ = PLANTS["queueing"](draw, plan(draw))
    served = run(list(faulty.asked), faulty.setup, 7)
    write(served, tmp_path / "files")
    ingest.load(tmp_path / "files", tmp_path / "store")
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    page = opened(lang, "--max-num-seqs")
    assert i18n.say(lang, "workspace.requests") in [link.proto.label for link in page.get("page_link")]
    half = served.setup.front_ns - served.setup.front_ns // 2
    first = [(one.tokens_ns[0] + half - one.asked.send_ns) / 1e6 for one in served.requests]
    tiles = next(each.proto.body for each in page.get("html") if 'class="tiles"' in each.proto.body)
    shown = re.findall(r"<span>(.*?)</span><b>(.*?)</b><small>(.*?)</small>", tiles)
    assert [one[1] for one in shown[:2]] == ["120", f"{np.percentile(first, 99):.0f} ms"]
    assert shown[1][2] == f"P50 {np.percentile(first, 50):.0f} ms" and shown[3][2].endswith("25 ms")
    moments = lists(page)[1]["rows"]
    assert moments[0]["head"].startswith("r0") and len(page.get("plotly_chart")) == 1
    assert not any("rank 0" in str(row) for listed in lists(page) for row in listed["rows"])
    assert i18n.say(lang, "workspace.source_none") not in texts(page) and "rank 0" not in texts(page)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_stages_without_a_trace_are_told_by_their_own_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    draw = random.Random(7)
    faulty, _ = JOB_PLANTS["weight_sync"](draw, job(draw))
    made = stages(faulty, 7)
    (tmp_path / "spans.json").write_text(json.dumps(spans(made)))
    ingest.load(tmp_path / "spans.json", tmp_path / "store")
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    title = {"en": "Updating the weights of the replicas takes", "zh": "更新副本权重"}
    page = opened(lang, title[lang])
    tiles = next(each.proto.body for each in page.get("html") if 'class="tiles"' in each.proto.body)
    shown = re.findall(r"<b>(.*?)</b><small>(.*?)</small>", tiles)
    whole = step_ns(made)
    training = sum(one.dur_ns for one in made if one.role == "actor_update") / faulty.steps
    assert [shown[0][0], shown[2][0]] == [f"{whole / 1e9:.1f} s", f"{100 * training / whole:.1f} %"]
    assert len(shown) == 6 and len(page.get("plotly_chart")) == 1
    assert not any("rank 0" in str(row) for listed in lists(page) for row in listed["rows"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_log_of_a_job_is_told_by_what_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str) -> None:
    """Two steps by hand: 10 s each, 6 and 4 of rollouts, 3 and 3 of training, 1 of weights; 1 and 3 in no part."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.log").write_text("".join(
        f"step:{step} - timing_s/step:10.0 - timing_s/gen:{gen} - timing_s/update_actor:3.0 - timing_s/testing:40.0 - "
        f"timing_s/update_weights:1.0 - timing_s/agent_loop/generate_sequences/max:{gen - 1} - "
        f"timing_s/agent_loop/generate_sequences/mean:{gen - 2}\n" for step, gen in ((1, 6.0), (2, 4.0))
    ))  # fmt: skip
    ingest.load(tmp_path / "job", tmp_path / "store")
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    page = opened(lang, "10.0 %")
    assert i18n.say(lang, "workspace.no_windows") in [each.value for each in page.caption]
    tiles = next(each.proto.body for each in page.get("html") if 'class="tiles"' in each.proto.body)
    shown = re.findall(r"<b>(.*?)</b><small>(.*?)</small>", tiles)
    assert shown[:4] == [("10.0 s", i18n.say(lang, "workspace.of_mean", {"n": 2})), ("50.0 %", "5.00 s"),
                         ("30.0 %", "3.00 s"), ("10.0 %", "1.00 s")]  # fmt: skip
    picture = json.loads(page.get("plotly_chart")[0].proto.spec)
    assert picture["layout"]["yaxis"]["ticktext"][-1] == i18n.say(lang, "requests.uncounted")
    with stores.open_run(tmp_path / "store", stores.runs(tmp_path / "store")[0].run_id) as con:
        found = role_times.job(con)
    assert found is not None and dict(zip(found.rows["name"], found.rows["dur_ns"], strict=True)) == {
        "gen": 5 * 10**9, "update_actor": 3 * 10**9, "update_weights": 10**9, "": 10**9}  # fmt: skip
    assert i18n.say(lang, "workspace.no_moments") in str(lists(page)[1]) and "rank 0" not in texts(page)


def test_the_span_to_select_fits_its_window() -> None:
    """A step mark around everything and a wide frame are not it; a named span that lies there is."""
    con = tablecase.connection({"spans": [
        {"id": 1, "rank": 0, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100},
        {"id": 2, "rank": 0, "kind": "cpu_op", "name": "wide", "at": 0, "for": 90},
        {"id": 3, "rank": 0, "kind": "cpu_op", "name": "fits", "at": 21, "for": 8},
        {"id": 4, "rank": 0, "kind": "cpu_op", "name": "named", "at": 20, "for": 6},
        {"id": 5, "rank": 1, "kind": "cpu_op", "name": "other rank", "at": 20, "for": 10},
    ]})  # fmt: skip
    us = 1000
    windows = [Evidence(0, 20 * us, 10 * us, 2), Evidence(0, 20 * us, 10 * us, 4), Evidence(0, 20 * us, 10 * us),
               Evidence(0, 95 * us, 2 * us, 2), Evidence(3, 0, us)]  # fmt: skip
    assert look.spans_of(con, windows) == (3, 4, 3, 2, None)
    assert look.spans_of(con, []) == ()


def test_idle_time_that_no_span_fits_is_selected_itself() -> None:
    """A frame of 90 does not explain 10 of idle time; a call that is named and lies within does, however short."""
    con = tablecase.connection({"spans": [
        {"id": 1, "rank": 0, "kind": "python", "name": "train", "at": 0, "for": 90},
        {"id": 2, "rank": 0, "kind": "runtime", "name": "waits", "at": 21, "for": 2},
        {"id": 3, "rank": 0, "kind": "kernel", "name": "at work", "at": 40, "for": 50},
    ]})  # fmt: skip
    us = 1000
    windows = [Evidence(0, 24 * us, 8 * us), Evidence(0, 20 * us, 20 * us, 2), Evidence(0, 60 * us, 4 * us),
               Evidence(0, 24 * us, 8 * us, 1), Evidence(0, 24 * us, 12 * us, 1)]  # fmt: skip
    assert look.spans_of(con, windows) == (None, 2, 3, None, 1)


def test_the_code_of_idle_time_is_what_the_host_was_at() -> None:
    """The thread is the one that launched the next kernel; what another thread did then says nothing."""
    con = tablecase.connection({"spans": [
        {"id": 1, "rank": 0, "kind": "python", "name": "train.py(9): batch", "at": 10, "for": 40, "track": "thread 1"},
        {"id": 2, "rank": 0, "kind": "python", "name": "other.py(3): beside", "at": 10, "for": 60, "track": "thread 2"},
        {"id": 3, "rank": 0, "kind": "cpu_op", "name": "launches", "at": 52, "for": 6, "track": "thread 1"},
        {"id": 4, "rank": 0, "kind": "kernel", "name": "k", "at": 60, "for": 50, "by": 3},
    ]})  # fmt: skip
    found = look.source_of_idle(con, Evidence(0, 20_000, 40_000))
    assert found is not None and found.line == "train.py(9): batch"
    assert look.source_of_idle(con, Evidence(0, 120_000, 10_000)) is None


def test_the_verdict_has_at_most_fourteen_words() -> None:
    """Whatever the cause, with the longest of its numbers."""
    for cause in CAUSES:
        named = wording.text_of("en", f"workspace.cause_{cause}", cause.replace("_", " "))
        where = i18n.say("en", "workspace.on_ranks", {"problem": named, "ranks": "0–127"})
        for key in ("verdict", "verdict_recorded"):
            said = i18n.say("en", f"workspace.{key}", {"problem": where, "share": "32.5 %"})
            assert len([word for word in said.split() if re.search(r"\w", word)]) <= 14, said
    for key in ("none", "none_recorded", "some", "settled", "sums", "blind", "no_device", "failed"):
        assert len(i18n.say("en", f"workspace.verdict_{key}", {"n": 34, "all": 35}).split()) <= 14


def test_snippets_are_of_causes_and_can_be_read_by_python() -> None:
    assert {cause.split(" ")[0] for cause in SNIPPETS} <= set(CAUSES)
    kinds = {cause: {key.split(" ")[1] for key in SNIPPETS if key.startswith(f"{cause} ")} for cause in CAUSES}
    assert kinds["layout_conversion"] == {kind for kind, _ in CONVERSIONS} | {"NCHW/NHWC"}
    texts = {detector.name: set(detector.text["en"]) for detector in detectors(DEFAULT)}
    assert all(told <= texts[cause] for cause, told in kinds.items() if told and cause != "layout_conversion")
    assert [key for key, snippet in SNIPPETS.items() if snippet is None] == ["imbalance slower"]
    for cause, snippet in SNIPPETS.items():
        if snippet is None:
            continue
        for code in (snippet.before, snippet.after):
            compile(code, cause, "exec")
        assert snippet.before != snippet.after


@pytest.mark.parametrize(
    ("lang", "verdict", "nothing", "sums"),
    [
        ("en", "Only sums were recorded: there are no times to judge.", "Nothing could be judged.",
         "only the profiler's sums were recorded. Of 4.00 ms in op_statistic: MatMul 3.00 ms (75.0 %), Add 1.00 ms "
         "(25.0 %)"),
        ("zh", "只采集到汇总，没有时间可供判断。", "没有可判断的数据。",
         "只采集到 profiler 的汇总。op_statistic 共 4.00 ms，其中：MatMul 3.00 ms (75.0 %), Add 1.00 ms (25.0 %)"),
    ],
)  # fmt: skip
def test_sums_alone_are_no_clean_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str, verdict: str, nothing: str, sums: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    file = tmp_path / "op_statistic_20250109.csv"
    file.write_text(
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
        "0,MatMul,AI_CORE,2,3000,1000,1500,2000,75\n0,Add,AI_VECTOR_CORE,1,1000,1000,1000,1000,25\n"
    )
    ingest.load(file, tmp_path / "store", label="sums")
    page = opened(lang, verdict)
    assert lists(page)[0]["none"] == nothing
    assert sums in texts(page)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_list_of_iterations_alone_is_neither_saved_nor_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    """Three iterations of a graph and nothing else: their mean is known, and no figure that nobody measured is 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    folder = tmp_path / "PROF_000001_20260723130703643_00143733ABCDEFGH" / "mindstudio_profiler_output"
    folder.mkdir(parents=True)
    (folder / "step_trace_20260723130705.csv").write_text(
        "Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),FP to BP Time(us),"
        "Iteration Refresh(us),Data Aug Bound(us),Model ID\n"
        "0,1,0.000,0.000,1784812023719000.000,2000.000,0.000,0.000,0.000,2\n"
        "0,2,0.000,0.000,1784812023722000.000,1500.000,0.000,0.000,0.000,2\n"
        "0,3,0.000,0.000,1784812023725000.000,2500.000,0.000,0.000,0.000,2\n"
    )
    ingest.load(folder.parent, tmp_path / "store", label="iterations")
    verdict = {"en": "This capture cannot tell: what the checks need is missing.",
               "zh": "无法判断：采集数据缺少检查所需的内容。"}  # fmt: skip
    page = opened(lang, verdict[lang])
    (tiles,) = [one.proto.body for one in page.get("html") if 'class="tiles"' in one.proto.body]
    # begin at ...717,000, 720,500 and 722,500 us, the last one lasts 2,500: a mean of 8,000 / 3
    assert re.findall(r"<b>(.*?)</b>", tiles)[:5] == ["2.67 ms", "–", "–", "–", "–"]
