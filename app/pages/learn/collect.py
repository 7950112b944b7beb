"""How to record a better capture: code for the chosen run's job, and for any job."""

from __future__ import annotations

import streamlit as st

from npulens.analysis.look import learned
from npulens.app import context
from npulens.app.context import Context
from npulens.app.text import wording
from npulens.ingest.errors import IngestError

#: Ways that need no profiler code, and what to type or write.
_WAYS = (
    ("unchanged", "bash", "npulens collect -- python train.py --epochs 1\nnpulens collect -- torchrun train.py"),
    ("lines", "python", """from npulens.collectors.recorder import recording

with recording("profile") as step:
    for batch in loader:
        train(batch)
        step()
"""),
    ("later", "bash", """npulens collect --armed -o profile -- python train.py
npulens collect --begin -o profile
npulens collect --begin -o profile --watched DIR"""),
    ("zip", "bash", """python -m npulens.collectors.zipapp -o npulens-collect.pyz
python3 npulens-collect.pyz own -o profile -- python train.py"""),
)  # fmt: skip


def show(ctx: Context) -> None:
    """What to type, and code to paste around the training loop."""
    for way, language, code in _WAYS:
        st.subheader(ctx.say(f"learn.collect_{way}"), anchor=False)
        st.text(ctx.say(f"learn.collect_{way}_text"))
        st.code(code, language=language)
    st.subheader(ctx.say("learn.collect_code"), anchor=False)
    st.text(ctx.say("learn.collect_lead"))
    st.subheader(ctx.say("learn.collect_run"), anchor=False)
    _job(ctx)
    for name, npu in (("npu", True), ("cuda", False)):
        with st.expander(ctx.say(f"learn.collect_{name}"), expanded=ctx.run is None):
            st.code(learned.general(npu).code(ctx.lang), language="python")
    st.subheader(ctx.say("learn.collect_load"), anchor=False)
    st.code("npulens load ./npulens_capture --label NAME", language="bash")


def _job(ctx: Context) -> None:
    """The configuration that fills the holes of the chosen run; it follows from what the detectors say."""
    if ctx.run is None:
        st.text(ctx.say("learn.collect_none"))
        return
    try:
        found = context.judgement(ctx)
    except IngestError as error:
        st.text(wording.error(error, ctx.lang))
        return
    if found is None:
        _wait(ctx)
        return
    quality = found.check.quality
    st.text(wording.quality(found.check, ctx.lang))
    for place, (entries, why, setting) in enumerate(wording.alike(quality.missing, ctx.lang)):
        what = ctx.say("findings.wide_comma").join(wording.of(ctx.lang, entry.what) for entry in entries)
        with st.container(key=f"gap_learn_{place}", gap=None):
            st.text(wording.plain(what))
            values = {"reason": why, "remedy": wording.remedy(setting, ctx.lang)}
            st.text(ctx.say("findings.reason_remedy", values))
    st.text(wording.collect(found.check, ctx.lang))
    st.code(quality.collect.code(ctx.lang), language="python")


@st.fragment(run_every=1.0)
def _wait(ctx: Context) -> None:
    st.text(ctx.say("learn.collect_working", {"n": round(context.judging_for(ctx))}))
    if context.judged(ctx):
        st.rerun()
