"""What was brought in, a row a file: on its way, loading, or how that ended. Why, and what to do about it.

The load runs in a child process that this panel asks twice a second. Captures dropped meanwhile queue up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import streamlit as st

from npulens.app import context
from npulens.app.context import Context
from npulens.app.intake import drop_zone, visitor_drops
from npulens.app.intake.load_queue import Load, Progress
from npulens.app.intake.visitor_drops import Ended, Visit
from npulens.app.text import i18n, wording
from npulens.ingest.messages import render
from npulens.ingest.store import runs

#: Rows that stand open; the rest lies behind a line that says how many.
_MOST_OPEN = 4
_ICON = {
    "loaded": ":material/check_circle:", "exists": ":material/check_circle:", "refused": ":material/block:",
    "failed": ":material/error:", "stopped": ":material/stop_circle:", "waiting": ":material/schedule:",
    "loading": ":material/progress_activity:",
}  # fmt: skip
STYLE = """<style>
[class*="st-key-tray_"] [data-testid="stText"] { overflow-wrap: anywhere; font-size: .92rem; }
[class*="st-key-tray_"] button { min-height: 1.6rem; padding-top: 0; padding-bottom: 0; }
.st-key-tray { padding: .3rem .8rem; }
</style>"""


def button(ctx: Context) -> None:
    """The way in, small enough for the head of any page."""
    drop_zone.show(ctx, large=False)


def show(ctx: Context, ticket: str | None = None) -> None:
    """The rows; where there is no run yet, the large zone above them.

    With the token of a ticket the visitor is a guest: what is dropped counts against it, and no page is opened.
    """
    visit = visitor_drops.visit()
    guest = ticket is not None
    _turn(ctx, visit, guest)
    if guest or not ctx.runs:
        drop_zone.show(ctx, large=not visit.loads, ticket=ticket)
    if not visit.loads and not visit.ended and visit.travelling is None:
        return
    if visit.busy:
        _watched(ctx, visit, guest)
    else:
        _rows(ctx, visit)


@st.fragment(run_every=0.4)
def _watched(ctx: Context, visit: Visit, guest: bool) -> None:
    """How far the loads are; when one has ended, its answer is shown."""
    _turn(ctx, visit, guest)
    if not visit.busy:  # the last one was stopped here
        st.rerun()
    _rows(ctx, visit)


def _turn(ctx: Context, visit: Visit, guest: bool) -> None:
    """Queues what has arrived and takes note of what has ended; the page is drawn again when there was something."""
    came, before = visit.arrived(ctx.store), len(visit.loads)
    brought = visit.finish()
    if guest:
        visit.to_show = None
    if brought and not guest:
        context.choose_run(brought[0])
    if visit.to_show:
        _open(ctx, visit, visit.to_show)
    if came or len(visit.loads) < before:
        st.rerun()


def _open(ctx: Context, visit: Visit, run_id: str) -> None:
    """The answer: the run on the first page, unless the visitor is still sending or waiting for more."""
    run = next((run for run in runs.runs(ctx.store) if run.run_id == run_id), None)
    page = context.page("workspace")
    if run is None or page is None:
        visit.to_show = None
        return
    context.judged(replace(ctx, run=run))  # begins while the page is being drawn
    if not visit.busy:
        visit.to_show = None
        st.switch_page(page, query_params={"lang": ctx.lang, "run": run_id})


def _rows(ctx: Context, visit: Visit) -> None:
    if not visit.loads and not visit.ended:
        return
    with st.container(border=True, key="tray", gap="xxsmall"):
        st.html(STYLE)
        for load in visit.loads:
            _loading(ctx, visit, load)
        for row in visit.ended[:_MOST_OPEN]:
            _ended(ctx, visit, row)
        if rest := visit.ended[_MOST_OPEN:]:
            with st.expander(ctx.say("upload.and_more", {"n": len(rest)})):
                for row in rest:
                    _ended(ctx, visit, row)
        if len(visit.ended) > 1:
            st.button(ctx.say("upload.close_all"), key="tray_close_all", type="tertiary", on_click=visit.dismiss)


def _loading(ctx: Context, visit: Visit, load: Load) -> None:
    state = "waiting" if load.waiting else "loading"
    share, line = (0.0, ctx.say("upload.waiting")) if load.waiting else _far(ctx, load.progress())
    with _row(load.grant.id):
        st.badge(ctx.say(f"upload.state_{state}"), icon=_ICON[state], color="blue")
        st.text(ctx.say("upload.loading", {"name": wording.plain(load.name)}), width="content")
        st.progress(share, width=160)
        st.text(line, width="stretch")
        st.button(
            ctx.say("upload.stop"), key=f"stop_load_{load.grant.id}", type="tertiary", on_click=visit.stop, args=(load,)
        )  # fmt: skip


def _ended(ctx: Context, visit: Visit, row: Ended) -> None:
    color: Literal["green", "gray", "red"] = "green" if row.fine else "gray" if row.state == "stopped" else "red"
    with _row(row.ident):
        st.badge(
            ctx.say(f"upload.state_{row.state}"), icon=_ICON[row.state], color=color, help=detail(ctx, row) or None
        )
        st.text("\n".join(lines(ctx, row)), width="stretch")
        st.button(
            ctx.say("upload.close"), key=f"close_{row.ident}", type="tertiary", icon=":material/close:",
            on_click=visit.dismiss, args=(row.ident,),
        )  # fmt: skip


def _row(ident: str) -> st.delta_generator.DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="center", key=f"tray_row_{ident}", gap="small")


def _far(ctx: Context, said: Progress | None) -> tuple[float, str]:
    """How far a load is, as a share and in words."""
    if said is None:
        return 0.0, ctx.say("upload.starting")
    line = _stage(ctx, said)
    if said.rows:
        line += " · " + ctx.say("upload.rows", {"n": f"{said.rows:,}"})
    if not said.total_bytes:
        return 0.0, line
    values = {"done": i18n.size(said.done_bytes), "total": i18n.size(said.total_bytes)}
    return min(1.0, said.done_bytes / said.total_bytes), line + " · " + ctx.say("upload.of", values)


def _stage(ctx: Context, said: Progress) -> str:
    """What the load is doing, in the visitor's language where there are words for it."""
    stage = "tables" if said.stage == "read" and said.done_bytes == said.total_bytes else said.stage
    key = f"upload.stage_{stage}"
    return ctx.say(key, {"what": said.text}) if i18n.known(key) else said.text or stage


def lines(ctx: Context, row: Ended) -> list[str]:
    """What became of it and what to do; names in it come from strangers' files and are plain text."""
    name = wording.plain(str(row.run.get("label") or row.name))
    if row.state == "stopped":
        return [ctx.say("upload.stopped", {"name": name})]
    if row.state == "failed":
        return [ctx.say("upload.failed", {"name": name, "reason": wording.plain(render(row.error, ctx.lang))})]
    if row.state == "exists":
        return [ctx.say("upload.exists", {"name": name})]
    if row.state == "loaded":
        values = {
            "name": name, "events": f"{row.run.get('events', 0):,}", "seconds": f"{row.run.get('seconds', 0):.1f}"
        }  # fmt: skip
        return [ctx.say("upload.loaded", values)]
    kind = _kind(row)
    if not i18n.known(f"upload.kind_{kind}"):
        return [ctx.say("upload.refused", {"name": _file(row), "reason": _message(ctx, row)})]
    told = [ctx.say("upload.refused", {"name": _file(row), "reason": ctx.say(f"upload.kind_{kind}")})]
    if i18n.known(f"upload.remedy_{kind}"):
        told.append(ctx.say("upload.remedy", {"remedy": ctx.say(f"upload.remedy_{kind}")}))
    return told


def detail(ctx: Context, row: Ended) -> str:
    """The reader's own words, where the row says it in ours; nothing of them is markup."""
    if row.state != "refused" or not i18n.known(f"upload.kind_{_kind(row)}"):
        return ""
    text = ctx.say("upload.detail", {"message": _message(ctx, row)})
    return "".join(f"\\{char}" if char in r"\`*_{}[]()#+-.!|<>~$:^=" else char for char in text)


def _kind(row: Ended) -> str:
    return str((row.run.get("error") or {}).get("kind") or "")


def _file(row: Ended) -> str:
    return wording.plain(str((row.run.get("error") or {}).get("path") or row.name))


def _message(ctx: Context, row: Ended) -> str:
    error = row.run.get("error") or {}
    said = row.run.get("said") or str(error.get("message") or row.run.get("reason") or "")
    return wording.plain(render(said, ctx.lang))
