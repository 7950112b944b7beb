"""What is compared with what: runs, or ranks or steps of the chosen run, one or several a side. The link keeps it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

import streamlit as st

from npulens.analysis import split
from npulens.app import context
from npulens.app.context import Context
from npulens.app.pages.compare.half import Half, Pair, Part
from npulens.app.panels import run_list
from npulens.app.selection.chosen import Selection
from npulens.app.text import i18n, wording
from npulens.app.text.number_lists import NoNumbers, numbers
from npulens.ingest.store import history
from npulens.ingest.store.runs import RunInfo

WAYS = ("runs", "ranks", "steps")
T = TypeVar("T", bound=Hashable)


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
    usual = _usual_way(ctx)
    chosen = st.segmented_control(
        ctx.say("compare.by"), WAYS, default=wanted if wanted in WAYS else usual, required=True, key="compare_by",
        format_func=lambda way: ctx.say(f"compare.by_{way}"),
    )  # fmt: skip
    way = chosen or usual
    if wanted is not None and way != wanted:
        for key in ("base", "head", "turns", *KEYS):
            st.query_params.pop(key, None)
    st.query_params["by"] = way
    return way


def _usual_way(ctx: Context) -> str:
    """Runs where a link names some or the store holds another one of this job, else what the run holds several of."""
    named = {"base", "head"} & set(st.query_params)
    if ctx.run is None or named or (len(ctx.runs) > 1 and usual_base(ctx, ctx.run)[1]):
        return "runs"
    several = {"ranks": len(ctx.run.ranks) > 1, "steps": ctx.run.steps > 1, "runs": len(ctx.runs) > 1}
    return next((way for way, held in several.items() if held), "steps")


def _sides(
    ctx: Context, options: Sequence[T], usual: tuple[T, T], says: Callable[[T], str], by: str
) -> tuple[tuple[T, ...], tuple[T, ...]] | None:
    """Two choices of one or several, and the button that swaps them; None while one of them is empty."""
    named = {str(option): option for option in options}
    picked, lost = [], list[str]()
    for key, other in zip(("base", "head"), usual, strict=True):
        asked = [text for text in st.query_params.get(key, "").split(",") if text]
        lost += [text for text in asked if text not in named]
        picked.append([named[text] for text in dict.fromkeys(asked) if text in named] or [other])
    if "base" not in st.query_params and picked[0][0] in picked[1]:
        picked[0] = [next((option for option in options if option not in picked[1]), picked[0][0])]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for place, key in enumerate(("base", "head")):
            turn = st.session_state.get("compare_turn", 0)
            picked[place] = st.multiselect(
                ctx.say(f"compare.{key}"), options, default=picked[place], format_func=says,
                key=f"compare_{key}_{by}_{turn}_{ctx.lang}_{hash(tuple(options))}",
                help=ctx.say("compare.several_help"), placeholder=ctx.say("compare.choose"),
            )  # fmt: skip
            st.query_params[key] = ",".join(map(str, picked[place]))
        st.button(ctx.say("compare.swap"), icon=":material/swap_horiz:", key="compare_swap", on_click=_swap)
    for name in lost:
        st.text(ctx.say("compare.unknown", {"name": wording.plain(name)}))
    if not all(picked):
        st.text(ctx.say("compare.none_chosen"))
        return None
    return tuple(picked[0]), tuple(picked[1])


def _swap() -> None:
    """What stands in the address changes sides, and the controls begin anew with it."""
    for base, head in (("base", "head"), *SIDES):
        texts = st.query_params.pop(base, None), st.query_params.pop(head, None)
        for key, text in zip((head, base), texts, strict=True):
            if text is not None:
                st.query_params[key] = text
    st.session_state["compare_turn"] = st.session_state.get("compare_turn", 0) + 1


def _runs(ctx: Context) -> Pair | None:
    if len(ctx.runs) < 2 or ctx.run is None:
        st.text(ctx.say("compare.one_run"))
        return None
    by_id = {run.run_id: run for run in ctx.runs}
    other, _ = usual_base(ctx, ctx.run)
    chosen = _sides(
        ctx, list(by_id), (other.run_id, ctx.run.run_id),
        lambda run_id: wording.plain(run_list.name(ctx, by_id[run_id])), "runs",
    )  # fmt: skip
    narrow = show_narrow(ctx)
    if chosen is None or narrow is None:
        return None
    base, head = (
        Half(replace(ctx, run=by_id[ids[0]], selection=Selection()), _several(ctx, [by_id[each] for each in ids]),
             tuple(Part(by_id[each], ranks, steps) for each in ids))
        for ids, (ranks, steps) in zip(chosen, narrow, strict=True)
    )  # fmt: skip
    if max(map(len, chosen)) > 1 and set(chosen[0]) & set(chosen[1]):
        st.text("◐ " + ctx.say("compare.overlap"))
    pair = Pair("runs", base, head, len(chosen[0]) == len(chosen[1]) > 1 and _turns(ctx))
    if any(steps is not None for _, steps in narrow):  # who names steps means them
        return pair
    return _warm(ctx, _steps_on_both(pair))


def usual_base(ctx: Context, head: RunInfo) -> tuple[RunInfo, bool]:
    """What a run is measured against if nobody says, and whether both may be of one job.

    It is the run most like it: what the history follows as one, then its workload, then its size and kind. Of several,
    it is the last one loaded before it.
    """
    followed = history.identity_by_run(ctx.store)
    mine = followed.get(head.run_id)

    def like(run: RunInfo) -> tuple[bool, ...]:
        its = followed.get(run.run_id)
        return (
            mine is not None and its == mine,
            mine is not None and its is not None and bool(mine.workload) and its.workload == mine.workload,
            _kind(run) == _kind(head), run.ranks == head.ranks, run.formats == head.formats,
            run.status == head.status, run.baseline, run.loaded_at <= head.loaded_at,
        )  # fmt: skip

    base = max((run for run in ctx.runs if run != head), key=like)  # of equals the first: they are the newest first
    return base, any(like(base)[:3])


def _kind(run: RunInfo) -> tuple[int, str | None, str | None, tuple[str, ...]]:
    return run.world_size or len(run.ranks), run.job, run.evidence, tuple(run.formats)


def _several(ctx: Context, runs: Sequence[RunInfo]) -> str:
    name = run_list.name(ctx, runs[0])
    return name if len(runs) == 1 else ctx.say("compare.several", {"name": name, "more": len(runs) - 1})


def _turns(ctx: Context) -> bool:
    """Whether the n-th runs of both sides belong together. Clocks say so by themselves, where captures have them."""
    turns = st.toggle(ctx.say("compare.in_turns"), value=st.query_params.get("turns") == "1", key="compare_turns",
                      help=ctx.say("compare.in_turns_help"))  # fmt: skip
    if turns:
        st.query_params["turns"] = "1"
    else:
        st.query_params.pop("turns", None)
    return turns


def _ranks(ctx: Context, rows: Sequence[split.Row]) -> Pair | None:
    """By default the rank that computes least, and the one that computes most."""
    run = ctx.run
    computing = {row.rank: row.computing_ns for row in rows if row.step is None}
    if run is None or len(computing) < 2:
        st.text(ctx.say("compare.one_rank"))
        return None
    order = sorted(computing, key=lambda rank: (computing[rank] or 0, rank))
    chosen = _sides(ctx, sorted(computing), (order[0], order[-1]), lambda rank: ctx.say(
        "compare.rank_option", {"rank": rank, "length": i18n.duration(computing[rank])}), "ranks")  # fmt: skip
    if chosen is None:
        return None
    every = [{row.step for row in rows if row.rank == rank and row.step is not None} for rank in chosen[0] + chosen[1]]
    common = tuple(sorted(set.intersection(*every))) or None
    base, head = (Half(ctx, ctx.say("compare.rank", {"rank": i18n.ranges(ranks)}), (Part(run, ranks, common),))
                  for ranks in map(_sorted, chosen))  # fmt: skip
    return _warm(ctx, _steps_on_both(Pair("ranks", base, head)))


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
    chosen = _sides(ctx, sorted(longest), (order[0], order[-1]), lambda step: ctx.say(
        "compare.step_option", {"step": step, "length": i18n.duration(longest[step])}), "steps")  # fmt: skip
    if chosen is None:
        return None
    every = [{row.rank for row in rows if row.step == step and row.dur_ns} for step in chosen[0] + chosen[1]]
    common = tuple(sorted(set.intersection(*every))) or None
    base, head = (Half(ctx, ctx.say("compare.step", {"step": i18n.ranges(steps)}), (Part(run, common, steps),))
                  for steps in map(_sorted, chosen))  # fmt: skip
    return Pair("steps", base, head)


def _sorted(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(numbers))


def _warm(ctx: Context, pair: Pair) -> Pair:
    """Without the steps that are warm-up, unless the visitor wants them."""
    halves = (pair.base, pair.head)
    cold = [half.cold() for half in halves]
    if pair.by == "ranks":  # both keep the same steps
        cold = [[tuple(sorted({*cold[0][0], *cold[1][0]}))]] * 2
    said = [sorted({step for steps in each for step in steps}) for each in cold]
    if not any(said):
        return pair
    what = ctx.say("shell.comma").join(
        ctx.say("verdict.leave_out_which", {"steps": i18n.ranges(steps), "side": wording.plain(half.name)})
        for half, steps in zip(halves, said, strict=True)
        if steps
    )
    if not st.toggle(ctx.say("verdict.leave_out", {"what": what}), value=True, key="compare_warm",
                     help=ctx.say("verdict.leave_out_help")):  # fmt: skip
        return pair
    return replace(pair, base=pair.base.without(cold[0]), head=pair.head.without(cold[1]))


def _steps_on_both(pair: Pair) -> Pair:
    """Steps if every run of both sides has them, else whole captures."""
    if not pair.base.empty and not pair.head.empty:
        return pair
    return replace(pair, base=pair.base.entire(), head=pair.head.entire())


# Only some ranks or steps of the runs that are compared, written as `npulens compare` takes them.
Numbers = tuple[int, ...] | None
#: What of the address changes places when the sides do.
SIDES = (("base_ranks", "head_ranks"), ("base_steps", "head_steps"))
KEYS = tuple(key for keys in SIDES for key in keys)
_MOST = 10_000  # numbers in one list
_LONGEST = 400  # letters of one


def show_narrow(ctx: Context) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]] | None:
    """Ranks and steps of base and of head, None for all of them; None while one of the lists cannot be read."""
    with st.expander(ctx.say("compare.narrow"), expanded=any(key in st.query_params for key in KEYS)):
        st.caption(ctx.say("compare.narrow_help"))
        places, found, whole = st.columns(2), dict[str, Numbers](), True
        for keys in SIDES:
            for place, key in zip(places, keys, strict=True):
                with place:
                    numbers = _numbers(ctx, key)
                if isinstance(numbers, NoNumbers):
                    whole = False
                else:
                    found[key] = numbers
    if not whole:
        return None
    ranks, steps = ([found[key] for key in keys] for keys in SIDES)
    return (ranks[0], steps[0]), (ranks[1], steps[1])


def _numbers(ctx: Context, key: str) -> Numbers | NoNumbers:
    turn = st.session_state.get("compare_turn", 0)
    text = st.text_input(
        ctx.say(f"compare.{key}"), value=st.query_params.get(key, "")[:_LONGEST], max_chars=_LONGEST,
        key=f"compare_{key}_{turn}_{ctx.lang}", placeholder=ctx.say("compare.narrow_all"),
    ).strip()  # fmt: skip
    if not text:
        st.query_params.pop(key, None)
        return None
    st.query_params[key] = text
    try:
        return numbers(text, _MOST)
    except NoNumbers as error:
        st.text(ctx.say("compare.no_numbers", {"text": wording.plain(text)}))
        return error
