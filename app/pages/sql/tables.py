"""The documented tables and views, to look things up while writing a query."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from npulens.analysis.look import asked
from npulens.app import context, docs_of
from npulens.app.context import Context
from npulens.app.panels import cells


def show(ctx: Context) -> None:
    """Search over everything, or one table or view with what it holds."""
    st.subheader(ctx.say("sql.tables"), anchor=False, help=ctx.say("sql.tables_help"))
    wanted = st.text_input(ctx.say("sql.search"), key="sql_search", icon=":material/search:")
    names = [relation.name for relation in docs_of.relations()]
    within = st.selectbox(ctx.say("sql.one_of"), names, index=None, key=f"sql_within_{ctx.lang}",
                          placeholder=ctx.say("sql.everything"))  # fmt: skip
    for relation in docs_of.relations():
        if relation.name == within:
            st.text(relation.means)
    found = docs_of.columns(wanted, within, context.measured(ctx, asked.column_types))
    if not found:
        st.text(ctx.say("sql.nothing_found"))
        return
    order = ("table", "name", "type", "means")
    heads = {name: ctx.say(f"sql.col_{name}") for name in order if name != "table" or within is None}
    shown = pd.DataFrame([vars(column) for column in found])
    cells.show(shown, heads, f"sql_columns_{ctx.lang}", ctx.say("sql.tables_help"))
