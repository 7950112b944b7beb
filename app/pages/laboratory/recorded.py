"""Original and rewrite as two recordings: where they lie, and both timelines one under the other."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import laboratory as look
from npulens.analysis.look.laboratory import Result
from npulens.app import context
from npulens.app.context import Context
from npulens.app.text import wording
from npulens.app.timeline import component
from npulens.ingest.store.runs import RunInfo


def show(ctx: Context, found: Result, rewrite: str) -> None:
    """Links to both runs and to their comparison; without recordings, the command that makes them."""
    st.markdown(f"#### {ctx.say('laboratory.recorded')}")
    place = str(found.about.get("subject"))
    runs = [_newest(ctx, look.recorded_as(place, side)) for side in (look.ORIGINAL, rewrite)]
    before, after = runs
    if before is None or after is None:
        st.text(ctx.say("laboratory.not_recorded"))
        st.code(wording.plain(f"npulens lab {place} --record {rewrite}"), language="bash")
        return
    compare = context.page("compare")
    if compare is not None:
        st.page_link(compare, label=ctx.say("laboratory.compare"), icon=":material/compare_arrows:", query_params={
            "by": "runs", "base": before.run_id, "head": after.run_id, "run": after.run_id, "lang": ctx.lang,
        })  # fmt: skip
    if not st.toggle(ctx.say("laboratory.timelines"), key=f"lab_timelines_{after.run_id}"):
        return
    for title, run in (("before", before), ("after", after)):
        st.caption(ctx.say(f"laboratory.{title}"))
        component.beside(ctx, run.run_id)


def _newest(ctx: Context, label: str) -> RunInfo | None:
    return next((run for run in ctx.runs if run.label == label), None)
