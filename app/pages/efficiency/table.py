"""Operators as a table one chooses from, and the chosen one in words."""

from __future__ import annotations

import itertools
import shlex

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from npulens.analysis.device.abilities import UNNAMED
from npulens.analysis.look import efficiency as look
from npulens.app.context import Context
from npulens.app.pages.efficiency import charts
from npulens.app.panels import cells, link
from npulens.app.panels import pick_rows as table
from npulens.app.text import i18n, wording

#: Characters of shapes and of types that are told of the chosen operator.
_LONG = 240


def show(ctx: Context, found: look.Efficiency) -> None:
    """The table, and what it says of the chosen row."""
    st.subheader(ctx.say("efficiency.table"), anchor="operators", help=ctx.say("efficiency.table_means"))
    run = ctx.run.run_id if ctx.run else ""
    rows = found.operators
    shown = table.in_ms(rows, ("step_ns", "gain_ns")).assign(
        tflops=rows["flops_per_s"] / 1e12, gbs=rows["bytes_per_s"] / 1e9,
        bound=[_bound(ctx, bound) for bound in rows["bound"]],
        pipe=[f"{pipe} {charts.percent(share)}" if isinstance(pipe, str) else None
              for pipe, share in zip(rows["pipe"], rows["pipe_share"], strict=True)],
        note=[_note(ctx, row) for _, row in rows.iterrows()],
    )  # fmt: skip
    place = table.pick(
        shown, _columns(ctx, found), f"efficiency_{run}_{hash(ctx.part)}_{ctx.lang}", ctx.say("efficiency.table")
    )
    if found.count > len(rows):
        st.text(ctx.say("kernels.cut", {"shown": f"{len(rows):,}", "n": f"{found.count:,}"}))
    _chosen(ctx, found, found.chosen[place])
    if found.chosen[place].shapes is not None:
        st.text(ctx.say("efficiency.replay"))
        st.code(f"npulens replay {run[:12]} {replayed(found, place)} -o op.py", language="bash")


def replayed(found: look.Efficiency, place: int) -> str:
    """How the command line calls the operator: `mm#2` is the second longest of that name."""
    name = found.chosen[place].name
    same = [at for at, one in enumerate(found.chosen) if one.name == name]
    return shlex.quote(wording.plain(name if len(same) < 2 else f"{name}#{same.index(place) + 1}"))


def _columns(ctx: Context, found: look.Efficiency) -> dict[str, ColumnConfig]:
    def head(name: str) -> str:
        return ctx.say(f"efficiency.col_{name}")

    def means(name: str) -> str:
        return ctx.say(f"efficiency.col_{name}_help", {"good": f"{found.good:g}"})

    rows, number = found.operators, st.column_config.NumberColumn
    columns: dict[str, tuple[ColumnConfig, bool]] = {
        "operator": (st.column_config.TextColumn(head("operator"), width="medium"), True),
        "shapes": (st.column_config.TextColumn(head("shapes"), width="medium"), bool(rows["shapes"].notna().any())),
        "calls": (table.count(head("calls"), means("calls")), True),
        "step_ns": (table.milli(head("time"), means("time")), True),
        "share": (
            table.share(head("share_least" if found.at_least else "share"), means("share")),
            bool(rows["share"].notna().any()),
        ),
        "bound": (table.text(head("bound"), means("bound")), bool(rows["bound"].notna().any())),
        "gain_ns": (table.milli(head("gain"), means("gain")), bool(rows["gain_ns"].notna().any())),
        "tflops": (number(head("tflops"), help=means("tflops"), format=cells.FOUR), True),
        "gbs": (number(head("gbs"), help=means("gbs"), format=cells.FOUR), True),
        "pipe": (table.text(head("pipe"), means("pipe")), bool(rows["pipe"].notna().any())),
        "device": (table.text(head("device")), len(found.sums.roofs) > 1),
        "note": (table.text(head("note"), wide=True), True),
    }
    return {name: column for name, (column, there) in columns.items() if there}


def _bound(ctx: Context, bound: object) -> str | None:
    return ctx.say(f"roofline.bound_{bound}") if isinstance(bound, str) else None


def _note(ctx: Context, row: pd.Series) -> str | None:
    """What a reader must know before believing the row."""
    if isinstance(row["reason"], str):
        key = f"roofline.why_{row['reason']}"
        return ctx.say("efficiency.note_unknown", {"why": ctx.say(key) if i18n.known(key) else row["reason"]})
    if pd.notna(row["above"]):
        return ctx.say("efficiency.note_above", {"times": f"{row['above']:.2f}"})
    return ctx.say("efficiency.note_disagree", {"pipe": row["pipe"]}) if row["disagree"] else None


def _chosen(ctx: Context, found: look.Efficiency, one: look.Chosen) -> None:
    """The chosen operator: what it was given, its work, and how long that takes at least and took."""
    st.subheader(ctx.say("efficiency.chosen"), anchor="operator")
    say = ctx.say
    with st.container(key="prose", gap="xxsmall"):
        where = f" · {device(ctx, one.device)}" if one.device else ""
        st.text(wording.plain(_cut(one.name)) + where)
        if one.shapes:
            values = {"shapes": _cut(one.shapes), "dtypes": _cut(_types(one.dtypes))}
            st.text(wording.plain(say("kernels.shapes_line", values)))
        if one.kernel != one.name:
            st.text(wording.plain(say("efficiency.kernel_line", {"kernel": _cut(one.kernel)})))
        st.text(say("efficiency.calls_line", {
            "calls": f"{one.calls:,}", "kernels": f"{one.kernels:,}", "time": i18n.duration(one.ns),
            "each": i18n.duration(one.ns // one.calls),
        }))  # fmt: skip
        for text in _verdict(ctx, found, one):
            st.text(text)
    link.to_timeline(ctx, "efficiency.on_timeline", one.ts_ns, one.dur_ns, one.rank, one.span_id, key="efficiency")


def _verdict(ctx: Context, found: look.Efficiency, one: look.Chosen) -> list[str]:
    """Sentences from its work to what it could give back."""
    say = ctx.say
    if one.reason is not None:
        key = f"roofline.why_{one.reason}"
        lines = [say("efficiency.unknown_line", {"why": say(key) if i18n.known(key) else one.reason})]
        if one.reason in ("no_shapes", "no_types") and found.sums.collect_with:
            lines.append(say("recorded.record_with", {"setting": found.sums.collect_with}))
        return [*lines, *_counters(ctx, one)]
    values = {
        "flops": "–" if one.flops is None else _amount(one.flops, "FLOP"),
        "bytes": "–" if one.bytes is None else i18n.size(one.bytes),
        "precision": f" ({one.precision})" if one.precision else "",
        "intensity": charts.number(one.flops / one.bytes) if one.flops and one.bytes else "0",
    }
    lines = [say("efficiency.work_line", values)]
    times = [
        say(f"efficiency.at_{name}", {"time": i18n.duration(round(ns))})
        for name, ns in (("matrix", one.matrix_ns), ("vector", one.vector_ns), ("memory", one.memory_ns)) if ns
    ]  # fmt: skip
    if times:
        lines.append(say("efficiency.least_line", {"times": say("efficiency.comma").join(times)}))
    each = i18n.duration(one.ns // one.calls)
    if one.share is not None:
        bound = say(f"efficiency.bound_{one.bound or 'none'}")
        lines.append(say("efficiency.share_line" if one.complete else "efficiency.share_line_least", {
            "each": each, "share": charts.percent(one.share), "bound": bound,
        }))  # fmt: skip
    elif one.above is not None:
        lines.append(say("efficiency.above_line", {
            "each": each, "roof": i18n.duration(round(one.roof_ns or 0)), "times": f"{one.above:.2f}",
        }))  # fmt: skip
    else:
        lines.append(say("efficiency.no_roof_line"))
    if one.gain_ns:
        gain = i18n.duration(one.gain_ns // (found.sums.steps * max(1, found.sums.ranks)))
        lines.append(say("efficiency.gain_line", {"good": f"{found.good:g}", "gain": gain}))
    return [*lines, *_counters(ctx, one)]


def _counters(ctx: Context, one: look.Chosen) -> list[str]:
    """What the hardware counted, where it did."""
    lines = []
    if one.pipes:
        busy = ctx.say("efficiency.comma").join(f"{name} {charts.percent(share)}" for name, share in one.pipes[:5])
        lines.append(wording.plain(ctx.say("efficiency.pipes_line", {"pipes": busy})))
    if one.disagree:
        lines.append("◐ " + ctx.say("efficiency.disagree_line", {
            "bound": ctx.say(f"roofline.bound_{one.bound}"), "pipe": one.pipe,
        }))  # fmt: skip
    if one.counted_flops:
        lines.append(ctx.say("efficiency.counted_line", {"counted": _amount(one.counted_flops, "FLOP")}))
    return lines


def _amount(count: float, unit: str) -> str:
    return charts.rate(float(count), unit)


def _types(dtypes: str | None) -> str:
    """Types as a list without the marks of JSON; what repeats stands once, with how often."""
    names = (dtypes or "–").strip('"[]').replace('","', ";").replace("c10::", "").split(";")
    runs = [(name, sum(1 for _ in some)) for name, some in itertools.groupby(names)]
    return "; ".join(f"{name} × {n}" if n > 1 else name for name, n in runs)


def _cut(text: str) -> str:
    """Of a text that may be very long what fits on two lines."""
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def device(ctx: Context, name: str) -> str:
    """What a device is called."""
    return ctx.say("efficiency.unnamed") if name == UNNAMED else wording.plain(name)
