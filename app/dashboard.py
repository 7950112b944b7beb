"""The script st.App runs: header, language switch, navigation. Pages are the files of app/pages."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType

import streamlit as st
from streamlit.navigation.page import Page

from npulens.app import context, pages
from npulens.app.context import Context
from npulens.app.intake import courier_page, tray
from npulens.app.pages.bench import about
from npulens.app.pages.efficiency import page as efficiency
from npulens.app.panels import run_list
from npulens.app.team import config, panel, session, settling
from npulens.app.team.who import Denied
from npulens.app.text import i18n, wording
from npulens.ingest.errors import IngestError
from npulens.ingest.store.runs import RunInfo

STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding: 4.2rem 1.6rem 2rem; max-width: 3200px; }
[data-testid="stText"] { text-wrap: pretty; }
.st-key-run_title [data-testid="stText"] { font-size: 1.7rem; font-weight: 650; line-height: 1.25;
  overflow-wrap: anywhere; display: -webkit-box; -webkit-line-clamp: 2;
  -webkit-box-orient: vertical; overflow: hidden; }
.st-key-prose [data-testid="stText"] { overflow-wrap: anywhere; line-height: 1.55; }
[data-testid="stMainBlockContainer"] h2 { font-size: 1.3rem; padding: .6rem 0 .2rem; }
[data-testid="stMainBlockContainer"] h3 { font-size: 1.15rem; padding: 1.1rem 0 .2rem; }
[data-testid="stMainBlockContainer"] h4 { font-size: 1rem; padding: .8rem 0 .2rem; }
[class*="st-key-gap_"] { padding-left: 0.8rem; border-left: 2px solid rgba(128,138,150,0.35); }
[class*="st-key-gap_"] [data-testid="stText"] { font-size: 0.92rem; overflow-wrap: anywhere; }
[class*="st-key-gap_"] > div:first-child [data-testid="stText"] { font-weight: 600; }
[class*="st-key-finding_"] [data-testid="stText"], .st-key-answer [data-testid="stText"] { overflow-wrap: anywhere; }
.st-key-answer > div:first-child [data-testid="stText"] { font-size: 1.12rem; font-weight: 600; }
[class*="st-key-finding_"] > div:nth-child(1) [data-testid="stText"] { font-weight: 600; font-size: 1.08rem; }
[class*="st-key-finding_"] > div:nth-child(3) [data-testid="stText"] { font-weight: 600; }
[data-testid="stMetric"] { padding: .4rem .7rem; border-radius: 8px; }
[data-testid="stMetricValue"] { font-size: 1.35rem; font-weight: 650; padding: 0; }
.st-key-brand h1 { padding: 0; font-size: 1.5rem; letter-spacing: -0.01em; }
.st-key-brand > div:last-child { margin-left: auto; }
@media (max-width: 640px) { [data-testid="stMainBlockContainer"] { padding-left: .8rem; padding-right: .8rem; }
  .st-key-brand > div:last-child { margin-left: 0; } }
</style>"""


#: What Streamlit draws too faint or too bright to be read (WCAG 2, 4.5:1): captions, words of code, text on the
#: primary colour.
CONTRAST = {
    "light": """<style>:is([data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] *) {
color: #4a5663; opacity: 1; }
.stCode .token { color: #1d2733 !important; }
.stCode .token:is(.keyword, .function, .variable, .builtin, .tag, .property) { color: #0067a8 !important; }
.stCode .token:is(.string, .number, .boolean, .constant) { color: #0b6b4c !important; }
.stCode .token.comment { color: #56616d !important; }</style>""",
    "dark": """<style>:is([data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] *) {
color: #aab4bf; opacity: 1; }
:is([data-testid^="stBaseButton-primary"], [data-tag]) * { color: #12161c; }</style>""",
}


def discover() -> list[ModuleType]:
    """Every page, in the order it asks for."""
    folders = [module.name for module in pkgutil.iter_modules(pages.__path__)]
    if config.current().sign_in is None:
        folders.remove("team")
    found = [importlib.import_module(f"{pages.__name__}.{folder}.page") for folder in folders]
    return sorted(found, key=lambda page: (page.ORDER, page.__name__))


def address(page: ModuleType) -> str:
    """Where a page lies: Why-Slow for why_slow/page.py.

    Never the bare file name. Streamlit takes a directory called pages for its older kind of many-page app until the
    first st.navigation. It would then run the file itself as the page.
    """
    return name(page).title().replace("_", "-")


def name(page: ModuleType) -> str:
    """What other files call a page: the name of its folder."""
    return page.__name__.split(".")[-2]


def header(ctx: Context) -> None:
    """The name, the run on the screen, the way in, the language switch; below, what was brought in."""
    with st.container(horizontal=True, vertical_alignment="center", key="brand"):
        st.title("npulens", anchor=False, width="content")
        if ctx.run is None:
            st.caption(ctx.say("shell.tagline"))
        if len(ctx.runs) > 1 and ctx.run is not None:
            _switch(ctx, ctx.run)
        panel.show(ctx)
        if ctx.runs:
            tray.button(ctx)
        st.segmented_control(
            ctx.say("shell.language"), list(i18n.LANGUAGES), default=ctx.lang, key="language",
            format_func=i18n.LANGUAGES.__getitem__, label_visibility="collapsed", required=True,
            on_change=lambda: context.choose_language(st.session_state["language"]),
        )  # fmt: skip
    tray.show(ctx)


def _switch(ctx: Context, run: RunInfo) -> None:
    """The run that every page speaks of."""
    names = {held.run_id: run_list.name(ctx, held) for held in ctx.runs}
    key = f"run_switch_{ctx.lang}_{run.run_id}_{len(names)}"
    st.selectbox(
        ctx.say("shell.run"), list(names), index=list(names).index(run.run_id), key=key, width=320,
        format_func=lambda run_id: wording.plain(names[run_id]), label_visibility="collapsed",
        on_change=lambda: context.choose_run(st.session_state[key]),
    )  # fmt: skip


def menu(modules: list[ModuleType], lang: str) -> dict[str, list[Page]]:
    """The pages by their group; the first group has no name and lies open."""
    groups: dict[str, list[Page]] = {}
    made = {
        name(page): st.Page(
            partial(draw, page), title=i18n.say(lang, page.TITLE), icon=page.ICON, default=page is modules[0],
            url_path=address(page),
        )
        for page in modules
    }  # fmt: skip
    context.register({**made, **{old.lower(): made["workspace"] for old in _MOVED}})
    for page in modules:
        title = i18n.say(lang, f"shell.group_{page.GROUP}") if page.GROUP else ""
        groups.setdefault(title, []).append(made[name(page)])
    groups[""] += _elsewhere(modules)
    return groups


#: Addresses of pages that the workspace replaced -> what it shows then.
_MOVED = {"Overview": "problems", "Findings": "problems", "Ranks": "ranks"}


def _elsewhere(modules: list[ModuleType]) -> list[Page]:
    """Pages without an entry in the menu: addresses of before, and every address in small letters."""
    ways = {old: ("workspace", view) for old, view in _MOVED.items()}
    ways |= {address(page).lower(): (name(page), "") for page in modules}
    ways |= {old.lower(): way for old, way in ways.items() if old in _MOVED}
    return [
        st.Page(partial(_go_on, target, view), title=path, url_path=path, visibility="hidden")
        for path, (target, view) in ways.items()
    ]


def _go_on(target: str, view: str) -> None:
    """To where a page is now, with what the address said."""
    page, said = context.page(target), st.query_params.to_dict()
    if view:
        said["panel"] = "checks" if "detector" in said else view
    if page is not None:
        st.switch_page(page, query_params=said)


def main() -> None:
    """Draws the chosen page."""
    st.set_page_config(page_title="npulens", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
    st.html(STYLE + CONTRAST["dark" if st.context.theme.type == "dark" else "light"])
    if token := courier_page.wanted():
        courier_page.show(token)
        return
    team = config.current()
    try:
        session.project(team, session.visitor(team))
    except Denied as denied:
        panel.denied(context.language(), denied)
        return
    page = st.navigation(menu(discover(), context.language()), position="top")
    with suppress(IngestError):  # of a store that cannot be read the page itself speaks
        header(context.current())
    page.run()
    settling.settle()


def _judged(ctx: Context) -> bool:
    return ctx.run is not None and "bench" not in ctx.run.formats and context.judged(ctx)


def draw(page: ModuleType) -> None:
    """One page, or one sentence about why there is none."""
    try:
        ctx = context.current()
        if page.GROUP != "data" and name(page) not in ("bench", "laboratory"):
            about.elsewhere(ctx)
        page.render(ctx)
        if name(page) == "workspace" and _judged(ctx):
            efficiency.ahead(ctx)  # until there is a judgement, the detectors have the machine
    except IngestError as error:
        st.error(i18n.say(context.language(), "shell.store_failed"))
        st.text(wording.error(error, context.language()))


main()
