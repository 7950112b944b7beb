"""The modules of the model: what each costs, how much of its roof it reaches, and what it calls."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.modules.measure import Module, Modules
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.efficiency import charts
from npulens.app.panels import cells, unmeasured
from npulens.app.panels import pick_rows as table
from npulens.app.text import wording

#: Rows of the table.
_MOST = 2000
#: A level deeper stands so far to the right.
_INDENT = "\u2003"


def head(ctx: Context) -> None:
    st.subheader(ctx.say("efficiency.modules"), anchor="modules", help=ctx.say("efficiency.modules_means"))


def show(ctx: Context, found: Modules) -> None:
    """The tree as a flame graph and as a table."""
    say = ctx.say
    if not found.rows:
        unmeasured.nothing(ctx, "efficiency.modules_none")
        if found.collect_with is not None:
            st.text(say("recorded.record_with", {"setting": found.collect_with}))
        return
    parts = found.steps * max(1, len(found.ranks))
    run = ctx.run.run_id if ctx.run else ""
    if found.whole.device_ns:
        st.caption(say("efficiency.modules_hint"))
        picture = context.once(charts.modules, found.rows, parts, say, context.ink())
        st.plotly_chart(
            picture, key=f"efficiency_modules_{run}_{ctx.lang}",
            config={"displayModeBar": False}, alt=say("efficiency.modules"),
        )  # fmt: skip
    rows = pd.DataFrame([_row(ctx, found, row, parts) for row in found.rows[:_MOST]])
    table.plain(rows, {
        "module": st.column_config.TextColumn(say("efficiency.col_module"), width="large"),
        "type": table.text(say("efficiency.col_class")), "calls": table.count(say("efficiency.col_calls")),
        "device": table.milli(say("efficiency.col_device_time"), say("efficiency.col_device_time_help")),
        "own": table.milli(say("efficiency.col_own"), say("efficiency.col_own_help")),
        **({"forward": table.milli(say("efficiency.col_forward")),
            "backward": table.milli(say("efficiency.col_backward"))} if rows["backward"].any() else {}),
        **({"again": table.milli(say("efficiency.col_again"))} if rows["again"].any() else {}),
        **({"share": table.share(say("efficiency.col_share"), say("efficiency.col_module_share_help"))}
           if rows["share"].notna().any() else {}),
        "gflop": st.column_config.NumberColumn(say("efficiency.col_gflop"), format=cells.FOUR),
        **({"memory": st.column_config.NumberColumn(say("efficiency.col_memory"), format=f"{cells.FOUR} MB",
                                                    help=say("efficiency.col_memory_help"))} if found.memory else {}),
    }, say("efficiency.modules"))  # fmt: skip
    if len(found.rows) > _MOST:
        st.text(say("efficiency.modules_cut", {"shown": f"{_MOST:,}", "n": f"{len(found.rows):,}"}))


def _row(ctx: Context, found: Modules, row: Module, parts: int) -> dict[str, object]:
    own = row.total
    name = wording.plain(row.name) if row.place == "module" else ctx.say(f"efficiency.place_{row.place}")
    return {
        "module": _INDENT * row.depth + name, "type": row.type or None, "calls": row.calls + row.recomputed,
        "device": own.device_ns / 1e6 / parts, "own": row.own.device_ns / 1e6 / parts,
        "forward": own.forward_ns / 1e6 / parts, "backward": own.backward_ns / 1e6 / parts,
        "again": own.recompute_ns / 1e6 / parts, "share": float("nan") if own.share is None else own.share,
        "gflop": own.flops / 1e9 / parts if own.known_ns else float("nan"),
        "memory": own.allocated_bytes / 1e6 / parts if found.memory else float("nan"),
    }  # fmt: skip
