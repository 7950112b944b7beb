"""A table of a benchmark."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look.bench import Bench
from npulens.app.context import Context
from npulens.app.pages.bench import sentences
from npulens.app.panels import cells


def show(ctx: Context, found: Bench, part: str) -> None:
    """The figures of one part, as in every other place where they are told."""
    table = next((each for each in sentences.tables(found, ctx.lang) if each.part == part), None)
    if table is None:
        return
    names = [f"c{place}" for place in range(len(table.heads))]
    right = [name for name, numbers in zip(names, table.right, strict=True) if numbers]
    run = ctx.run.run_id if ctx.run else ""
    cells.show(pd.DataFrame(table.rows, columns=names), dict(zip(names, table.heads, strict=True)),
               f"bench_{part}_{run}_{ctx.lang}", ctx.say(f"bench.{part}"), right)  # fmt: skip


def head(ctx: Context, part: str, means: str | None = None) -> None:
    st.subheader(ctx.say(f"bench.{part}"), anchor=part)
    st.caption(means or ctx.say(f"bench.{part}_means"))
