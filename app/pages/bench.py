"""What a benchmark measured: what is faster and by how much, latencies, batch curve, interference, numerics."""

from __future__ import annotations

import streamlit as st

from analysis.look import bench as look
from app import context
from app.context import Context
from app.panels import bench_about, bench_latency, bench_more, bench_versus, store_empty

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
        bench_about.none(ctx)
        return
    bench_about.answer(ctx, found)
    bench_versus.show(ctx, found)
    bench_latency.show(ctx, found)
    for part in ("batch", "together", "throughput", "sweep", "numerics"):
        bench_more.show(ctx, found, part)
    bench_about.environment(ctx, found)
