"""Colours and text rules that every chart shares.

Any two hues of a bar stay far apart for every kind of colour vision (the tests simulate them). They are readable on
white and on near-black. Each also has a written label, so that no chart relies on colour alone.
"""

from __future__ import annotations

import textwrap

COMPUTING = "#0072b2"
COMMUNICATION = "#e69f00"
COPY = "#9c2f75"
UNKNOWN = "#7a5230"
IDLE = "#a9b1bb"
RESIDUAL = "#d55e00"
INK = {"light": "#1d2733", "dark": "#e4e9ef"}  # text, as in .streamlit/config.toml
ACCENT = {"light": "#0067a8", "dark": "#6cb8ef"}  # primaryColor there
GRID = "rgba(128,138,150,0.25)"
FAINT = "rgba(128,138,150,0.16)"
QUIET_TEXT = "#77818c"  # readable on both
DARK_TEXT, LIGHT_TEXT = "#15202b", "#ffffff"
GOOD, HALF = "rgba(0,158,115,0.26)", "rgba(230,159,0,0.42)"


def plain(text: str) -> str:
    """Text as Plotly shows it: its labels understand a few HTML tags, and names from traces must not be tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wrapped(text: str, width: int = 64) -> str:
    """Text for a hover box, escaped and broken into lines; Chinese has no spaces, so it is cut by length."""
    wide = sum(ord(char) > 0x2E80 for char in text) > len(text) // 4
    lines = [text[i : i + width // 2] for i in range(0, len(text), width // 2)] if wide else textwrap.wrap(text, width)
    return "<br>".join(plain(line) for line in lines)
