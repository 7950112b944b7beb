"""Runs, ranks or steps, one or several a side: the verdict, what the change is made of, its parts, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.finding import Finding
from npulens.analysis.look import alike, compare
from npulens.analysis.look.compare import Delta
from npulens.analysis.look.matched import matched
from npulens.analysis.regression.change import Contribution
from npulens.analysis.regression.compared import Compared, compared
from npulens.analysis.regression.matching import LEVELS
from npulens.analysis.regression.pieces import Measured, NotExact, measure
from npulens.analysis.regression.verdict import RULE
from npulens.analysis.say import duration
from npulens.app import context, run_compare
from npulens.app.context import Context
from npulens.app.pages.compare import charts as chart
from npulens.app.pages.compare import of_requests, pick, split, together
from npulens.app.pages.compare.half import Half, Pair
from npulens.app.pages.compare.split import scope
from npulens.app.panels import cells, pick_rows, run_list
from npulens.app.report.subject import Subject
from npulens.app.text import i18n, wording
from npulens.ingest.errors import IngestError

TITLE = "compare.title"
ICON = ":material/compare_arrows:"
ORDER = 60
GROUP = "data"


def render(ctx: Context) -> None:
    """Choose two sides, then everything that differs."""
    st.header(ctx.say("compare.question"), anchor=False)
    if ctx.run is None:
        st.text(ctx.say("compare.empty"))
        return
    pair = pick.show(ctx)
    if pair is None:
        return
    of_requests_too = of_requests.show(ctx, pair)
    if pair.base.empty or pair.head.empty:
        if not of_requests_too:
            st.text(ctx.say("compare.no_time"))
        return
    show_verdict(ctx, pair)
    split.show(ctx, pair)
    split.gaps(ctx, pair)
    together.timelines(ctx, pair)
    kernels(ctx, pair)
    together.flames(ctx, pair)
    host(ctx, pair)
    show_findings(ctx, pair)


# What ran on both sides: kernels by type and shape, host calls by name. New, gone, more often, longer.
_GROUPS = {"type": ("op",), "shape": ("op", "core", "shapes", "dtypes")}
_STATES = ("new", "gone", "count", "time", "same")


def kernels(ctx: Context, pair: Pair) -> None:
    """Kernels of both sides, the largest change first."""
    st.subheader(ctx.say("compare.kernels"), anchor=False, help=ctx.say("compare.kernels_help"))
    base, head = (half.together(compare.kernels) for half in (pair.base, pair.head))
    if base.empty and head.empty:
        st.text(ctx.say("compare.kernels_none"))
        return
    if not base.empty and not head.empty and bool(base["typed"].any()) != bool(head["typed"].any()):
        st.text("◐ " + ctx.say("compare.kernels_untyped"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        group = st.segmented_control(
            ctx.say("compare.group"), list(_GROUPS), default="type", required=True, key="compare_group",
            format_func=lambda name: ctx.say(f"compare.group_{name}"),
        ) or "type"  # fmt: skip
        only = st.toggle(ctx.say("compare.only_changed"), key="compare_only_kernels")
    keys = _GROUPS[group]
    found = context.once(matched, base, head, keys, _counts(pair))
    _show(ctx, pair, found, {name: ctx.say(f"compare.col_{name}") for name in keys}, only, "kernels")


def host(ctx: Context, pair: Pair) -> None:
    """Host calls of both sides, folded: there are many, and they nest."""
    with st.expander(ctx.say("compare.host")):
        st.caption(ctx.say("compare.host_help"))
        base, head = (half.together(compare.host_calls) for half in (pair.base, pair.head))
        if base.empty and head.empty:
            st.text(ctx.say("compare.host_none"))
            return
        if any(len(each) >= compare.MOST_NAMES for half in (pair.base, pair.head)
               for each in half.each(compare.host_calls)):  # fmt: skip
            st.text("◐ " + ctx.say("compare.host_cut", {"most": f"{compare.MOST_NAMES:,}"}))
        only = st.toggle(ctx.say("compare.only_changed"), key="compare_only_host")
        found = context.once(matched, base, head, ("kind", "name"), _counts(pair))
        _show(ctx, pair, found, {name: ctx.say(f"compare.col_{name}") for name in ("name", "kind")}, only, "host")


def _counts(pair: Pair) -> tuple[int, int]:
    return len(pair.base.side.windows), len(pair.head.side.windows)


def _show(
    ctx: Context, pair: Pair, found: pd.DataFrame, heads: Mapping[str, str], only_changed: bool, key: str
) -> None:
    st.text(ctx.say("compare.states", {state: int((found["state"] == state).sum()) for state in _STATES}))
    if only_changed:
        found = found[found["state"] != "same"]
    _table(ctx, pair, found, heads, key)


def _table(ctx: Context, pair: Pair, found: pd.DataFrame, heads: Mapping[str, str], key: str) -> None:
    """Numbers stay numbers here, so that a click on a head sorts by them."""
    names: Sequence[str] = list(heads)
    shown = found[names].copy()
    shown["state"] = [ctx.say(f"compare.state_{state}") for state in found["state"]]
    sides = {"base": pair.base.short, "head": pair.head.short}
    number = st.column_config.NumberColumn
    columns = {name: st.column_config.TextColumn(head, width="medium") for name, head in heads.items()}
    columns["state"] = st.column_config.TextColumn(ctx.say("compare.state"), width="small")
    for side, name in sides.items():
        shown[f"{side}_count"] = found[f"{side}_count"]
        columns[f"{side}_count"] = number(ctx.say("compare.col_count", {"side": name}), format="%,.4g")
    times = ["base_ns", "head_ns", "change_ns"]
    unit, scale = pick_rows.unit(pd.concat([found[name] for name in times]).astype("float64"))
    shown[times] = found[times] / scale
    for side, name in sides.items():
        columns[f"{side}_ns"] = number(ctx.say("compare.col_time", {"side": name, "unit": unit}), format=cells.FOUR)
    columns["change_ns"] = number(ctx.say("compare.col_change_in", {"unit": unit}), format="%+,.4g")
    st.dataframe(
        cells.safe(shown), hide_index=True, key=f"compare_{key}_{ctx.lang}", column_config=columns,
        alt=ctx.say(f"compare.{key}_help"), placeholder=cells.ABSENT,
    )  # fmt: skip


# What the detectors say of either side. A detector that could not look has not found nothing.
def show_findings(ctx: Context, pair: Pair) -> None:
    """One row a detector that found something on a side; of several runs a side, on its first."""
    st.subheader(ctx.say("compare.findings"), anchor=False, help=ctx.say("compare.findings_help"))
    try:
        found = [context.judgement(half.ctx) for half in (pair.base, pair.head)]
    except IngestError as error:
        st.error(ctx.say("findings.failed"))
        st.text(wording.error(error, ctx.lang))
        return
    base, head = found
    if base is None or head is None:
        _wait(ctx, pair)
        return
    if pair.by != "runs":
        st.text(ctx.say("compare.findings_same_run"))
    for half in (half for half in (pair.base, pair.head) if len(half.parts) > 1):
        run = wording.plain(run_list.name(ctx, half.parts[0].run))
        st.text("◐ " + ctx.say("compare.findings_first", {"side": wording.plain(half.name), "run": run}))
    rows = _rows(ctx, pair, base, head)
    if not rows:
        st.text(ctx.say("compare.findings_none"))
        return
    heads = {
        "detector": ctx.say("compare.col_detector"),
        "base": ctx.say("compare.col_saving", {"side": pair.base.short}),
        "head": ctx.say("compare.col_saving", {"side": pair.head.short}),
        "title": ctx.say("compare.col_title"),
    }  # fmt: skip
    cells.show(pd.DataFrame(rows), heads, f"compare_findings_{ctx.lang}", ctx.say("compare.findings_help"),
               right=("base", "head"))  # fmt: skip


@st.fragment(run_every=1.0)
def _wait(ctx: Context, pair: Pair) -> None:
    halves = (pair.base.ctx, pair.head.ctx)
    st.text(ctx.say("compare.findings_working", {"n": round(max(context.judging_for(half) for half in halves))}))
    if all(context.judged(half) for half in halves):
        st.rerun()


def _rows(ctx: Context, pair: Pair, base: Subject, head: Subject) -> list[dict[str, str]]:
    ours, theirs = _of(pair.base, base), _of(pair.head, head)
    order = sorted(
        ours.keys() | theirs.keys(),
        key=lambda name: (-max(_saving(ours.get(name, [])), _saving(theirs.get(name, []))), name),
    )
    return [{
        "detector": name, "base": _cell(ctx, name, ours, base), "head": _cell(ctx, name, theirs, head),
        "title": wording.plain((theirs.get(name) or ours[name])[0].words[ctx.lang].title),
    } for name in order]  # fmt: skip


def _of(half: Half, subject: Subject) -> dict[str, list[Finding]]:
    """Findings with evidence in a side's windows, by detector."""
    first, windows = half.parts[0], half.first.side.windows
    found: dict[str, list[Finding]] = {}
    for finding in subject.check.findings:
        everywhere = first.ranks is None and first.steps is None
        if everywhere or any(
            e.rank == w.rank and e.ts_ns < w.start_ns + w.dur_ns and e.ts_ns + e.dur_ns > w.start_ns
            for e in finding.evidence for w in windows
        ):  # fmt: skip
            found.setdefault(finding.detector, []).append(finding)
    return found


def _saving(findings: list[Finding]) -> int:
    return sum(finding.saving_ns for finding in findings)


def _cell(ctx: Context, name: str, found: dict[str, list[Finding]], subject: Subject) -> str:
    """What a fix gives back, else how the detector ended."""
    if name in found:
        share = sum(finding.saving_share for finding in found[name])
        return f"{duration(_saving(found[name]))} · {wording.share(share)}"
    ended = next((outcome.outcome for outcome in subject.check.outcomes if outcome.detector == name), "not_measured")
    return ctx.say("compare.outcome_elsewhere" if ended == "found" else f"compare.outcome_{ended}")


# Whether head is slower, how sure that is, what would settle it, and what the change is made of.
_MOST = 10  # bars of the waterfall
_LABEL = 33  # letters of a label beside a bar


def show_verdict(ctx: Context, pair: Pair) -> None:
    """The panel."""
    level = st.session_state.get("compare_by_level") or LEVELS[0]
    try:
        base, head = pair.base.each(measure), pair.head.each(measure)
        known = run_compare.drift(ctx.store, (_ids(base), _ids(head)), None)
        found = context.once(compared, base, head, level, RULE, known.share, pair.in_turns)
    except NotExact as error:
        st.error(ctx.say("verdict.not_exact"))
        st.text(wording.error(error, ctx.lang))
        return
    _answer(ctx, pair, found, run_compare.Asked(RULE.margin, RULE.alpha, known))
    st.subheader(ctx.say("verdict.waterfall"), anchor=False, help=ctx.say("verdict.waterfall_help"))
    if found.change.delta_ns or any(one.delta_ns for one in found.change.contributions):
        _waterfall(ctx, found)
    else:
        st.text(ctx.say("compare.unchanged"))
    _movers(ctx, pair, found)
    commands = run_compare.scripts(found, (_ids(base)[0], _ids(head)[0]), _MOST)
    if commands:
        with st.expander(ctx.say("verdict.replay")):
            st.code("\n".join(commands), language=None, wrap_lines=True)


def _ids(side: Sequence[Measured]) -> list[str]:
    return [one.side.about.run_id for one in side]


def _answer(ctx: Context, pair: Pair, found: Compared, asked: run_compare.Asked) -> None:
    """The sentence to take away, how sure it is, what it is about, and what makes the sides unlike."""
    colour, icon = of_requests.BADGES[found.verdict.said]
    with st.container(key="answer", gap="xxsmall"):
        st.badge(ctx.say(f"verdict.{found.verdict.said}"), color=colour, icon=icon)
        largest = next((one for one in found.change.contributions if one.delta_ns), None)
        text = run_compare.answer(found, ctx.lang)
        if largest is not None:
            text = i18n.joined(ctx.lang, (text, ctx.say("verdict.most_of_it", {
                "what": run_compare.called(largest, ctx.lang, found.change.mhz),
                "change": run_compare.signed(largest.delta_ns)})))  # fmt: skip
        st.text(text)
        for line in run_compare.reasons(found, ctx.lang, asked):
            st.text(line)
    for half in (pair.base, pair.head):
        st.text(scope(ctx, half))
    for one in run_compare.unalike(alike.notes(pair.base.side, pair.head.side), ctx.lang):
        st.text("◐ " + one.text)
    for one in (*run_compare.left_out(found, ctx.lang), *run_compare.untold(found, ctx.lang)):
        st.text("◐ " + one.text)


def _waterfall(ctx: Context, found: Compared) -> None:
    change = found.change
    moved = [one for one in change.contributions if one.delta_ns]
    bars = [(Delta(f"{_kind(one)}#{place}", one.base_ns, one.head_ns), _label(ctx, one))
            for place, one in enumerate(moved[:_MOST])]  # fmt: skip
    if rest := moved[_MOST:]:
        others = Delta("others", sum(one.base_ns for one in rest), sum(one.head_ns for one in rest))
        bars.append((others, ctx.say("verdict.others", {"n": len(rest)})))
    residual = Delta("residual", change.base_residual_ns, change.head_residual_ns)
    bars.append((residual, ctx.say("verdict.kinds_residual")))
    whole = Delta("step", change.base_ns, change.head_ns)
    says = {delta.key: name for delta, name in bars} | {"step": ctx.say("compare.whole_step")}
    deltas, axis = [delta for delta, _ in bars], ctx.say("compare.axis")
    picture = context.once(chart.waterfall, deltas, whole, says, axis, context.ink())
    st.plotly_chart(picture, key=f"compare_contributions_{ctx.lang}", config={"displayModeBar": False},
                    alt=ctx.say("verdict.waterfall_help"))  # fmt: skip
    st.caption(ctx.say("verdict.sums", {"delta": f"{change.delta_ns:+,}".replace("-", "−")}))


def _kind(one: Contribution) -> str:
    """Its kind, and of idle time the cause."""
    return f"gap:{one.what}" if one.kind == "gap" else one.kind


def _label(ctx: Context, one: Contribution) -> str:
    """At most two lines beside a bar: its colour says what kind it is, the table below all of its name."""
    name = run_compare.what(one, ctx.lang)
    if one.factor is not None:
        return name
    if one.kind == "gap":
        return name.partition(": ")[2] or name
    kind = "" if one.kind == "kernel" else ctx.say(f"verdict.kind_{one.kind}") + " · "
    mark = f" · {ctx.say(f'compare.short_{one.state}')}" if one.state in ("new", "gone", "fused", "split") else ""
    room = _LABEL - len(kind) - len(mark)
    return kind + (name if len(name) <= room else name[: room - 1] + "…") + mark


def _movers(ctx: Context, pair: Pair, found: Compared) -> None:
    """Every contribution; numbers stay numbers, so that a click on a head sorts by them."""
    st.subheader(ctx.say("verdict.movers"), anchor=False, help=ctx.say("verdict.movers_help"))
    st.segmented_control(ctx.say("verdict.by"), LEVELS, default=LEVELS[0], required=True, key="compare_by_level",
                         format_func=lambda level: ctx.say(f"verdict.by_{level}"))  # fmt: skip
    moved = [
        row
        for one in found.change.contributions
        if one.delta_ns
        for row in (one, *(part for part in one.parts if part.delta_ns))
    ]
    within = {part for one in moved for part in one.parts}
    sides = {"base": pair.base.short, "head": pair.head.short}
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    frame = pd.DataFrame([{
        "kind": ctx.say(f"verdict.kind_{one.kind}"), "what": _named(ctx, one, one in within),
        "own_change": one.delta_ns, "interval": run_compare.interval(one) if one.interval_ns else None,
        "state": " · ".join((run_compare.before(one, ctx.lang) or ctx.say(f"verdict.mark_{one.state}"),
                             *run_compare.hidden(one, ctx.lang))),
        "own_base": one.base_ns, "own_head": one.head_ns, "base_count": one.base_count,
        "head_count": one.head_count, "shapes": one.shapes,
    } for one in moved], columns=[
        "kind", "what", "own_change", "interval", "state", "own_base", "own_head", "base_count", "head_count", "shapes",
    ])  # fmt: skip
    times = ["own_change", "own_base", "own_head"]
    unit, scale = pick_rows.unit(pd.concat([frame[name] for name in times]).astype("float64"))
    frame[times] = frame[times] / scale
    columns = {
        "kind": text(ctx.say("verdict.col_kind"), width="small"), "what": text(ctx.say("verdict.col_what")),
        "own_change": number(ctx.say("verdict.col_change", {"unit": unit}), format="%+,.4g"),
        "interval": text(ctx.say("verdict.col_interval"), help=ctx.say("verdict.each_interval")),
        "state": text(ctx.say("verdict.col_state"), width="medium"),
        "shapes": text(ctx.say("verdict.col_shapes"), width="medium"),
    }  # fmt: skip
    for side, name in sides.items():
        columns[f"own_{side}"] = number(ctx.say("verdict.col_time", {"side": name, "unit": unit}), format=cells.FOUR)
        columns[f"{side}_count"] = number(ctx.say("verdict.col_count", {"side": name}), format="%,.4g")
    st.dataframe(cells.safe(frame), hide_index=True, key=f"compare_movers_{ctx.lang}", column_config=columns,
                 alt=ctx.say("verdict.movers_help"), placeholder=cells.ABSENT)  # fmt: skip
    if within:
        st.caption(ctx.say("verdict.parts_within"))
    st.caption(ctx.say("verdict.each_interval" if any(one.interval_ns for one in moved) else "verdict.no_intervals"))


def _named(ctx: Context, one: Contribution, within: bool) -> str:
    """A part stands below what it is part of."""
    name = run_compare.what(one, ctx.lang)
    return f"└ {name}" if within else name
