"""How much device memory the job holds, what holds it at the peak, and whether it grows."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import memory as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.memory import pool as memory_pool
from npulens.app.panels import store_empty, unmeasured

TITLE = "memory.title"
ICON = ":material/memory:"
ORDER = 34
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the curve of a pool, its peak, its growth, the largest blocks."""
    st.subheader(ctx.say("memory.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    pools = context.measured(ctx, look.pools)
    if not pools:
        if not unmeasured.show(ctx, ("memory_sample", "memory_event"), "memory"):
            unmeasured.nothing(ctx, "memory.none")
        return
    memory_pool.sentence(ctx, memory_pool.main_pool(pools))
    pool = memory_pool.choose(ctx, pools)
    memory_pool.show(ctx, pool)
    memory_pool.growth(ctx, pool)
    memory_pool.largest(ctx, pool.rank)
    memory_pool.everyone(ctx, pools)
    unmeasured.show(ctx, ("memory_sample", "memory_event"), "memory")
