"""Parts that the closer looks share: milliseconds and megabytes of a column, and a moment to go to on the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.panels import link
from npulens.app.text import i18n, wording

PLAIN = {"displayModeBar": False, "scrollZoom": False}
_NAME = 80


@dataclass(frozen=True)
class Moment:
    """A window of one rank, and what happens in it."""

    rank: int
    ts_ns: int
    dur_ns: int
    span_id: int | None
    name: str
    more: str = ""  # what to say in place of its length


def key(ctx: Context, name: str) -> str:
    """The key of a widget that belongs to the chosen run, what is selected of it, and the language."""
    return f"{name}_{ctx.run.run_id if ctx.run else ''}_{hash(ctx.part)}_{ctx.lang}"


def answer(ctx: Context, sentences: Sequence[str]) -> None:
    """What to take away from the page, above everything else."""
    with st.container(key="answer"):
        st.text(("" if ctx.lang == "zh" else " ").join(sentences))


def scaled(frame: pd.DataFrame, columns: Sequence[str], by: float = 1e6) -> pd.DataFrame:
    """The frame with these columns divided: ns to ms, bytes to MB. Missing stays missing."""
    return frame.assign(**{name: pd.to_numeric(frame[name]).astype("Float64") / by for name in columns})


def rank_choice(ctx: Context, ranks: Sequence[int], name: str) -> int | None:
    """A rank; no question where there is but one, None where there is none."""
    if len(ranks) < 2:
        return ranks[0] if ranks else None
    picked: int = st.selectbox(
        ctx.say("communication.rank"), ranks, key=key(ctx, name), width=220, format_func=lambda rank: f"rank {rank}",
    )  # fmt: skip
    return picked


def go(ctx: Context, moments: Sequence[Moment], name: str) -> None:
    """Choose one of some moments and open the timeline there; nothing where there is no timeline or no moment."""
    if not moments or context.page("timeline") is None:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = st.selectbox(
            ctx.say("communication.moment"), range(len(moments)), key=key(ctx, f"moment_{name}"), width=620,
            format_func=lambda index: _said(ctx, moments[index]),
        )  # fmt: skip
        chosen = moments[place or 0]
        link.to_timeline(
            ctx, "shell.on_timeline", chosen.ts_ns, chosen.dur_ns, chosen.rank, chosen.span_id, key=name
        )  # fmt: skip


def _said(ctx: Context, moment: Moment) -> str:
    return ctx.say("communication.moment_said", {
        "rank": moment.rank, "start": i18n.duration(moment.ts_ns),
        "length": moment.more or i18n.duration(moment.dur_ns), "name": wording.plain(moment.name)[:_NAME],
    }).rstrip(" :：")  # fmt: skip
