"""The head of the workspace: what the run is, one verdict, six tiles; the sentences behind "why"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import streamlit as st

from npulens.analysis.engine import Check
from npulens.analysis.finding import STEP
from npulens.analysis.problems.shown import Glance, ranks_of
from npulens.analysis.say import duration
from npulens.analysis.serving import look, role_times
from npulens.analysis.steady import OUTSIDE_SHARE
from npulens.app import context
from npulens.app.charts import roles
from npulens.app.context import Context
from npulens.app.pages.workspace import chosen
from npulens.app.panels import run_list, sentence
from npulens.app.settings.of_checks import in_force
from npulens.app.text import i18n, wording
from npulens.ingest.store.runs import RunInfo

STYLE = f"<style>{Path(__file__).with_name('head.css').read_text('utf-8')}</style>"


@dataclass(frozen=True)
class Tile:
    """One figure: what it is, how much, and what of."""

    name: str
    value: str
    of: str
    role: str | None = None  # of app/charts/roles.py


def show(ctx: Context, run: RunInfo, seen: Glance | None, found: Check | None, said: str, waits: bool) -> None:
    """What the run is, the verdict with "why" beside it, the tiles; ``said`` is the verdict."""
    stage = "waits" if waits else "judged"  # both can be drawn in one script, the later over the earlier
    with st.container(horizontal=True, vertical_alignment="center", key=f"facts_{stage}", gap="small"):
        with st.container(key=f"run_title_{stage}", width="content"):
            st.text(run_list.name(ctx, run), width="content")
        st.text(" · ".join(filter(None, (run_list.origin(ctx, run), facts(ctx, run)))), width="content")
    with st.container(horizontal=True, vertical_alignment="center", key=f"verdict_line_{stage}", gap="small"):
        with st.container(key="verdict" if waits else "answer", width="content"):
            st.text(said, width="content")
        with st.popover(ctx.say("workspace.why"), type="tertiary", key=f"why_{stage}"):
            _why(ctx, run, found, stage)
    st.html(drawn(tiles(ctx, seen, found)))


def facts(ctx: Context, run: RunInfo) -> str:
    """Ranks, steps and format in a few words."""
    several = run.world_size is not None and run.world_size > len(run.ranks)
    parts = [ctx.say("workspace.facts_ranks" if several else "workspace.facts_all",
                     {"n": len(run.ranks), "world": i18n.count(run.world_size)})]  # fmt: skip
    parts.append(ctx.say("workspace.facts_steps" if run.steps else "workspace.facts_no_steps", {"n": run.steps}))
    if run_list.without_spans(ctx, run):  # an engine has neither ranks nor steps where no trace tells of them
        parts.clear()
    parts.append(run_list.formats(ctx, run))
    if run.status == "partial":
        parts.append(ctx.say("workspace.facts_partial"))
    return " · ".join(parts)


def _why(ctx: Context, run: RunInfo, found: Check | None, stage: str) -> None:
    """The sentences: what this run is and lacks, the answer, everything together, the capture."""
    with st.container(key=f"prose_{stage}", gap="xsmall"):
        sentence.about(ctx, run)
        if found is None:
            return
        for line in (wording.answer(found, ctx.lang), *wording.serving(found, ctx.lang)):
            st.text(line)
        for said in (
            wording.together(found, ctx.lang), *wording.kernels(found, ctx.lang), wording.quality(found, ctx.lang),
        ):  # fmt: skip
            if said:
                st.text(said)
        st.text(wording.outcomes(found, ctx.lang))


def verdict(ctx: Context, found: Check, every: Sequence[chosen.Problem]) -> str:
    """At most 14 words: the largest saving that is still open, on which ranks, how much."""
    open_ = next((one.finding for one in every if not one.settled), None)
    if open_ is not None:
        way = "is_rank" if open_.cause == "late_rank" else "on_rank"
        called = chosen.called(ctx, open_)
        if open_.measure != STEP:
            told = {"problem": called, "of": wording.share_of(open_, "", ctx.lang)}
            return ctx.say("workspace.verdict_measure", told)
        return ctx.say("workspace.verdict" if _stepped(ctx) else "workspace.verdict_recorded", {
            "problem": chosen.where(ctx, ranks_of(open_), way, called), "share": wording.share(open_.saving_share),
        })  # fmt: skip
    if ctx.run and not found.findings and run_list.without_spans(ctx, ctx.run) == "request":
        clean = 0 if found.serving is None else wording.count(found, "clean")
        return ctx.say("workspace.verdict_requests_none" if clean else "workspace.verdict_blind", {"n": clean})
    if found.findings:
        return ctx.say("workspace.verdict_settled")
    if looked(found):
        blind = wording.count(found, "not_measured")
        if blind:
            return ctx.say("workspace.verdict_some", {"n": blind, "all": len(found.outcomes)})
        return ctx.say("workspace.verdict_none" if _stepped(ctx) else "workspace.verdict_none_recorded")
    if any(doubt.name == "sums" for doubt in found.quality.doubts):
        return ctx.say("workspace.verdict_sums")
    return ctx.say("workspace.verdict_no_device" if wording.host_only(found) else "workspace.verdict_blind")


def looked(found: Check) -> bool:
    """Whether any check could look: else nothing that was not found is known not to be there."""
    return bool(wording.count(found, "clean") or wording.count(found, "masked") or found.findings)


def _stepped(ctx: Context) -> bool:
    return bool(ctx.run and ctx.run.steps)


def tiles(ctx: Context, seen: Glance | None, found: Check | None) -> list[Tile]:
    """What was recorded in four figures, what can be saved, quality of the capture."""
    asked, worked = requests(ctx), job(ctx)
    if asked is not None:
        return [*_of_requests(ctx, asked), *_judged(ctx, found)]
    return [*(_of_ranks(ctx, seen) if worked is None else _of_job(ctx, worked)), *_judged(ctx, found)]


def _of_ranks(ctx: Context, seen: Glance | None) -> list[Tile]:
    """Step time, computing, exposed communication, idle."""
    none = ctx.say("workspace.no_figure")
    of_ranks = none if seen is None else ctx.say("workspace.of_ranks", {"n": seen.ranks})
    of = of_ranks if seen is None or not seen.steps else ctx.say("workspace.of_mean", {"n": seen.steps})
    mean, whole = None if seen is None else seen.mean_ns, None if ctx.run is None else ctx.run.dur_ns
    named = "tile_step" if _stepped(ctx) else "tile_recorded"
    if mean and whole and not _stepped(ctx) and mean < (1 - OUTSIDE_SHARE) * whole:
        named, of = "tile_outside", ctx.say("workspace.of_whole", {"time": duration(whole)})
    return [
        Tile(ctx.say(f"workspace.{named}"), _length(mean), of),
        *(
            Tile(ctx.say(f"workspace.tile_{name}"), i18n.share(value, mean), none if value is None else _length(value),
                 role)
            for name, role, value in (
                ("computing", "computing", seen.computing_ns if seen else None),
                ("exposed", "transferring", seen.exposed_ns if seen else None),
                ("idle", "idle", seen.idle_ns if seen else None),
            )
        ),
    ]  # fmt: skip


def requests(ctx: Context) -> look.Requests | None:
    """What the engine's requests took, where the run holds some."""
    held = ctx.run is not None and run_list.holds(ctx, ctx.run, "request")
    return context.measured(ctx, look.look, in_force(None).slo) if held else None


def job(ctx: Context) -> role_times.Job | None:
    """The steps of a job with rollouts, where nothing else was recorded."""
    alone = ctx.run is not None and run_list.without_spans(ctx, ctx.run) in ("stage", "log")
    return context.measured(ctx, role_times.job) if alone else None


def _of_job(ctx: Context, found: role_times.Job) -> list[Tile]:
    """The mean step, and how much of it there is rollout, training, and nobody at work."""
    none = ctx.say("workspace.no_figure")
    parts = {name: found.roles.get(role)
             for name, role in (("rollout", "rollout"), ("training", "update"), ("nobody", ""))}  # fmt: skip
    return [
        Tile(ctx.say("workspace.tile_step"), duration(found.step_ns),
             ctx.say("workspace.of_mean", {"n": found.steps})),
        *(Tile(ctx.say(f"workspace.tile_{name}"), i18n.share(ns, found.step_ns), none if ns is None else duration(ns))
          for name, ns in parts.items()),
    ]  # fmt: skip


def _of_requests(ctx: Context, asked: look.Requests) -> list[Tile]:
    """Requests, P99 of TTFT and TPOT with P50 beside it, goodput."""
    took = {f"{one.measure}{one.percent}": round(one.value_ns) for one in asked.percentiles}
    span = {"time": _length(ctx.run.dur_ns if ctx.run else None)}
    slo = {"ttft": f"{asked.slo.ttft_ns / 1e6:g} ms", "tpot": f"{asked.slo.tpot_ns / 1e6:g} ms"}
    return [
        Tile(ctx.say("workspace.tile_requests"), f"{asked.count:,}", ctx.say("workspace.of_span", span)),
        *(
            Tile(ctx.say(f"workspace.tile_{measure}"), _length(took.get(f"{measure}99")),
                 ctx.say("workspace.of_half", {"time": _length(took.get(f"{measure}50"))}))
            for measure in ("ttft", "tpot")
        ),
        Tile(ctx.say("workspace.tile_goodput"),
             ctx.say("workspace.of_all", {"good": asked.good, "n": asked.counted}), ctx.say("workspace.of_slo", slo)),
    ]  # fmt: skip


def _judged(ctx: Context, found: Check | None) -> list[Tile]:
    """What can be saved, of the step or of what the first problem is of, and the quality of the capture."""
    if found is None:
        waits = ctx.say("workspace.waits")
        return [Tile(ctx.say(f"workspace.tile_{name}"), "–", waits) for name in ("saving", "quality")]
    first = next(iter(found.findings), None)
    if first is None:
        saving = i18n.share(0 if looked(found) else None, found.step_ns)
        of = ctx.say("workspace.nothing" if looked(found) else "workspace.unjudged")
    elif first.measure == STEP:
        saving = i18n.share(found.together_ns, found.step_ns)
        of = ctx.say("workspace.up_to", {"saving": duration(found.together_ns)})
    else:
        saving = wording.share(first.saving_share)
        of = ctx.say("workspace.up_to", {"saving": wording.saved(first, ctx.lang)})
    lacks = len(found.quality.missing)
    return [
        Tile(ctx.say("workspace.tile_saving"), saving, of),
        Tile(ctx.say("workspace.tile_quality"), f"{found.quality.score} / 100",
             ctx.say("workspace.lacks" if lacks else "workspace.whole_quality", {"n": lacks})),
    ]  # fmt: skip


def _length(ns: int | None) -> str:
    return "–" if ns is None else duration(ns)


def drawn(every: Sequence[Tile]) -> str:
    """The tiles as markup; nothing in them comes from a capture, and it is escaped all the same."""
    cells = "".join(
        f'<div class="tile" role="listitem" {_edge(tile)}>'
        f"<span>{escape(tile.name)}</span><b>{escape(tile.value)}</b><small>{escape(tile.of)}</small></div>"
        for tile in every
    )
    return f'<div class="tiles" role="list">{cells}</div>'


def _edge(tile: Tile) -> str:
    """The colour of the tile's kind of time, on its left."""
    return f'style="border-left: 4px solid {roles.colour(tile.role)}"' if tile.role else ""
