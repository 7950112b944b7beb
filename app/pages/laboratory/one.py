"""One rewrite in full: what to paste, what it replaced in two graphs, and both programs recorded."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import laboratory as look
from npulens.analysis.look.laboratory import Drawing, Result, Trial
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.laboratory import charts as chart
from npulens.app.pages.laboratory import recorded, sentences
from npulens.app.text import wording
from npulens.app.text.i18n import known

#: What of a module's path is listed.
_MODULES = 12


def show(ctx: Context, found: Result) -> None:
    """The chosen rewrite; the fastest of those that are right comes first."""
    run = ctx.run.run_id if ctx.run else ""
    st.subheader(ctx.say("laboratory.one"), anchor="one")
    names = [each["rewrite"] for each in found.trials]
    wanted = st.query_params.get("rewrite")
    usual = min(found.trials, key=_rank)["rewrite"]
    key = f"lab_one_{run}_{ctx.lang}"
    picked = st.selectbox(
        ctx.say("laboratory.pick"), names, index=names.index(wanted if wanted in names else usual), key=key, width=420,
        format_func=lambda name: _called(ctx, found, name),
        on_change=lambda: st.query_params.update({"rewrite": st.session_state[key]}),
    )  # fmt: skip
    trial = next(each for each in found.trials if each["rewrite"] == picked)
    with st.container(key="prose"):
        for sentence in (*sentences.reasons(trial, ctx.lang), *_named(ctx, found, trial)):
            st.text(wording.plain(sentence))
    drawing = found.drawings.get(picked)
    if trial["verdict"] != "refused":
        paste(ctx, trial, drawing)
    graphs(ctx, picked, drawing)
    recorded.show(ctx, found, picked)


def _rank(trial: Trial) -> tuple[int, float]:
    speed = trial.get("speed")
    return ("faster", "same", "cannot_tell", "slower", "refused", "does_not_apply").index(trial["verdict"]), (
        float(speed["ratio"]) if speed else 1.0)  # fmt: skip


def _called(ctx: Context, found: Result, name: str) -> str:
    trial = next(each for each in found.trials if each["rewrite"] == name)
    return wording.plain(f"{name} · {ctx.say('lab.verdict_' + trial['verdict'])}")


def _named(ctx: Context, found: Result, trial: Trial) -> list[str]:
    told = sentences.finding(found, trial["rewrite"], ctx.lang)
    return [] if told == sentences.ABSENT else [ctx.say("laboratory.named_by", {"finding": told})]


def paste(ctx: Context, trial: Trial, drawing: Drawing | None) -> None:
    """What to type into the job, and the lines of it that it is about."""
    st.markdown(f"#### {ctx.say('laboratory.paste')}")
    key = f"laboratory.paste_{trial['verdict']}"
    if known(key):
        st.caption(ctx.say(key))
    if drawing is None or drawing.paste is None:
        st.text(ctx.say("laboratory.no_paste"))
    else:
        st.code(sentences.lines(drawing.paste), language="python")
    for source in drawing.sources if drawing is not None else ():
        place = f"{source['file']}:{source['line']}"
        st.text(wording.plain(ctx.say("laboratory.source", {"place": place, "ops": ", ".join(source["ops"])})))
        st.code(wording.plain(source["code"]), language="python")


def graphs(ctx: Context, name: str, drawing: Drawing | None) -> None:
    """Where in the program something was replaced, and one such place before and after."""
    st.markdown(f"#### {ctx.say('laboratory.graphs')}")
    if drawing is None or not drawing.replaced:
        st.text(ctx.say("laboratory.not_drawn" if drawing is None else "laboratory.not_replaced"))
        return
    run = ctx.run.run_id if ctx.run else ""
    kinds = look.places(drawing)
    places = sum(len(each.modules) for each in kinds)
    st.text(ctx.say("laboratory.counts" if len(kinds) > 1 else "laboratory.counts_alike", {
        "before": f"{drawing.count[0]:,}", "after": f"{drawing.count[1]:,}", "n": places, "kinds": len(kinds),
    }))  # fmt: skip
    if drawing.left_out:
        st.text("◐ " + ctx.say("laboratory.left_out", {"count": f"{drawing.left_out:,}"}))
    st.caption(ctx.say("laboratory.graph_means"))
    chosen = 0
    if len(kinds) > 1:
        chosen = st.selectbox(
            ctx.say("laboratory.place"), range(len(kinds)), key=f"lab_place_{run}_{name}_{ctx.lang}", width=560,
            format_func=lambda place: _place(ctx, kinds[place]),
        )  # fmt: skip
    place = kinds[chosen]
    st.text(_place(ctx, place))
    for column, title, side in zip(st.columns(2, gap="medium"), ("before", "after"),
                                   (place.before, place.after), strict=True):  # fmt: skip
        with column:
            st.caption(ctx.say(f"laboratory.{title}"))
            picture = context.once(chart.graph, side, context.ink())
            st.plotly_chart(picture, key=f"lab_graph_{title}_{run}_{name}_{chosen}_{ctx.lang}",
                            config={"displayModeBar": False}, alt=ctx.say(f"laboratory.{title}"))  # fmt: skip
            if side.left_out > 0:
                st.caption("◐ " + ctx.say("laboratory.side_left_out", {"count": f"{side.left_out:,}"}))
    with st.expander(ctx.say("laboratory.parts")):
        picture = context.once(chart.parts, look.parts(drawing), ctx.say, context.ink())
        st.plotly_chart(picture, config={"displayModeBar": False},
                        key=f"lab_parts_{run}_{name}_{ctx.lang}", alt=ctx.say("laboratory.parts"))  # fmt: skip
    if drawing.difference:
        with st.expander(ctx.say("laboratory.difference")):
            st.code(sentences.lines(drawing.difference), language="diff")


def _place(ctx: Context, place: look.Place) -> str:
    names = [name or ctx.say("laboratory.whole") for name in place.modules]
    told = ctx.say("shell.comma").join(dict.fromkeys(names[:_MODULES]))
    more = len(names) - _MODULES
    text = ctx.say("laboratory.place_of", {"n": len(names), "modules": told})
    return wording.plain(ctx.say("laboratory.and_more", {"what": text, "n": more}) if more > 0 else text)
