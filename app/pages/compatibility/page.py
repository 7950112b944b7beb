"""Which operators of a run have an NPU kernel in a release of torch_npu, and what to do about the others."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.compat.answers import FINE, STATUSES, Compatibility, compatibility
from npulens.analysis.compat.registry import Release, registry
from npulens.analysis.look import compat as look
from npulens.app import context
from npulens.app.context import Context
from npulens.app.panels import pick_rows as table
from npulens.app.panels import store_empty, unmeasured
from npulens.app.text import compatible, wording

TITLE = "compatibility.title"
ICON = ":material/memory_alt:"
ORDER = 38
GROUP = "look"


def render(ctx: Context) -> None:
    """The answer for the chosen release, every operator, the chosen one in words, and the same by release."""
    st.header(ctx.say("compatibility.question"), anchor="compatibility")
    if ctx.run is None:
        store_empty.show(ctx)
        return
    called = context.measured(ctx, look.called)
    if not called.seen:
        if not unmeasured.show(ctx, ("span",), "compatibility"):
            unmeasured.nothing(ctx, "compat.answer_none")
        return
    release = _release(ctx, look.nearest(called, registry()))
    found = compatibility(called.seen, release.torch_npu, False)
    with st.container(key="answer", gap="xxsmall"):
        st.text(compatible.headline(found, ctx.lang))
        if host := compatible.host_words(found, ctx.lang):
            st.text(host)
    _operators(ctx, found)
    _releases(ctx, called)
    for name in ("limits", "limits_run"):
        st.caption(ctx.say(f"compat.{name}"))
    told = {"npu": release.npu_wheel, "packed": release.npu_packed, "torch": release.torch_wheel}
    st.caption(ctx.say("compatibility.source", told))
    st.caption(ctx.say("compatibility.subject", {"release": release.torch_npu}))


def _release(ctx: Context, first: str) -> Release:
    """Which release is meant: that of the run until somebody chooses another."""
    names = {release.torch_npu: release for release in registry().releases}
    run = ctx.run.run_id if ctx.run else ""
    chosen = st.selectbox(
        ctx.say("compatibility.release"), list(names), index=list(names).index(first), key=f"compat_release_{run}",
        width=260, help=ctx.say("compatibility.release_help"),
        format_func=lambda one: ctx.say(
            "compatibility.release_named", {"torch_npu": one, "torch": names[one].torch}
        ),
    )  # fmt: skip
    return names[chosen or first]


def _operators(ctx: Context, found: Compatibility) -> None:
    """Every operator, those that need something first; the chosen one in words."""
    st.subheader(ctx.say("compatibility.table"), anchor="operators")
    if not found.answers:
        unmeasured.nothing(ctx, "compat.answer_none")
        return
    frame = pd.DataFrame({
        "name": [answer.name for answer in found.answers],
        "status": [ctx.say(f"compat.status_{answer.status}") for answer in found.answers],
        "calls": [answer.calls for answer in found.answers],
        "do": [compatible.advice(answer, found, ctx.lang) for answer in found.answers],
    })  # fmt: skip
    place = table.pick(frame, {
        "name": table.text(ctx.say("compat.col_operator")), "status": table.text(ctx.say("compat.col_status")),
        "calls": table.count(ctx.say("compat.col_calls")), "do": table.text(ctx.say("compat.col_do"), wide=True),
    }, f"compat_operators_{found.release.torch_npu}", ctx.say("compatibility.table"))  # fmt: skip
    answer = found.answers[place]
    with st.container(border=True, gap="xxsmall"):
        st.text(ctx.say("compatibility.one", {
            "name": wording.plain(answer.name), "status": ctx.say(f"compat.status_{answer.status}"),
        }))  # fmt: skip
        st.text(compatible.why(answer, found, ctx.lang))
        if advice := compatible.advice(answer, found, ctx.lang):
            st.text(advice)


def _releases(ctx: Context, called: look.Called) -> None:
    """How many operators need something, release by release."""
    st.subheader(ctx.say("compatibility.by_release"), anchor="releases")
    st.caption(ctx.say("compatibility.by_release_about"))
    needy = [status for status in STATUSES if status not in FINE]
    rows = [compatibility(called.seen, release.torch_npu, False) for release in registry().releases]
    frame = pd.DataFrame({
        "release": [found.release.torch_npu for found in rows], "torch": [found.release.torch for found in rows],
        **{status: [found.count(status) for found in rows] for status in needy},
    })  # fmt: skip
    table.plain(frame, {
        "release": table.text(ctx.say("compat.col_release")), "torch": table.text(ctx.say("compat.col_torch")),
        **{status: table.count(ctx.say(f"compat.status_{status}")) for status in needy},
    }, ctx.say("compatibility.by_release"))  # fmt: skip
