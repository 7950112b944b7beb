"""The script st.App runs: header, language switch, navigation. Pages are the files of app/pages."""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from pathlib import Path
from types import ModuleType

import streamlit as st

from app import context, i18n, pages
from ingest.errors import IngestError

STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding-top: 4.2rem; max-width: 1500px; }
.st-key-run_title [data-testid="stText"] { font-size: 1.7rem; font-weight: 650; line-height: 1.25;
  overflow-wrap: anywhere; display: -webkit-box; -webkit-line-clamp: 2;
  -webkit-box-orient: vertical; overflow: hidden; }
.st-key-prose [data-testid="stText"] { overflow-wrap: anywhere; line-height: 1.55; }
[data-testid="stMainBlockContainer"] h3 { font-size: 1.25rem; padding: 1.1rem 0 0.2rem; }
[class*="st-key-gap_"] { padding-left: 0.8rem; border-left: 2px solid rgba(128,138,150,0.35); }
[class*="st-key-gap_"] [data-testid="stText"] { font-size: 0.92rem; overflow-wrap: anywhere; }
[class*="st-key-gap_"] > div:first-child [data-testid="stText"] { font-weight: 600; }
[class*="st-key-finding_"] [data-testid="stText"], .st-key-answer [data-testid="stText"] { overflow-wrap: anywhere; }
.st-key-answer > div:first-child [data-testid="stText"] { font-size: 1.12rem; font-weight: 600; }
[class*="st-key-finding_"] > div:nth-child(1) [data-testid="stText"] { font-weight: 600; font-size: 1.08rem; }
[class*="st-key-finding_"] > div:nth-child(3) [data-testid="stText"] { font-weight: 600; }
.st-key-brand h1 { padding: 0; font-size: 1.5rem; letter-spacing: -0.01em; }
</style>"""


def discover() -> list[ModuleType]:
    """Every page, in the order it asks for."""
    found = [importlib.import_module(f"app.pages.{module.name}") for module in pkgutil.iter_modules(pages.__path__)]
    return sorted(found, key=lambda page: (page.ORDER, page.__name__))


def address(page: ModuleType) -> str:
    """Where a page lies: Why-Slow for why_slow.py. Never the bare file name: Streamlit takes a directory called pages
    for its older kind of many-page app until the first st.navigation, and would run the file itself as the page."""
    return page.__name__.rpartition(".")[2].title().replace("_", "-")


def header(lang: str) -> None:
    """The name, what it is for, and the one language switch."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="brand"):
        st.title("npulens", anchor=False, width="content")
        st.caption(i18n.say(lang, "shell.tagline"))
        st.segmented_control(
            i18n.say(lang, "shell.language"), list(i18n.LANGUAGES), default=lang, key="language",
            format_func=i18n.LANGUAGES.__getitem__, label_visibility="collapsed", required=True,
            on_change=lambda: context.choose_language(st.session_state["language"]),
        )  # fmt: skip


def main() -> None:
    """Draws the chosen page."""
    st.set_page_config(page_title="npulens", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
    st.html(STYLE)
    lang = context.language()
    modules = discover()
    shown = [
        st.Page(
            partial(draw, page), title=i18n.say(lang, page.TITLE), icon=page.ICON, default=page is modules[0],
            url_path=address(page),
        )
        for page in modules
    ]  # fmt: skip
    page = st.navigation(shown, position="top")
    header(lang)
    page.run()


def draw(page: ModuleType) -> None:
    """One page, or one sentence about why there is none."""
    try:
        page.render(context.current())
    except IngestError as error:
        st.error(i18n.say(context.language(), "shell.store_failed"))
        st.text(str(error))


main()
