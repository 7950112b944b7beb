"""Efficiency: operators and kinds of kernels beside their roofs, by hand; and the page over every kind of run."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from math import log10
from pathlib import Path
from typing import Any

import hostile_capture
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.look import efficiency as look
from npulens.analysis.look.kernels import Filter, members, table
from npulens.analysis.look.replay import replay
from npulens.analysis.modules.measure import ZERO, Module
from npulens.analysis.run import Run
from npulens.analysis.work.waterfall import PARTS
from npulens.app import context
from npulens.app.charts import style
from npulens.app.pages.efficiency import charts
from npulens.app.pages.efficiency import table as told
from npulens.app.text import i18n
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import verbatim
from tests.tablecase import connection
from tests.test_work_roofline import BF16, H100, MM, kernel, operator

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("en", "zh")
SAMPLES = (("kineto", "en"), ("torch_npu_db", "en"), ("torch_npu_text", "zh"), ("cpu_conv_unfused", "zh"))
#: Adds two tensors of 3.35e6 bytes to a third: 3 us at 3.35e12 bytes a second, 1.675e6 operations.
ADD = operator(11, 20, "aten::add", "[[1000, 1675], [1000, 1675], []]", BF16[:-1] + ', "Scalar"]')
#: A copy of one of them: 2 us.
COPY = operator(21, 40, "aten::copy_", "[[1000, 1675], [1000, 1675]]", BF16)
SPANS = [*MM, kernel(3, 10, 6, 2), kernel(4, 16, 2, 2, "reduce"), *ADD, kernel(13, 30, 12, 12, "sum"),
         *COPY, kernel(23, 50, 1, 22, "move")]  # fmt: skip


def case(spans: list[dict[str, Any]], **more: Any) -> Any:
    con = connection({"spans": spans, "rank": {0: H100}, **more})
    views.install(con)
    return con


def rated(con: Any, what: Filter) -> pd.DataFrame:
    return look.of_kernels(look.rates(con), members(con, "name", what))


def test_the_sums_of_a_run_worked_out_by_hand() -> None:
    mark = {"id": 90, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100}
    run = Run(case([mark, *SPANS]))
    found = look.efficiency(run)
    assert list(found.operators["operator"]) == ["add", "mm", "copy_"]  # 12, 8 and 1 us
    assert found.window_ns == 100_000 and look.whole(run).mfu == pytest.approx(2 / 100)
    # The product needs 2 of 8 us, the sum 3 of 12; the copy is faster than its roof, so it has no share.
    assert found.roof_share == pytest.approx(5 / 20) and found.roof_known_ns == 20_000
    assert found.gain_ns == (8_000 - 2_857) + (12_000 - 4_286) and not found.at_least
    rows = found.operators.set_index("operator")
    assert rows.loc["mm", "intensity"] == pytest.approx(1.978e9 / 5.956e6)
    assert rows.loc["copy_", "above"] == pytest.approx(2.0) and pd.isna(rows.loc["copy_", "share"])
    assert pd.isna(rows.loc["copy_", "intensity"]) and pd.isna(rows.loc["copy_", "flops_per_s"])
    assert rows["of_time"].sum() == pytest.approx(1)


def test_the_parts_of_the_mean_step_sum_to_it() -> None:
    marks = [{"id": 90 + step, "kind": "step_mark", "name": f"ProfilerStep#{step}", "at": 100 * step, "for": 100}
             for step in (0, 1, 2)]  # fmt: skip
    fall = look.whole(Run(case([*marks, *SPANS]))).falls["all"]
    parts = {part.name: part.ns for part in fall.parts}
    assert (fall.windows, fall.dur_ns, fall.residual_ns) == (3, 100_000, 0)
    assert sum(parts.values()) == 100_000  # although 79 us of idle time in three steps leave a rest
    assert parts["at_peak"] == pytest.approx(2_000 / 3, abs=1) and fall.hfu == pytest.approx(2 / 300)


def test_the_waterfall_begins_each_part_where_the_last_one_ends() -> None:
    parts = (look.Part("at_peak", 2_000_000), look.Part("matrix_slow", 6_000_000), look.Part("idle", 92_000_000))
    (bars,) = charts.waterfall(parts, say, "#000").data
    assert list(bars.base) == [0, 2, 8, 0] and list(bars.x) == [2, 6, 92, 100]
    assert bars.text[1] == "6.000 ms · 6.0 %" and set(charts.PARTS) == set(PARTS)


def test_every_part_and_bound_has_a_name_in_both_languages() -> None:
    names = [f"part_{name}{end}" for name in (*PARTS, "whole") for end in ("", "_means")]
    names += [f"dots_{name}" for name in (*charts.MARKS, "above")] + [f"part_{name}" for name in charts.PARTS]
    assert [name for name in names if not i18n.known(f"efficiency.{name}")] == []


def test_what_bounds_an_operator_by_its_counters_where_its_roof_is_not_known() -> None:
    shaped = {"op_type": "MatMulV3", "core": "AI_CORE", "input_shapes": "64,64;64,64", "input_formats": "ND;ND",
              "input_dtypes": "DT_BF16;DT_BF16", "output_shapes": "64,64", "output_dtypes": "DT_BF16",
              "output_formats": "ND"}  # fmt: skip
    spans = [{"id": 1, "kind": "kernel", "name": "mm", "at": 0, "for": 100, "kernel": shaped}]
    counted = [{"span_id": 1, "rank": 0, "metric": f"{pipe}_ratio", "value": value}
               for pipe, value in (("aic_mte2", 0.9), ("aic_mac", 0.2))]  # fmt: skip
    con = connection({"spans": spans, "rank": {0: {"backend": "npu", "device_name": "Ascend910B1"}},
                      "tables": {"pmu": counted}})  # fmt: skip
    views.install(con)
    found = look.efficiency(Run(con))
    (row,) = [row for _, row in found.operators.iterrows()]
    assert (row["told"], row["pipe"]) == ("memory_counted", "aic_mte2") and not isinstance(row["bound"], str)
    assert found.at_least and found.gain_ns is None  # its memory's bandwidth has no source
    assert found.chosen[0].pipes == (("aic_mte2", 0.9), ("aic_mac", 0.2))


def test_every_module_hangs_on_the_one_that_calls_it() -> None:
    def row(at: int, parent: int, name: str, ns: int) -> Module:
        own = replace(ZERO, device_ns=ns)
        return Module(at, parent, 0 if parent < 0 else 1, "module", "Linear", name, name, 1, 0, own, own)

    rows = [row(0, -1, "<b>model", 900), row(1, 0, "first", 600), row(2, 0, "narrow", 0)]
    (tree,) = charts.modules([*rows, replace(row(3, -1, "outside", 100), place="outside")], 1, say, "#000").data
    assert list(zip(tree.ids, tree.parents, tree["values"], strict=True)) == [
        ("all", "", 1000), ("0", "all", 900), ("1", "0", 600), ("3", "all", 100),
    ]  # fmt: skip
    assert tree.labels[1] == "&lt;b&gt;model Linear" and tree.labels[3] == say("efficiency.place_outside", {})


def test_the_command_that_replays_an_operator_means_that_operator() -> None:
    other = operator(31, 60, "aten::mm", "[[8, 8], [8, 8]]", BF16)
    con = case([*SPANS, *other, kernel(33, 70, 2, 32)])
    found = look.efficiency(Run(con))
    for place, one in enumerate(found.chosen):
        (name,) = shlex.split(told.replayed(found, place))
        (choice,) = replay(con, name).choices
        assert (choice.operator.removeprefix("aten::"), choice.shapes, choice.ns) == (one.name, one.shapes, one.ns)


def test_types_that_repeat_are_said_once() -> None:
    said = [told._types(text) for text in ("FLOAT;FLOAT;FLOAT;INT64;FLOAT", '["c10::BFloat16","float"]', None)]
    assert said == ["FLOAT × 3; INT64; FLOAT", "BFloat16; float", "–"]


def test_colours_of_shares_go_from_one_end_to_the_other() -> None:
    assert charts.shade(0.0) == "#d55e00" and charts.shade(1.0) == "#0072b2"
    assert charts.shade(0.5) == "#f0d9a8" and charts.shade(None) == style.IDLE


def test_the_chosen_operator_leads_to_its_longest_kernel() -> None:
    found = look.efficiency(Run(case(SPANS)))
    one = found.chosen[list(found.operators["operator"]).index("mm")]
    assert (one.span_id, one.ts_ns, one.dur_ns, one.rank) == (3, 10_000, 6_000, 0)
    assert one.matrix_ns == pytest.approx(2_000) and one.memory_ns == pytest.approx(5.956e6 / 3.35e3)
    assert (one.calls, one.kernels, one.precision) == (1, 2, "bf16")


def test_kinds_of_kernels_have_a_share_where_whole_calls_are_in_them() -> None:
    con = case(SPANS)
    kinds = table(con, "name", Filter()).groups.merge(rated(con, Filter()), on="key")
    rows = kinds.set_index("name")
    assert rows.loc["sum", "roof_share"] == pytest.approx(0.25)
    assert rows.loc["sum", "flops_per_s"] == pytest.approx(1.675e6 / 12e-6)
    # The product's call launched two kernels of different names: its roof belongs to neither of them.
    assert rows.loc[["gemm", "reduce"], "roof_share"].isna().all()
    assert pd.isna(rows.loc["move", "roof_share"])  # above its roof
    text = Filter(text="gemm")  # of the call's two kernels one is left, so nothing can be said of it
    assert rated(con, text)["roof_share"].isna().all()


def test_kernels_of_one_call_in_one_group_share_its_roof() -> None:
    con = case([*MM, kernel(3, 10, 6, 2), kernel(4, 16, 2, 2)])
    (share,) = rated(con, Filter())["roof_share"]
    assert share == pytest.approx(2 / 8)


def test_a_group_of_which_too_little_is_known_has_no_share() -> None:
    nameless = {"id": 30, "kind": "kernel", "name": "sum", "at": 60, "for": 16}
    con = case([*ADD, kernel(13, 30, 12, 12, "sum"), nameless])
    assert rated(con, Filter())["roof_share"].isna().all()  # 12 of 28 us are less than half
    con = case([*ADD, kernel(13, 30, 12, 12, "sum"), {**nameless, "for": 10}])
    (share,) = rated(con, Filter())["roof_share"]
    assert share == pytest.approx(3 / 12)  # of the kernels whose roof is known


def say(key: str, values: Any) -> str:
    return i18n.say("en", key, values)


def test_the_plot_has_every_dot_below_the_line_it_is_measured_by() -> None:
    found = look.efficiency(Run(case(SPANS)))
    (chip,) = look.chips(found)
    assert chip is not None
    picture = charts.roofline(found.operators, chip, say, "#000")
    lines = [trace for trace in picture.data if trace.mode == "lines"]
    slope = next(line for line in lines if "memory" in line.name)
    assert slope.y[0] / slope.x[0] == pytest.approx(3.35e12) and slope.y[1] == pytest.approx(989e12)
    flat = next(line for line in lines if "bf16" in line.name)
    assert flat.x[0] == pytest.approx(989e12 / 3.35e12) and set(flat.y) == {989e12}
    dots = {place: (x, y) for trace in picture.data if trace.mode == "markers"
            for place, x, y in zip(trace.customdata, trace.x, trace.y, strict=True)}  # fmt: skip
    assert len(dots) == 2  # the copy computes nothing
    for place, (x, y) in dots.items():
        row = found.operators.loc[place]
        roof = min(x * 3.35e12, 989e12 if row["precision"] == "bf16" else float("inf"))
        assert y / roof == pytest.approx(row["share"])
    low, high = picture.layout.xaxis.range
    assert all(low < log10(x) < high for x, _ in dots.values())


def test_what_is_above_its_roof_is_hollow() -> None:
    found = look.efficiency(Run(case([*ADD, kernel(13, 30, 2, 12, "sum")])))
    (chip,) = look.chips(found)
    (dots,) = [trace for trace in charts.roofline(found.operators, chip, say, "#000").data if trace.mode == "markers"]
    assert dots.marker.symbol.endswith("-open") and "1.50 times its roof" in dots.hovertext[0]
    assert found.roof_share is None and found.gain_ns is None


def test_amounts_as_people_write_them() -> None:
    assert charts.rate(6.105e14, "FLOP/s") == "610.5 TFLOP/s" and charts.rate(None, "B/s") == "–"
    assert charts.rate(12.0, "FLOP/s") == "12 FLOP/s" and charts.percent(0.617) == "61.7 %"


# The page.


def page() -> None:
    from npulens.app import context
    from npulens.app.pages.efficiency import page as drawn

    drawn.render(context.current())


def page_or_error() -> None:
    import streamlit as st

    from npulens.app import context
    from npulens.app.pages.efficiency import page as drawn
    from npulens.ingest.errors import IngestError

    try:
        drawn.render(context.current())
    except IngestError as error:
        st.error(f"{error.kind}: {error}")


def opened(lang: str, run_id: str | None = None) -> AppTest:
    shown = AppTest.from_function(page, default_timeout=120)
    shown.query_params["lang"] = lang
    if run_id:
        shown.query_params["run"] = run_id
    shown.run()
    assert not shown.exception, shown.exception[0].value
    return shown


def texts(shown: AppTest) -> str:
    return "\n".join(element.value for element in shown.text)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "store"
    monkeypatch.setenv("NPULENS_STORE", str(place))
    return place


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_empty_store_is_said(lang: str, store: Path) -> None:
    shown = opened(lang)
    assert i18n.say(lang, "shell.bring_one") in texts(shown) and not shown.dataframe


def test_a_run_without_a_device_says_what_lacks(store: Path, tmp_path: Path) -> None:
    trace = tmp_path / "host.json"
    event = {"ph": "X", "cat": "user_annotation", "name": "one", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    trace.write_text(json.dumps({"traceEvents": [event]}))
    ingest.load(trace, store)
    shown = opened("en")
    assert "not measured" in texts(shown) and not shown.metric and not shown.get("plotly_chart")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_names_of_a_hostile_capture_stay_text(lang: str, store: Path, tmp_path: Path) -> None:
    ingest.load(hostile_capture.write(tmp_path / "trace.json"), store)
    shown = opened(lang)
    for kind in ("markdown", "caption", "subheader", "title", "header", "info", "error", "warning", "success"):
        for element in shown.get(kind):
            assert "pwned" not in str(getattr(element, "value", "")), f"{kind} shows a name from the capture"
    for chart in shown.get("plotly_chart"):
        assert "<script" not in chart.proto.spec and "<img" not in chart.proto.spec


@pytest.mark.parametrize(("sample", "lang"), SAMPLES)
def test_samples(sample: str, lang: str, store: Path) -> None:
    run_id = str(ingest.load(ROOT / "sample_traces" / sample, store).runs[0].run_id)
    shown = opened(lang, run_id)
    (rows,) = [frame.value for frame in shown.dataframe if "note" in frame.value]
    assert len(rows) > 0 and len(shown.metric) == 5
    reasons = [value for value in rows["note"] if isinstance(value, str)]
    assert not any("{" in text for text in (*reasons, texts(shown)))


def test_what_takes_longer_begins_when_the_operators_are_drawn(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_PATIENCE", 300.0)
    told_of, counted_as = told.show, look.whole
    order: list[str] = []

    def shown(ctx: context.Context, found: look.Efficiency) -> None:
        told_of(ctx, found)
        order.append("table")

    def counted(run: Run) -> look.Whole:
        order.append("whole")
        return counted_as(run)

    monkeypatch.setattr(told, "show", shown)
    monkeypatch.setattr(look, "whole", counted)
    run_id = str(ingest.load(ROOT / "sample_traces" / "kineto", store).runs[0].run_id)
    first = opened("en", run_id)
    assert order == ["table", "whole"] and "…" not in [metric.value for metric in first.metric]
    first.run()
    assert order == ["table", "whole", "table"], "what was computed is kept"


def test_a_failure_is_not_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failed = look.efficiency, list[bool]()

    def once(run: Run) -> look.Efficiency:
        if not failed:
            failed.append(True)
            raise IngestError("settings", verbatim("not today"))
        return real(run)

    monkeypatch.setattr(look, "efficiency", once)
    ingest.load(ROOT / "sample_traces" / "kineto", store)
    shown = AppTest.from_function(page_or_error, default_timeout=120)
    shown.query_params["lang"] = "en"
    shown.run()
    shown.run()
    assert failed and not shown.error and len(shown.metric) == 5


def test_a_capture_without_shapes_names_the_setting(store: Path, tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "pid": 0, "tid": 7, "args": {"device": 0}}
    (tmp_path / "trace.json").write_text(json.dumps({
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}], "traceEvents": [
            event, {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 1, "pid": 1, "tid": 1},
        ],
    }))  # fmt: skip
    ingest.load(tmp_path / "trace.json", store)
    told = texts(opened("en"))
    assert "For 100.0 % of device time the work is not known" in told
    assert i18n.say("en", "roofline.why_no_operator") in told
