"""The manual: every detector, the words, how to collect, about. ?detector=late_rank opens one detector."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.look import learned
from npulens.app import context, docs_of
from npulens.app.charts.parts import PARTS
from npulens.app.context import Context
from npulens.app.pages.learn import detectors
from npulens.app.panels import cells, run_list
from npulens.app.text import i18n, wording
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs

# How to record a better capture: code for the chosen run's job, and for any job.
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


def show_collect(ctx: Context) -> None:
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
    st.code(quality.collect.code(ctx.lang), language=quality.collect.language)


@st.fragment(run_every=1.0)
def _wait(ctx: Context) -> None:
    st.text(ctx.say("learn.collect_working", {"n": round(context.judging_for(ctx))}))
    if context.judged(ctx):
        st.rerun()


# The glossary: the words of npulens, the parts of the split, the causes.
TERMS = ("run", "rank", "span", "track", "link", "step", "coverage", "view", "detector", "finding", "evidence",
         "saving", "workload", "verdict", "null")  # fmt: skip


def show_glossary(ctx: Context) -> None:
    """Three tables; each word also in the other language, which is how it is called in documents and columns."""
    other = "en" if ctx.lang == "zh" else "zh"
    st.text(ctx.say("learn.words_lead"))
    _table(ctx, "words", [
        (ctx.say(f"learn.term_{term}"), i18n.say(other, f"learn.term_{term}"), ctx.say(f"learn.means_{term}"))
        for term in TERMS
    ])  # fmt: skip
    st.subheader(ctx.say("learn.parts"), anchor=False)
    _table(ctx, "parts", [
        (ctx.say(f"breakdown.{part.key}"), i18n.say(other, f"breakdown.{part.key}"),
         ctx.say(f"breakdown.{part.key}_means")) for part in PARTS
    ])  # fmt: skip
    st.subheader(ctx.say("learn.causes"), anchor=False)
    st.text(ctx.say("learn.causes_lead"))
    _table(ctx, "causes", [(name, wording.of(other, pair), wording.of(ctx.lang, pair))
                           for name, pair in CAUSES.items()])  # fmt: skip
    st.text(ctx.say("learn.gap_causes"))
    _table(ctx, "gaps", [(name, wording.of(other, pair), wording.of(ctx.lang, pair))
                         for name, pair in GAP_ONLY.items()])  # fmt: skip


def _table(ctx: Context, key: str, rows: list[tuple[str, str, str]]) -> None:
    frame = pd.DataFrame(rows, columns=["word", "chinese", "meaning"])
    order = ("word", "meaning", "chinese") if key in ("causes", "gaps") else ("word", "chinese", "meaning")
    heads = {name: ctx.say(f"learn.col_{name}") for name in order}
    cells.show(frame, heads, f"learn_{key}_{ctx.lang}", ctx.say("learn.part_words"))


# What this program is, what it does not do, and how far the chosen run can be believed.
def show_about(ctx: Context) -> None:
    """About the program, then about the chosen run."""
    with st.container(key="prose", gap="xsmall"):
        st.text(ctx.say("learn.about_what", {"version": docs_of.version()}))
        st.text(ctx.say("learn.about_data"))
        if not ctx.project:  # where a server keeps its projects is nobody's business
            st.text(ctx.say("learn.about_store", {"path": wording.plain(str(ctx.store))}))
        st.text(ctx.say("learn.about_license"))
    st.subheader(ctx.say("learn.not"), anchor=False)
    for name in ("change", "guess", "promise", "npu"):
        st.text("· " + ctx.say(f"learn.not_{name}"))
    if ctx.run is None:
        return
    st.subheader(ctx.say("learn.level"), anchor=False)
    found = context.measured(ctx, learned.level, _files(ctx))
    st.text(wording.plain(run_list.name(ctx, ctx.run)))
    st.text(ctx.say(f"learn.level_{found.level}"))
    if found.device:
        st.text(ctx.say("learn.level_device", {"name": wording.plain(found.device)}))


def _files(ctx: Context) -> tuple[str, ...]:
    """The files that the chosen run was read from, as its manifest names them."""
    pieces = runs.manifest(ctx.store, ctx.run.run_id).get("pieces", []) if ctx.run else []
    return tuple(f"{piece.get('path', '')}/{name}" for piece in pieces for name in piece.get("files", {}))


TITLE = "learn.title"
ICON = ":material/school:"
ORDER = 90
GROUP = "data"

_PARTS = {
    "detectors": detectors.show, "words": show_glossary, "collect": show_collect,
    "about": show_about,
}  # fmt: skip


def render(ctx: Context) -> None:
    """One of four parts; the link keeps which."""
    st.header(ctx.say("learn.title"), anchor=False)
    wanted = st.query_params.get("part", "detectors")
    part = st.segmented_control(
        ctx.say("learn.part"), list(_PARTS), default=wanted if wanted in _PARTS else "detectors", required=True,
        key="learn_part", label_visibility="collapsed", format_func=lambda name: ctx.say(f"learn.part_{name}"),
    )  # fmt: skip
    chosen = part or "detectors"
    st.query_params["part"] = chosen
    if chosen != "detectors":
        st.query_params.pop("detector", None)
    _PARTS[chosen](ctx)
