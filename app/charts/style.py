"""Colours and text rules that every chart shares. What time is spent on has its colours in roles.py."""

from __future__ import annotations

import textwrap

from npulens.app.charts import roles
from npulens.app.charts.roles import DARK_TEXT as DARK_TEXT
from npulens.app.charts.roles import LIGHT_TEXT as LIGHT_TEXT

COMPUTING = roles.colour("computing")
COMMUNICATION = roles.colour("transferring")
WAITING = roles.colour("waiting")
COPY = roles.colour("copying")
HOST = roles.colour("host")
UNKNOWN = roles.colour("unknown")
IDLE = roles.colour("idle")
RESIDUAL = roles.colour("residual")  # what is out of order: worse, lost, pointed at
FINE = "#12a777"  # what is in order or got better
#: Lines of a chart that are no kinds of time: series, operators, counters. In this order, then dashed.
SERIES = ("#146fd0", "#e57405", "#12a777", "#a24192", "#0e96b3", "#cc2c08", "#7c7d00", "#66717d")
INK = {"light": "#1d2733", "dark": "#e4e9ef"}  # text, as in .streamlit/config.toml
ACCENT = {"light": "#0067a8", "dark": "#6cb8ef"}  # primaryColor there
GRID = "rgba(128,138,150,0.25)"
FAINT = "rgba(128,138,150,0.16)"
QUIET_TEXT = "#77818c"  # readable on both
GOOD, HALF = "rgba(18,167,119,0.26)", "rgba(229,116,5,0.42)"


def paper(ink: str) -> str:
    """The page's own colour under text of this colour: the line between neighbours of a stack."""
    return roles.PAPER["dark" if ink == INK["dark"] else "light"]


def plain(text: str) -> str:
    """Text as Plotly shows it: its labels understand a few HTML tags, and names from traces must not be tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wrapped(text: str, width: int = 64) -> str:
    """Text for a hover box, escaped and broken into lines; Chinese has no spaces, so it is cut by length."""
    wide = sum(ord(char) > 0x2E80 for char in text) > len(text) // 4
    lines = [text[i : i + width // 2] for i in range(0, len(text), width // 2)] if wide else textwrap.wrap(text, width)
    return "<br>".join(plain(line) for line in lines)
