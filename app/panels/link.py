"""Links from a number to the moment it came from."""

from __future__ import annotations

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.selection import bar

#: Room left on both sides of the moment, as a share of its length.
_AROUND = 1.0


def to_timeline(
    ctx: Context, label: str, ts_ns: int, dur_ns: int, rank: int, span_id: int | None = None, key: str = "moment",
    *, select: bool = True,
) -> None:  # fmt: skip
    """A link that opens the timeline at a moment, and a button that selects it on every page.

    Nothing where no timeline page is registered.
    """
    page = context.page("timeline")
    if page is None or ctx.run is None:
        return
    margin = max(int(dur_ns * _AROUND), 1_000)
    query = {
        **bar.address(ctx),
        "rank": str(rank),
        "from": str(max(ts_ns - margin, 0)),
        "to": str(ts_ns + dur_ns + margin),
    }
    if span_id is not None:
        query["span"] = str(span_id)
    with st.container(key=f"link_{key}", horizontal=True, vertical_alignment="center"):
        st.page_link(page, label=ctx.say(label), icon=":material/view_timeline:", query_params=query)
        if select:
            bar.moment(ctx, rank, ts_ns, dur_ns, span_id, key)
