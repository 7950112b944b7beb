"""How much of what the device can do is used: the answer, operators below their roofs, and where the rest goes."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from npulens.analysis.look import efficiency as look
from npulens.analysis.modules.measure import Modules
from npulens.analysis.modules.measure import of_run as modules_of
from npulens.analysis.work.roofline import Roofline
from npulens.analysis.work.roofs import Roofs
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.efficiency import charts, modules, table, whole
from npulens.app.panels import store_empty, unmeasured
from npulens.app.selection import bar
from npulens.app.text import i18n, wording, written
from npulens.ingest.messages import render as rendered

TITLE = "efficiency.title"
ICON = ":material/speed:"
ORDER = 29
GROUP = "look"
#: Device time without known work that is worth a sentence.
_NOTABLE = 0.01
#: Reasons told in the answer, and chips that get a plot.
_REASONS, _CHIPS = 3, 6


def render(ctx: Context) -> None:
    """The sentence, the figures, the roofs and the operators first; then what takes longer, each as it comes."""
    st.header(ctx.say("efficiency.question"), anchor="efficiency")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    bar.show(ctx)
    parts = ahead(ctx)
    with st.spinner(ctx.say("shell.measuring")):
        found = parts.first.result()
    if not found.count and bar.nothing(ctx):
        return
    if not found.count:
        if not unmeasured.show(ctx, ("kernel",), "efficiency"):
            unmeasured.nothing(ctx, "kernels.none")
        return
    with st.container(key="answer", gap="xxsmall"):
        answer = st.empty()
        answer.text(_gain(ctx, found) or ctx.say("shell.measuring"))
        caveat = st.empty()
        _answer(ctx, found)
        clock = st.empty()
    mfu = _figures(ctx, found)
    _plots(ctx, found)
    table.show(ctx, found)
    whole.head(ctx)
    fall = st.empty()
    modules.head(ctx)
    below = st.empty()
    parts.drawn.set()
    step = context.awaited(ctx, parts.second, fall)
    _used(ctx, found, step, answer, caveat)
    _mfu(ctx, found, step, mfu)
    if step.clock_share is not None:
        clock.text("◐ " + ctx.say("roofline.clock", {"share": charts.percent(step.clock_share)}))
    with fall.container():
        whole.show(ctx, step.falls)
    told = context.awaited(ctx, parts.third, below)
    with below.container():
        modules.show(ctx, told)


def ahead(ctx: Context) -> context.Parts[look.Efficiency, look.Whole, Modules]:
    """Begins what this page shows, if nobody has."""
    return context.in_parts(ctx, look.efficiency, look.whole, modules_of)


def _gain(ctx: Context, found: look.Efficiency) -> str | None:
    """What better operators would give."""
    return None if found.gain_ns is None else ctx.say("efficiency.answer_gain", {
        "good": f"{found.good:g}", "gain": i18n.duration(found.gain_ns), "step": i18n.duration(found.window_ns),
        "of": _of_what(ctx), "share": i18n.share(found.gain_ns, found.window_ns),
    })  # fmt: skip


def _of_what(ctx: Context) -> str:
    return ctx.say("efficiency.of_steps" if ctx.run and ctx.run.steps else "efficiency.of_whole")


def _used(
    ctx: Context, found: look.Efficiency, step: look.Whole, answer: DeltaGenerator, caveat: DeltaGenerator
) -> None:  # fmt: skip
    """The answer: what the matrix units needed, or why nobody knows, and what better operators would give."""
    used = None if step.hfu is None else ctx.say("efficiency.answer_mfu", {
        "mfu": charts.percent(step.hfu), "of": _of_what(ctx),
    })  # fmt: skip
    told = [text for text in (used, _gain(ctx, found)) if text]
    answer.text(i18n.joined(ctx.lang, told) if told else _no_mfu(ctx, found))
    if told and used is None:
        caveat.text("◐ " + _no_mfu(ctx, found))


def _answer(ctx: Context, found: look.Efficiency) -> None:
    """What the answer does not speak of."""
    sums = found.sums
    unknown = _unknown(sums)
    if unknown >= _NOTABLE:
        st.text("◐ " + ctx.say("efficiency.unknown", {"share": charts.percent(unknown)}))
        for one in sums.missing[:_REASONS]:
            if one.share >= _NOTABLE / 2:
                told = {"share": charts.percent(one.share), "why": why(ctx, one.reason)}
                st.text("• " + ctx.say("efficiency.because", told))
    if sums.collect_with is not None:
        setting = rendered(sums.collect_with, ctx.lang)
        st.text("◐ " + ctx.say("recorded.record_with", {"setting": setting}))
    if found.at_least:
        st.text("◐ " + ctx.say("efficiency.least"))
    if sums.roofs and (sums.mfu_missing or found.at_least):
        st.text(ctx.say("efficiency.measure_roofs"))


def _unknown(sums: Roofline) -> float:
    """The share of device time whose work is not known."""
    return 1 - sums.modelled_ns / sums.kernel_ns if sums.kernel_ns else 0.0


def why(ctx: Context, reason: str) -> str:
    """Why the work of an operator is not known."""
    key = f"roofline.why_{reason}"
    return ctx.say(key) if i18n.known(key) else reason


def _no_mfu(ctx: Context, found: look.Efficiency) -> str:
    sums = found.sums
    if sums.mfu_missing:
        device = ", ".join(table.device(ctx, one.device) for one in sums.roofs)
        return ctx.say("roofline.no_mfu" if device else "roofline.no_mfu_device", {
            "device": device, "precisions": ", ".join(sums.mfu_missing),
        })  # fmt: skip
    return ctx.say("roofline.no_mfu_work" if sums.roofs else "roofline.no_mfu_device")


def _figures(ctx: Context, found: look.Efficiency) -> DeltaGenerator:
    """The figures of the run at a glance; the first one is still being computed, and this is its place."""
    sums = found.sums
    rate = None if not sums.step_flops or not found.window_ns else sums.step_flops * 1e9 / found.window_ns
    share = charts.percent(found.roof_share)
    gain = ctx.say("efficiency.untold") if found.gain_ns is None else i18n.duration(found.gain_ns)
    row = st.container(horizontal=True, key="figures")
    first = row.empty()
    _figure(ctx, found, "mfu", "…", first)
    for name, value in (
        ("roof", f"≥ {share}" if found.at_least and found.roof_share is not None else share),
        ("rate", _least(found, rate, charts.rate(rate, "FLOP/s"))), ("gain", gain),
        ("known", i18n.share(sums.modelled_ns, sums.kernel_ns)),
    ):  # fmt: skip
        _figure(ctx, found, name, value, row)
    return first


def _mfu(ctx: Context, found: look.Efficiency, step: look.Whole, slot: DeltaGenerator) -> None:
    """MFU, or HFU where nothing tells what is computed again."""
    used = step.hfu if step.mfu is None else step.mfu
    name = "mfu" if step.mfu is not None or step.hfu is None else "hfu"
    _figure(ctx, found, name, _least(found, used, charts.percent(used)), slot)


def _figure(ctx: Context, found: look.Efficiency, name: str, value: str, slot: DeltaGenerator) -> None:
    good = {"good": f"{found.good:g}"}
    slot.metric(ctx.say(f"efficiency.figure_{name}", good), value, border=True,
                help=ctx.say(f"efficiency.figure_{name}_means", good))  # fmt: skip


def _least(found: look.Efficiency, amount: float | None, told: str) -> str:
    """Where some work is not known it counts nowhere, so the amount is at least so much."""
    return f"≥ {told}" if amount is not None and _unknown(found.sums) >= _NOTABLE else told


def _plots(ctx: Context, found: look.Efficiency) -> None:
    """One plot a chip."""
    st.subheader(ctx.say("efficiency.plot"), anchor="roofline", help=ctx.say("efficiency.plot_means"))
    for place, chip in enumerate(look.chips(found)[:_CHIPS]):
        _plot(ctx, found, chip, place)


def _plot(ctx: Context, found: look.Efficiency, chip: Roofs | None, place: int) -> None:
    rows = found.operators
    mine = rows[rows["device"].isna()] if chip is None else rows[rows["device"] == chip.device]
    drawn = charts.drawable(mine)
    st.caption(table.device(ctx, chip.device) if chip is not None else ctx.say("efficiency.no_chip"))
    if not len(drawn):
        unmeasured.nothing(ctx, "efficiency.plot_none")
        return
    st.plotly_chart(
        context.once(charts.roofline, mine, chip, ctx.say, context.ink()),
        key=f"efficiency_roofline_{ctx.run.run_id if ctx.run else ''}_{place}_{ctx.lang}",
        config={"displayModeBar": False}, alt=ctx.say("efficiency.plot_alt"),
    )  # fmt: skip
    moving = mine[mine["reason"].isna() & ~mine.index.isin(drawn.index)]
    if len(moving):
        st.text(ctx.say("efficiency.plot_moving", {
            "n": len(moving), "share": charts.percent(float(moving["of_time"].sum())),
        }))  # fmt: skip
    if chip is not None and chip.memory is None:
        st.text(ctx.say("efficiency.plot_no_memory"))
    if chip is not None and len(chip.sources) == 1:
        st.text(ctx.say("roofline.source", {"source": wording.plain(written.source(chip.sources[0], ctx.lang))}))
