"""Which kernels take the device's time, how evenly they run, and which line of code launched them."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import kernels as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.kernels import detail, sequences, table
from npulens.app.panels import store_empty, unmeasured

TITLE = "kernels.title"
ICON = ":material/memory:"
ORDER = 30
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the filter, the kinds, and the chosen one."""
    st.subheader(ctx.say("kernels.question"), anchor="kernels")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    there = context.measured(ctx, look.choices)
    if not there.ranks:
        if not unmeasured.show(ctx, ("kernel",), "kernels"):
            unmeasured.nothing(ctx, "kernels.none")
        return
    place = st.container(key="answer")
    level, what = table.choose(ctx, there)
    found = context.measured(ctx, look.table, level, what)
    place.text(table.answer(ctx, level, found))
    if not len(found.groups):
        return
    row = table.pick(ctx, level, what, found)
    detail.show(ctx, level, what, row)
    sequences.show(ctx, what)
