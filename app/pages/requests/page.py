"""Why a request is slow: percentiles taken apart, requests around one of them, and one of those with the engine."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.serving import look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.requests import charts as chart
from npulens.app.panels import link, store_empty, unmeasured
from npulens.app.panels import pick_rows as table
from npulens.app.settings.of_checks import in_force
from npulens.app.text import i18n, wording

TITLE = "requests.title"
ICON = ":material/forum:"
ORDER = 21
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the percentiles, the requests around one, and one of them down to its iterations."""
    st.header(ctx.say("requests.question"), anchor="requests")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    found = context.measured(ctx, look.look, in_force(None).slo)
    if found is None:
        unmeasured.nothing(ctx, "requests.none")
        return
    with st.container(key="answer", gap="xxsmall"):
        _answer(ctx, found)
    run = ctx.run.run_id
    st.subheader(ctx.say("requests.percentiles"), anchor="percentiles")
    st.caption(ctx.say("requests.percentiles_help"))
    picture = context.once(chart.percentiles, found.percentiles, ctx.say, context.ink())
    st.plotly_chart(picture, key=f"requests_{run}_{ctx.lang}",
                    config={"displayModeBar": False}, alt=ctx.say("requests.percentiles_alt"))  # fmt: skip
    around = _chosen_percentile(ctx, found)
    if not len(around):
        return
    key = _choose(ctx, around)
    _one(ctx, key)


def _answer(ctx: Context, found: look.Requests) -> None:
    st.text(ctx.say("requests.answer", {
        "good": found.good, "counted": found.counted, "ttft": i18n.duration(found.slo.ttft_ns),
        "tpot": i18n.duration(found.slo.tpot_ns),
    }))  # fmt: skip
    if found.lost:
        parts = [
            ctx.say("requests.lost_by", {"n": n, "kind": ctx.say(f"requests.kind_{kind}")})
            for kind, n in found.lost.items()
        ]
        st.text(ctx.say("requests.lost", {"lost": ctx.say("findings.wide_comma").join(parts)}))
    if found.export_ns:
        values = {"export": i18n.duration(found.export_ns), "n": found.left_out}
        st.text(ctx.say("requests.left_out", values))


def _chosen_percentile(ctx: Context, found: look.Requests) -> pd.DataFrame:
    """The requests around the percentile that is chosen; at first P99 of TTFT."""
    told = {f"{one.measure}{one.percent}": one for one in found.percentiles}
    names = {
        at: f"{one.measure.upper()} P{one.percent} · {i18n.duration(round(one.value_ns))}" for at, one in told.items()
    }
    run = ctx.run.run_id if ctx.run else ""
    first = "ttft99" if "ttft99" in names else next(iter(names), None)
    picked = st.segmented_control(
        ctx.say("requests.pick"), list(names), default=first, format_func=names.__getitem__, required=True,
        key=f"requests_at_{run}",
    )  # fmt: skip
    if picked is None:
        return found.rows.head(0)
    st.subheader(ctx.say("requests.choose", {"what": names[picked]}), anchor="around")
    return look.near(found.rows, told[picked].measure, told[picked].percent)


def _choose(ctx: Context, rows: pd.DataFrame) -> int:
    say = ctx.say
    shown = table.in_ms(rows, ("ttft_ns", "tpot_ns", "whole_ns")).assign(most=chart.told(rows["most"], say))
    run = ctx.run.run_id if ctx.run else ""
    named = f"requests_rows_{run}_{ctx.lang}_{rows['key'].iloc[0]}_{len(rows)}"
    at = table.pick(shown, {
        "id": table.text(say("requests.col_id")), "ttft_ns": table.milli(say("requests.col_ttft")),
        "tpot_ns": table.milli(say("requests.col_tpot")), "whole_ns": table.milli(say("requests.col_whole")),
        "prompt": table.count(say("requests.col_prompt")), "output": table.count(say("requests.col_output")),
        "most": table.text(say("requests.col_most")),
    }, named, say("requests.title"), 5)  # fmt: skip
    return int(rows["key"].iloc[at])


def _one(ctx: Context, key: int) -> None:
    """A request on one axis with the engine, and its parts one by one."""
    found = context.measured(ctx, look.around, key)
    if found is None:
        unmeasured.nothing(ctx, "requests.parts_none")
        return
    mine = found.pieces[found.pieces["request"] == key].sort_values("dur_ns", ascending=False, kind="stable")
    mine = mine.reset_index(drop=True)
    name = wording.plain(str(mine["id"].iloc[0]))
    st.subheader(ctx.say("requests.axis", {"id": name}), anchor="axis")
    run = ctx.run.run_id if ctx.run else ""
    picture = context.once(chart.axis, found, ctx.say, context.ink())
    st.plotly_chart(picture, key=f"requests_axis_{run}_{ctx.lang}_{key}",
                    config={"displayModeBar": False}, alt=ctx.say("requests.axis_alt"))  # fmt: skip
    st.subheader(ctx.say("requests.parts"), anchor="parts")
    shown = table.in_ms(mine.assign(start=mine["ts_ns"] - found.begin_ns), ("start", "dur_ns")).assign(
        kind=chart.told(mine["kind"], ctx.say)
    )
    at = table.pick(shown, {
        "kind": table.text(ctx.say("requests.col_kind")), "start": table.milli(ctx.say("requests.col_start")),
        "dur_ns": table.milli(ctx.say("requests.col_dur")), "iteration": table.count(ctx.say("requests.col_iteration")),
    }, f"requests_parts_{run}_{ctx.lang}_{key}", ctx.say("requests.parts"))  # fmt: skip
    piece = mine.iloc[at]
    place = None if pd.isna(piece["iteration"]) else int(piece["iteration"])
    _inside(ctx, found, int(piece["ts_ns"]), int(piece["dur_ns"]), place)


def _inside(ctx: Context, around: look.Around, ts_ns: int, dur_ns: int, place: int | None) -> None:
    """The iteration of the chosen part, or the gap, down to its kernels."""
    rank = -1 if around.rank is None else around.rank
    found = context.measured(ctx, look.inside, ts_ns, dur_ns, place, rank)
    named = ctx.say("requests.inside_gap" if found.kind is None else "requests.inside_iteration", {"place": place})
    st.subheader(named, anchor="inside")
    length = i18n.duration(found.dur_ns)
    if found.kind is None:
        st.text(ctx.say("requests.gap_about", {"dur": length}))
    else:
        kind = ctx.say(f"requests.class_{found.kind}") if i18n.known(f"requests.class_{found.kind}") else found.kind
        st.text(ctx.say("requests.hover_iteration", {
            "kind": kind, "dur": length, "ctx": found.ctx_tokens, "gen": found.gen_requests}))  # fmt: skip
        if found.alike:
            st.text(ctx.say("requests.alike", {"n": f"{found.alike:,}", "dur": i18n.duration(found.alike_ns)}))
    if around.rank is None:
        st.caption(ctx.say("requests.no_trace"))
        return
    if not len(found.kernels):
        st.caption(ctx.say("requests.no_kernels"))
        link.to_timeline(ctx, "shell.on_timeline", found.begin_ns, found.dur_ns, around.rank, key="request")
        return
    st.text(ctx.say("requests.busy", {"busy": i18n.duration(found.busy_ns), "of": length}))
    shown = table.in_ms(found.kernels, ("dur_ns", "longest_ns"))
    run = ctx.run.run_id if ctx.run else ""
    at = table.pick(shown, {
        "name": table.text(ctx.say("requests.col_kernel"), wide=True),
        "count": table.count(ctx.say("requests.col_count")),
        "dur_ns": table.milli(ctx.say("requests.col_dur")), "longest_ns": table.milli(ctx.say("requests.col_longest")),
    }, f"requests_kernels_{run}_{ctx.lang}_{ts_ns}_{place}", named)  # fmt: skip
    kernel = found.kernels.iloc[at]
    link.to_timeline(ctx, "shell.on_timeline", int(kernel["ts_ns"]), int(kernel["longest_ns"]), around.rank,
                     int(kernel["span_id"]), key="request")  # fmt: skip
