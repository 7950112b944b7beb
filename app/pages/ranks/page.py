"""Do the ranks do the same, step after step, and if not, which one is different?"""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import rank_sums
from npulens.analysis.look import ranks as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.ranks import grid, path, step
from npulens.app.panels import store_empty, unmeasured

TITLE = "ranks.title"
ICON = ":material/grid_on:"
ORDER = 20
GROUP = ""


def render(ctx: Context) -> None:
    """The sentence, the grid, how each rank stands, the critical path, one step as a picture, the clocks."""
    st.subheader(ctx.say("ranks.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    first = context.measured(ctx, look.across)
    if "dur" not in first.grids:
        if not unmeasured.show(ctx, ("step", "kernel"), "ranks"):
            unmeasured.nothing(ctx, "ranks.none")
        return
    sums = context.measured(ctx, rank_sums.only)
    if sums:
        st.text(ctx.say("ranks.sums"))
    # The sentence needs to know who waits for whom, which takes seconds with many ranks; the grid does not.
    top = st.container()
    grid.show(ctx, first)
    found = context.measured(ctx, look.compared)
    with top:
        grid.sentence(ctx, found)
    grid.standing(ctx, found)
    if sums:  # nothing has a time that a step or a clock could be drawn from
        return
    path.show(ctx)
    step.show(ctx, found)
    step.clocks(ctx, found)
