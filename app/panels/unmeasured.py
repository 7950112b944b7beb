"""A panel that has nothing to show says why, and what would fill it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.text import wording


def show(ctx: Context, tables: Sequence[str], key: str) -> bool:
    """Says which of ``tables`` no rank recorded, why, and the setting that records them; whether any is missing."""
    rows = context.coverage(ctx)
    lacking = [
        name for name in tables if all(row.status == "absent" for row in rows if row.table == name)
    ]  # fmt: skip
    for name in lacking:
        found = next((row for row in rows if row.table == name), None)
        with st.container(key=f"gap_{key}_{name}", gap=None):
            st.text(ctx.say("shell.not_measured", {"what": ctx.say(f"recorded.table_{name}")}))
            if found and found.reason:
                st.text(wording.plain(found.reason))
            if found and found.collect_with:
                st.text(ctx.say("recorded.record_with", {"setting": found.collect_with}))
    return bool(lacking)


def nothing(ctx: Context, why: str) -> None:
    """One sentence in place of a chart: the capture recorded this, and there is none of it."""
    with st.container(border=True):
        st.text(ctx.say(why))
