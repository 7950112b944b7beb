"""Which kernels take the device's time, how evenly they run, and which line of code launched them."""

from __future__ import annotations

import streamlit as st

from analysis.look import kernels as look
from app import context
from app.context import Context
from app.panels import kernel_detail, kernel_sequences, kernel_table, store_empty, unmeasured

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
    level, what = kernel_table.choose(ctx, there)
    found = context.measured(ctx, look.table, level, what)
    place.text(kernel_table.answer(ctx, level, found))
    if not len(found.groups):
        return
    row = kernel_table.pick(ctx, level, what, found)
    kernel_detail.show(ctx, level, what, row)
    kernel_sequences.show(ctx, what)
