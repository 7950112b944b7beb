"""The bar on top of every page of measurements: what is selected, and how to change or clear it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import streamlit as st

from npulens.analysis.selection import within
from npulens.app import context
from npulens.app.context import Context
from npulens.app.selection import chosen
from npulens.app.selection.chosen import Selection
from npulens.app.text import i18n, wording

#: More ranks or steps than this are typed, not picked.
_PICKED_RANKS, _PICKED_STEPS = 64, 500
#: A part of the selection by its word, and what says that a measurement does not follow it.
_SAYS = ("ranks", "steps", "window")
#: A problem is called by its detector, a second one of it by its number too.
_PROBLEM = re.compile(r"([a-z_]+)(?:-(\d{1,4}))?")


def show(ctx: Context) -> None:
    """The controls in one row; each is there only where it changes something."""
    if ctx.run is None:
        return
    told = ctx.selection
    with st.container(horizontal=True, vertical_alignment="bottom", key="selection", gap="small"):
        if len(ctx.run.ranks) > 1:
            _ranks(ctx, told)
        steps = context.measured(ctx, within.steps_of)
        if len(steps) > 1:
            _steps(ctx, told, steps)
        _window(ctx, told)
        if told.problem is not None:
            _chip(ctx, "problem", _problem(ctx, told.problem), replace(told, problem=None))
        if told.span is not None:
            name = context.measured(ctx, within.name_of, told.span) or str(told.span)
            _chip(ctx, "span", wording.plain(name)[:40], replace(told, span=None))
        if not told.empty:
            page = context.page("timeline")
            if page is not None:
                st.page_link(page, label=ctx.say("selection.on_timeline"), icon=":material/view_timeline:",
                             query_params=address(ctx))  # fmt: skip
            st.button(ctx.say("selection.clear"), key="selection_clear", icon=":material/close:",
                      on_click=lambda: context.select(ctx, Selection()))  # fmt: skip


def address(ctx: Context) -> dict[str, str]:
    """The words of a link to the same selection on another page."""
    return {"run": ctx.run.run_id if ctx.run else "", "lang": ctx.lang, **ctx.selection.query()}


def moment(ctx: Context, rank: int, ts_ns: int, dur_ns: int, span_id: int | None, key: str) -> None:
    """A button that selects a moment of a rank, on this page and every other."""
    window = (ts_ns, ts_ns + max(dur_ns, 1))
    told = Selection((rank,), None, window, ctx.selection.problem, span_id)
    st.button(
        ctx.say("selection.select"), key=f"select_{key}", icon=":material/filter_center_focus:", type="tertiary",
        disabled=told == ctx.selection, help=ctx.say("selection.select_means"),
        on_click=lambda: context.select(ctx, told),
    )  # fmt: skip


def area(ctx: Context, key: str) -> Callable[[], None]:
    """For a chart over time in ms: what to do when a part of its axis was marked."""

    def marked() -> None:
        state = st.session_state.get(key)
        boxes = state["selection"]["box"] if state else []
        if boxes and len(boxes[0]["x"]) == 2:
            begin, end = sorted(max(0, round(float(one) * 1e6)) for one in boxes[0]["x"])
            if begin < end:
                context.select(ctx, replace(ctx.selection, window=(begin, end), span=None))

    return marked


def follows(ctx: Context, *parts: str) -> bool:
    """Whether one of these parts is selected."""
    return any(getattr(ctx.selection, part) for part in parts or _SAYS)


def whole(ctx: Context, *parts: str) -> None:
    """One line where a measurement does not follow some part of the selection, if that part is selected."""
    if follows(ctx, *parts):
        st.caption("◐ " + ctx.say("selection.whole"))


def nothing(ctx: Context) -> bool:
    """One sentence in place of a page of which nothing is selected; whether less than everything is."""
    if ctx.selection.narrows:
        with st.container(border=True):
            st.text(ctx.say("selection.nothing"))
    return ctx.selection.narrows


def _ranks(ctx: Context, told: Selection) -> None:
    run = ctx.run.run_id if ctx.run else ""
    every = ctx.run.ranks if ctx.run else ()
    key = f"selection_ranks_{run}_{ctx.lang}"
    if len(every) > _PICKED_RANKS:
        _typed(ctx, "ranks", chosen.ranges(told.ranks), key)
        return
    st.session_state[key] = [rank for rank in told.ranks if rank in every]
    st.multiselect(
        ctx.say("selection.ranks"), every, key=key, width=240, placeholder=ctx.say("selection.all_ranks"),
        on_change=lambda: context.select(ctx, replace(told, ranks=_some(st.session_state[key], every))),
    )  # fmt: skip


def _some(picked: Sequence[int], every: Sequence[int]) -> tuple[int, ...]:
    return () if len(picked) == len(every) else tuple(sorted(picked))


def _steps(ctx: Context, told: Selection, steps: Sequence[int]) -> None:
    key = f"selection_steps_{ctx.run.run_id if ctx.run else ''}_{ctx.lang}"
    if len(steps) > _PICKED_STEPS:
        _typed(ctx, "steps", told.query().get("steps", ""), key)
        return
    inside = [step for step in steps if told.steps is None or told.steps[0] <= step <= told.steps[1]] or list(steps)
    key = f"{key}_{inside[0]}_{inside[-1]}"  # a slider takes no value from outside once it is there

    def changed() -> None:
        picked: tuple[int, int] = st.session_state[key]
        context.select(ctx, replace(told, steps=None if picked == (steps[0], steps[-1]) else picked))

    st.select_slider(ctx.say("selection.steps"), list(steps), (inside[0], inside[-1]), key=key, width=240,
                     on_change=changed)  # fmt: skip


def _typed(ctx: Context, word: str, text: str, key: str) -> None:
    """Many ranks or steps: 0,2-7."""
    st.session_state[key] = text

    def changed() -> None:
        read = chosen.read({word: st.session_state[key]})
        context.select(ctx, replace(ctx.selection, ranks=read.ranks) if word == "ranks" else replace(
            ctx.selection, steps=read.steps
        ))  # fmt: skip

    st.text_input(ctx.say(f"selection.{word}"), key=key, width=240, placeholder=ctx.say(f"selection.all_{word}"),
                  help=ctx.say("selection.typed"), on_change=changed)  # fmt: skip


def _window(ctx: Context, told: Selection) -> None:
    """The window in words; inside, its edges to the nanosecond."""
    label = ctx.say("selection.all_time") if told.window is None else ctx.say("selection.window_said", {
        "length": i18n.duration(told.window[1] - told.window[0]), "start": i18n.duration(told.window[0]),
    })  # fmt: skip
    keys = [f"selection_{edge}_{ctx.run.run_id if ctx.run else ''}_{ctx.lang}" for edge in ("from", "to")]
    if keys[0] not in st.session_state or st.session_state.get("selection_typed") != (keys, told.window):
        # What is half typed stays.
        st.session_state["selection_typed"] = keys, told.window
        st.session_state.update(zip(keys, ("", "") if told.window is None else map(str, told.window), strict=True))
    with st.popover(label, icon=":material/schedule:"):
        for key, edge in zip(keys, ("from", "to"), strict=True):
            st.text_input(
                ctx.say(f"selection.{edge}"), key=key, on_change=lambda: _typed_window(ctx, told, keys), width=240,
            )  # fmt: skip
        if told.window is not None:
            st.button(ctx.say("selection.clear_window"), key="selection_clear_window", icon=":material/close:",
                      on_click=lambda: context.select(ctx, replace(told, window=None)))  # fmt: skip


def _typed_window(ctx: Context, told: Selection, keys: Sequence[str]) -> None:
    texts = [str(st.session_state[key]).replace(",", "").strip() for key in keys]
    window = chosen.read({"window": "-".join(texts)}).window
    if window is not None or not any(texts):
        context.select(ctx, replace(told, window=window))


def _chip(ctx: Context, word: str, text: str, without: Selection) -> None:
    """A chosen problem or span, and the way to let go of it."""
    st.button(ctx.say(f"selection.{word}_said", {"name": text}), key=f"selection_without_{word}", type="tertiary",
              icon=":material/close:", help=ctx.say("selection.let_go"),
              on_click=lambda: context.select(ctx, without))  # fmt: skip


def _problem(ctx: Context, problem: str) -> str:
    """The problem in the words of the workspace's list: slow link, slow link 2."""
    named = _PROBLEM.fullmatch(problem)
    detector, number = (named[1], named[2] or "") if named else (problem, "")
    said = wording.text_of(ctx.lang, f"workspace.cause_{detector}", detector.replace("_", " "))
    return f"{wording.plain(said)} {number}".strip()[:40]
