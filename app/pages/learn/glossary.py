"""The glossary: the words of npulens, the parts of the split, the causes."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.app.charts.parts import PARTS
from npulens.app.context import Context
from npulens.app.panels import cells
from npulens.app.text import i18n, wording

TERMS = ("run", "rank", "span", "track", "link", "step", "coverage", "view", "detector", "finding", "evidence",
         "saving", "workload", "verdict", "null")  # fmt: skip


def show(ctx: Context) -> None:
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
