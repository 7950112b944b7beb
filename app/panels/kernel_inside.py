"""The inside of the one operator that a capture of msprof op or of its simulator holds."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from npulens.analysis.look import kernel_inside as look
from npulens.analysis.look.kernel_inside import Inside, Line
from npulens.app import context
from npulens.app.context import Context
from npulens.app.panels import cells
from npulens.app.text import i18n
from npulens.app.text import inside as told

#: Lines and instructions on the screen.
_MOST = 20


def show(ctx: Context) -> bool:
    """Sentences and tables; False where the run is no operator alone."""
    if not context.measured(ctx, look.there):
        return False
    found = context.measured(ctx, look.inside)
    if found is None:
        return False
    st.subheader(ctx.say("kernel.panel"), anchor="inside")
    with st.container(key="inside_sums", gap="xxsmall"):
        for sentence in told.sums(found, ctx.lang):
            st.text(sentence)
    _counted(ctx, found)
    _lines(ctx, "lines", "line", "of", found.lines)
    _lines(ctx, "instructions", "name", "pipe", found.instructions)
    return True


def _counted(ctx: Context, found: Inside) -> None:
    lang = ctx.lang
    _table(ctx, "pipes", ("core", "pipe", "kind", "share", "most"), [
        [told.core(lang, one.core), one.pipe, told.say(lang, f"kind_{one.kind}"), told.percent(one.share),
         told.percent(one.most)]
        for one in found.pipes
    ], 3)  # fmt: skip
    _table(ctx, "cores", ("core", "units", "mean", "longest", "slowest", "uneven"), [
        [told.core(lang, one.core), f"{one.units:,}", i18n.duration(round(one.mean_ns)),
         i18n.duration(round(one.most_ns)), one.slowest, f"{one.uneven:.2f}"]
        for one in found.cores
    ], 1)  # fmt: skip
    _table(ctx, "caches", ("core", "access", "hits", "misses", "hit"), [
        [told.core(lang, one.core), told.say(lang, f"access_{one.access}"), told.count(one.hits),
         told.count(one.misses), told.percent(one.share)]
        for one in found.caches
    ], 2)  # fmt: skip
    _table(ctx, "paths", ("path", "bytes", "rate", "used"), [
        [one.name, f"{one.bytes / 1e6:,.3f}",
         cells.ABSENT if one.bytes_per_s is None else f"{one.bytes_per_s / 1e9:,.1f}",
         cells.ABSENT if one.used is None else told.percent(one.used)]
        for one in found.paths
    ], 1)  # fmt: skip
    _table(ctx, "waits", ("core", "name", "part", "most"), [
        [told.core(lang, one.core), one.name, told.percent(one.share), told.percent(one.most)] for one in found.waits
    ], 2)  # fmt: skip


def _lines(ctx: Context, title: str, name: str, of: str, rows: Sequence[Line]) -> None:
    _table(ctx, title, (name, "calls", "cycles", "time", of), [
        [one.name, told.count(one.calls), told.count(one.cycles),
         cells.ABSENT if one.ns is None else f"{one.ns / 1e3:,.3f}", one.of or cells.ABSENT]
        for one in rows[:_MOST]
    ], 1)  # fmt: skip


def _table(ctx: Context, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
    """Texts under a caption; those behind the first ``left`` are numbers."""
    if not rows:
        return
    st.caption(told.say(ctx.lang, title))
    heads = {column: told.say(ctx.lang, f"col_{column}") for column in columns}
    right = [column for column in columns[left:] if column not in ("of", "pipe", "slowest")]
    cells.show(pd.DataFrame(rows, columns=list(columns)), heads, f"inside_{title}_{ctx.lang}",
               told.say(ctx.lang, title), right)  # fmt: skip
