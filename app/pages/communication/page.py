"""How much the ranks say to each other, what it costs, over which links, and who keeps whom waiting."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import communication as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.communication import operators, peers
from npulens.app.panels import store_empty, unmeasured

TITLE = "communication.title"
ICON = ":material/hub:"
ORDER = 33
GROUP = "look"


def render(ctx: Context) -> None:
    """The sentence, the operators, the groups, the links, the peers."""
    st.subheader(ctx.say("communication.question"), anchor=False)
    if ctx.run is None:
        store_empty.show(ctx)
        return
    told = context.measured(ctx, look.summary)
    if told is None:
        if not unmeasured.show(ctx, ("comm",), "communication"):
            unmeasured.nothing(ctx, "communication.none")
        return
    operators.sentence(ctx, told)
    if told.only_waiting_ns is None:
        st.caption(ctx.say("communication.no_tasks"))
    operators.kinds(ctx)
    peers.peers(ctx)
    peers.links(ctx)
    operators.longest(ctx)
    operators.groups(ctx)
    operators.planes(ctx)
