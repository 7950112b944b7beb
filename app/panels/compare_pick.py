"""What is compared with what: two runs, or two ranks or steps of the chosen run. The link keeps it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import streamlit as st

from analysis import split
from analysis.look import compare
from analysis.regression.compared import warm_up
from app import context, i18n, telling
from app.context import Context
from app.panels import cells, run_list
from ingest.store import RunInfo

_LONGEST = 28  # letters of a name in the head of a column
WAYS = ("runs", "ranks", "steps")
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Half:
    """One side: its run, what of it, what it is called and what was measured of it."""

    ctx: Context
    run: RunInfo
    name: str
    ranks: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    whole: bool = False

    def measured(self, measure: Callable[..., T]) -> T:
        """What a function of analysis says of this side."""
        return context.measured_of(self.ctx, self.run.run_id, measure, self.ranks, self.steps, self.whole)

    @property
    def short(self) -> str:
        """Its name as the head of a column: not long, and nothing a spreadsheet would run."""
        name = telling.plain(self.name)
        return cells.cell(name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…")

    @property
    def side(self) -> compare.Side:
        return self.measured(compare.side)


@dataclass(frozen=True)
class Pair:
    """Both sides, and the way they were chosen."""

    by: str
    base: Half
    head: Half


def show(ctx: Context) -> Pair | None:
    """The controls; None where there is nothing to compare in the chosen way."""
    by = _way(ctx)
    if by == "runs":
        return _runs(ctx)
    assert ctx.run is not None
    rows = context.measured(ctx, split.breakdown)
    return _ranks(ctx, rows) if by == "ranks" else _steps(ctx, rows)


def _way(ctx: Context) -> str:
    wanted = st.query_params.get("by")
    usual = "runs" if len(ctx.runs) > 1 else "ranks" if ctx.run and len(ctx.run.ranks) > 1 else "steps"
    chosen = st.segmented_control(
        ctx.say("compare.by"), WAYS, default=wanted if wanted in WAYS else usual, required=True, key="compare_by",
        format_func=lambda way: ctx.say(f"compare.by_{way}"),
    )  # fmt: skip
    way = chosen or usual
    if wanted is not None and way != wanted:
        for key in ("base", "head"):
            st.query_params.pop(key, None)
    st.query_params["by"] = way
    return way


def _two(ctx: Context, options: Sequence[T], usual: tuple[T, T], says: Callable[[T], str], by: str) -> tuple[T, T]:
    """Two choices and the button that swaps them."""
    named, keys = {str(option): option for option in options}, ("base", "head")
    lost = [st.query_params[key] for key in keys if st.query_params.get(key, str(usual[0])) not in named]
    picked = [named.get(st.query_params.get(key, ""), other) for key, other in zip(keys, usual, strict=True)]
    if picked[0] == picked[1] and "base" not in st.query_params:
        picked[0] = next(option for option in options if option != picked[1])
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for place, key in enumerate(keys):
            turn = st.session_state.get("compare_turn", 0)
            picked[place] = st.selectbox(
                ctx.say(f"compare.{key}"), options, index=list(options).index(picked[place]), format_func=says,
                key=f"compare_{key}_{by}_{turn}_{ctx.lang}_{hash(tuple(options))}",
            )  # fmt: skip
            st.query_params[key] = str(picked[place])
        st.button(ctx.say("compare.swap"), icon=":material/swap_horiz:", key="compare_swap", on_click=_swap,
                  args=(str(picked[0]), str(picked[1])))  # fmt: skip
    for name in lost:
        st.text(ctx.say("compare.unknown", {"name": telling.plain(name)}))
    return picked[0], picked[1]


def _swap(base: str, head: str) -> None:
    st.query_params["base"], st.query_params["head"] = head, base
    st.session_state["compare_turn"] = st.session_state.get("compare_turn", 0) + 1


def _runs(ctx: Context) -> Pair | None:
    if len(ctx.runs) < 2 or ctx.run is None:
        st.text(ctx.say("compare.one_run"))
        return None
    by_id = {run.run_id: run for run in ctx.runs}
    other = next(run.run_id for run in ctx.runs if run != ctx.run)
    base, head = _two(
        ctx, list(by_id), (other, ctx.run.run_id),
        lambda run_id: telling.plain(run_list.name(ctx, by_id[run_id])), "runs",
    )  # fmt: skip
    halves = [Half(replace(ctx, run=by_id[key]), by_id[key], run_list.name(ctx, by_id[key])) for key in (base, head)]
    return _warm(ctx, _steps_on_both("runs", halves[0], halves[1]))


def _ranks(ctx: Context, rows: Sequence[split.Row]) -> Pair | None:
    """By default the rank that computes least, and the one that computes most."""
    run = ctx.run
    computing = {row.rank: row.computing_ns for row in rows if row.step is None}
    if run is None or len(computing) < 2:
        st.text(ctx.say("compare.one_rank"))
        return None
    order = sorted(computing, key=lambda rank: (computing[rank] or 0, rank))
    base, head = _two(ctx, sorted(computing), (order[0], order[-1]), lambda rank: ctx.say(
        "compare.rank_option", {"rank": rank, "length": i18n.duration(computing[rank])}), "ranks")  # fmt: skip
    both = [{row.step for row in rows if row.rank == rank and row.step is not None} for rank in (base, head)]
    common = tuple(sorted(both[0] & both[1])) or None
    halves = [Half(ctx, run, ctx.say("compare.rank", {"rank": rank}), (rank,), common) for rank in (base, head)]
    return _warm(ctx, _steps_on_both("ranks", halves[0], halves[1]))


def _steps(ctx: Context, rows: Sequence[split.Row]) -> Pair | None:
    """By default the shortest step, and the longest."""
    run, longest = ctx.run, dict[int, int]()
    for row in rows:
        if row.step is not None:
            longest[row.step] = max(longest.get(row.step, 0), row.dur_ns or 0)
    if run is None or len(longest) < 2:
        st.text(ctx.say("compare.one_step"))
        return None
    order = sorted(longest, key=lambda step: (longest[step], step))
    base, head = _two(ctx, sorted(longest), (order[0], order[-1]), lambda step: ctx.say(
        "compare.step_option", {"step": step, "length": i18n.duration(longest[step])}), "steps")  # fmt: skip
    both = [{row.rank for row in rows if row.step == step and row.dur_ns} for step in (base, head)]
    common = tuple(sorted(both[0] & both[1])) or None
    halves = [Half(ctx, run, ctx.say("compare.step", {"step": step}), common, (step,)) for step in (base, head)]
    return Pair("steps", halves[0], halves[1])


def _warm(ctx: Context, pair: Pair) -> Pair:
    """Without the steps that are warm-up, unless the visitor wants them."""
    halves = (pair.base, pair.head)
    cold = [warm_up(half.side) for half in halves]
    if pair.by == "ranks":  # both keep the same steps
        cold = [tuple(sorted({*cold[0], *cold[1]}))] * 2
    if not any(cold):
        return pair
    what = ctx.say("shell.comma").join(
        ctx.say("verdict.leave_out_which", {"steps": i18n.ranges(steps), "side": telling.plain(half.name)})
        for half, steps in zip(halves, cold, strict=True) if steps
    )
    if not st.toggle(ctx.say("verdict.leave_out", {"what": what}), value=True, key="compare_warm",
                     help=ctx.say("verdict.leave_out_help")):  # fmt: skip
        return pair
    base, head = (
        replace(half, steps=tuple(step for step in half.side.steps if step not in steps)) if steps else half
        for half, steps in zip(halves, cold, strict=True)
    )
    return Pair(pair.by, base, head)


def _steps_on_both(by: str, base: Half, head: Half) -> Pair:
    """Steps if both sides have them, else whole captures."""
    if base.side.windows and head.side.windows:
        return Pair(by, base, head)
    return Pair(by, replace(base, steps=None, whole=True), replace(head, steps=None, whole=True))
