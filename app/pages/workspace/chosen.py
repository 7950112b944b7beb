"""What is chosen on the workspace: the problem, the moment, the view. It lies in the address and outlives a reload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from npulens.analysis.finding import Evidence, Finding
from npulens.analysis.problems.shown import finding_ids
from npulens.app import context
from npulens.app.context import Context
from npulens.app.report.subject import Subject
from npulens.app.text import i18n
from npulens.app.text.wording import text_of
from npulens.ingest.store import history_run, notes
from npulens.ingest.store.notes import Remark

VIEWS = ("problems", "time", "ranks", "recorded", "checks")
#: Room on both sides of a moment, as a share of its length.
_AROUND = 1.0
_RUNS = 4  # of ranks that a line names


@dataclass(frozen=True)
class Problem:
    """A finding with the name it has in the address, and what people said about it."""

    key: str
    finding: Finding
    remark: Remark

    @property
    def settled(self) -> bool:
        return self.remark.state != "open"


def problems(ctx: Context, found: Subject) -> tuple[Problem, ...]:
    """The findings in their order; those that are done or ignored come last."""
    said = notes.remarks(ctx.store, workload(ctx))
    every = [
        Problem(key, finding, said.get(key, Remark()))
        for key, finding in zip(finding_ids(found.check.findings), found.check.findings, strict=True)
    ]
    return tuple(sorted(every, key=lambda one: one.settled))


def workload(ctx: Context) -> str:
    """What the job of the run is called."""
    return history_run.workload(ctx.store, ctx.run) if ctx.run else ""


def problem(ctx: Context, every: Sequence[Problem]) -> Problem | None:
    """The problem that is selected, else the first."""
    wanted = ctx.selection.problem
    return next((one for one in every if one.key == wanted), every[0] if every else None)


def choose_problem(ctx: Context, key: str) -> None:
    """Another problem; the span of the last one is none of it."""
    context.select(ctx, replace(ctx.selection, problem=key, span=None))


def view() -> str:
    """The view that the address names."""
    wanted = st.query_params.get("panel", "")
    return wanted if wanted in VIEWS else VIEWS[0]


def choose_view(name: str) -> None:
    st.query_params["panel"] = name


def place(window: Evidence) -> dict[str, str]:
    """Where the timeline looks for a moment, to the nanosecond."""
    margin = max(int(window.dur_ns * _AROUND), 1_000)
    return {"from": str(max(window.ts_ns - margin, 0)), "to": str(window.ts_ns + window.dur_ns + margin)}


def choose_moment(ctx: Context, window: Evidence, span: int | None) -> None:
    """The timeline goes there, and the span or the piece of idle time is selected."""
    st.query_params.pop("area", None)
    for name, value in place(window).items():
        st.query_params[name] = value
    if span is None:
        st.query_params["span"] = f"gap.{window.rank}.@{window.ts_ns + window.dur_ns // 2}"
    context.select(ctx, replace(ctx.selection, span=span))


def moment(ctx: Context, windows: Sequence[Evidence], spans: Sequence[int | None]) -> int | None:
    """Which of the moments is selected: by its span, or by where the timeline looks."""
    picked = ctx.selection.span
    if picked is not None:
        return next((at for at, span in enumerate(spans) if span == picked), None)
    said = st.query_params.to_dict()
    looks = [place(window) for window in windows]
    return next((at for at, wanted in enumerate(looks) if all(said.get(k) == v for k, v in wanted.items())), None)


def called(ctx: Context, finding: Finding) -> str:
    """The problem in three words at most, where there are words for it."""
    return text_of(ctx.lang, f"workspace.cause_{finding.cause}", finding.detector.replace("_", " "))


def titled(ctx: Context, finding: Finding) -> str:
    """The same at the beginning of a line."""
    name = called(ctx, finding)
    return name[:1].upper() + name[1:]


def where(ctx: Context, ranks: Sequence[int], key: str, problem: str = "") -> str:
    """The ranks in words, after what they have: late host on rank 3, ranks 0–1."""
    if not ranks:
        return problem
    values = {"problem": problem, "ranks": i18n.ranges(ranks, most=_RUNS)}
    return ctx.say(f"workspace.{key}" + ("" if len(ranks) == 1 else "s"), values)


def named(ctx: Context, detector: str) -> str:
    """What a check looks for, in the same words."""
    name = text_of(ctx.lang, f"workspace.cause_{detector}", detector.replace("_", " "))
    return name[:1].upper() + name[1:]
