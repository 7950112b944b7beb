"""Which history is looked at: an identity and one of its metrics. The link keeps both."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from npulens.app.context import Context
from npulens.app.histories import Judged, catch_up, judged, percent
from npulens.app.text import i18n, wording
from npulens.ingest.store import history
from npulens.ingest.store.history import Identity

_FIRST = ("regressed", "improved")


def read(ctx: Context) -> dict[str, Identity]:
    """Every identity by key, after runs that came meanwhile have joined."""
    with st.spinner(ctx.say("shell.measuring")):
        catch_up(ctx.store)
    return history.keyed(ctx.store)


@st.cache_data(max_entries=64, show_spinner=False)
def _judged(place: str, key: str, _ctx: Context, stamp: int) -> list[Judged]:
    return judged(_ctx.store, key)


def show(ctx: Context, known: dict[str, Identity]) -> tuple[Judged, list[Judged]] | None:
    """The series that was chosen, and all of its identity."""
    wanted = st.query_params.get("identity", "")
    if wanted and wanted not in known:
        st.text(ctx.say("history.unknown", {"name": wording.plain(wanted)}))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        keys = sorted(known, key=lambda key: (not known[key].workload, known[key].texts))  # what has a name first
        of_run = history.identity_of(ctx.store, ctx.run.run_id) if ctx.run else None
        first = next((key for key in (wanted, of_run) if key in known), keys[0])
        chosen = st.selectbox(
            ctx.say("history.identity"), keys, index=keys.index(first),
            format_func=lambda key: _called(ctx, known[key]), key=f"history_identity_{ctx.lang}_{hash(tuple(keys))}",
            help=ctx.say("history.identity_means"),
        )  # fmt: skip
        if wanted not in ("", chosen):
            st.query_params.pop("metric", None)
        st.query_params["identity"] = chosen
        every = sorted(_judged(str(ctx.store), chosen, ctx, history.stamp(ctx.store)), key=_urgent)
        if not every:
            return None
        return _metric(ctx, chosen, every), every


def _metric(ctx: Context, identity: str, every: Sequence[Judged]) -> Judged:
    by_name = {each.metric: each for each in every}
    wanted = st.query_params.get("metric", "")
    names = list(by_name)
    picked = st.selectbox(
        ctx.say("history.metric"), names, index=names.index(wanted) if wanted in by_name else 0, width=380,
        format_func=lambda name: _marked(ctx, by_name[name]), help=ctx.say("history.metric_means"),
        key=f"history_metric_{identity}_{ctx.lang}_{hash(tuple(names))}",
    )  # fmt: skip
    st.query_params["metric"] = picked
    return by_name[picked]


def _urgent(each: Judged) -> tuple[bool, bool, str]:
    """Fresh changes first, then the step itself."""
    return (each.verdict.verdict not in _FIRST, "step_ns" not in each.metric, each.metric)


def _called(ctx: Context, identity: Identity) -> str:
    texts = [identity.workload or ctx.say("history.unnamed"), identity.hardware, identity.configuration,
             identity.shapes, identity.host]  # fmt: skip
    return wording.plain(" · ".join(text for text in texts if text))


def _marked(ctx: Context, each: Judged) -> str:
    """A metric with what is new about it."""
    if each.verdict.verdict not in _FIRST:
        return called(ctx, each.metric)
    change = each.verdict.changes[-1]
    return f"{'▲' if change.ratio > 1 else '▼'} {percent(change.ratio)} · {called(ctx, each.metric)}"


def called(ctx: Context, metric: str) -> str:
    """What a metric is called on the screen; one that is not ours keeps its name."""
    known = f"history.metric_{metric}"
    return ctx.say(known) if i18n.known(known) else wording.plain(metric)
