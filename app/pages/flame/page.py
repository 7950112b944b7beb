"""Which code the time of a selection belongs to: a flame graph and a table."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.selection import flame
from npulens.app import context
from npulens.app.charts import flame as charts
from npulens.app.context import Context
from npulens.app.panels import pick_rows as table
from npulens.app.panels import store_empty, unmeasured
from npulens.app.panels.moment import PLAIN, answer, key
from npulens.app.selection import bar
from npulens.app.text import i18n, wording

TITLE = "flame.title"
ICON = ":material/local_fire_department:"
ORDER = 28
GROUP = "look"
_ROWS = 500


def render(ctx: Context) -> None:
    """The sentence, the graph, the table by name."""
    st.header(ctx.say("flame.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    bar.show(ctx)
    weight = st.segmented_control(
        ctx.say("flame.weight"), flame.WEIGHTS, default=flame.WEIGHTS[0], required=True, key=key(ctx, "flame_weight"),
        format_func=lambda one: ctx.say(f"flame.weight_{one}"), help=ctx.say("flame.weight_means"),
    ) or flame.WEIGHTS[0]  # fmt: skip
    found = context.selected(ctx, flame.flame, weight)
    if found is None:
        unmeasured.nothing(ctx, "flame.too_many")
        return
    if not found.frames:
        if not bar.nothing(ctx) and not unmeasured.show(ctx, ("link",), "flame"):
            unmeasured.nothing(ctx, "flame.none")
        return
    largest = max((frame for frame in found.frames), key=lambda frame: frame.self_ns)
    answer(ctx, [ctx.say("flame.answer", {
        "total": i18n.duration(found.total_ns), "name": wording.plain(largest.name)[:60] or ctx.say("flame.step"),
        "own": i18n.duration(largest.self_ns), "share": i18n.share(largest.self_ns, found.total_ns),
    })])  # fmt: skip
    if found.unlinked_ns:
        st.caption("◐ " + ctx.say("flame.unlinked", {"time": i18n.duration(found.unlinked_ns)}))
    st.plotly_chart(
        context.once(charts.flame, found, ctx.say, context.ink()), key=key(ctx, f"flame_{weight}"), config=PLAIN,
        alt=ctx.say("flame.question"),
    )  # fmt: skip
    if found.left_out:
        st.caption(ctx.say("flame.left_out", {"n": f"{found.left_out:,}"}))
    _table(ctx, found)


def _table(ctx: Context, found: flame.Flame) -> None:
    """Names whatever is above them, by the time that nothing below them has."""
    frame = pd.DataFrame([vars(one) for one in found.frames])
    frame["name"] = [wording.plain(name) or ctx.say("flame.step") for name in frame["name"]]
    rows = frame.groupby("name", as_index=False).agg(
        {"count": "sum", "self_ns": "sum", "total_ns": "max"}
    ).sort_values(["self_ns", "name"], ascending=[False, True]).head(_ROWS)  # fmt: skip
    rows["share"] = rows["self_ns"] / max(found.total_ns, 1)
    with st.expander(ctx.say("flame.table", {"n": len(rows)})):
        table.plain(table.in_ms(rows, ("self_ns", "total_ns")), {
            "name": table.text(ctx.say("flame.col_name"), wide=True),
            "self_ns": table.milli(ctx.say("flame.col_self"), ctx.say("flame.col_self_means")),
            "share": table.percent(ctx.say("flame.col_share")),
            "total_ns": table.milli(ctx.say("flame.col_total"), ctx.say("flame.col_total_means")),
            "count": table.count(ctx.say("flame.col_count")),
        }, ctx.say("flame.question"))  # fmt: skip
