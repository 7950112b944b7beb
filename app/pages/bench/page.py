"""What a benchmark measured: what is faster and by how much, latencies, batch curve, interference, numerics."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import bench as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.bench import about, latency, more, versus
from npulens.app.panels import store_empty

TITLE = "bench.title"
ICON = ":material/speed:"
ORDER = 36
GROUP = "look"


def render(ctx: Context) -> None:
    """The answer first, then what it rests on."""
    st.subheader(ctx.say("bench.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    found = context.measured(ctx, look.bench)
    if found is None:
        about.none(ctx)
        return
    about.answer(ctx, found)
    versus.show(ctx, found)
    latency.show(ctx, found)
    for part in ("batch", "together", "throughput", "sweep", "numerics"):
        more.show(ctx, found, part)
    about.environment(ctx, found)
