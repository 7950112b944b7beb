"""What the canvas is made of, wherever it is shown: its scripts as one, its style, and its words."""

from __future__ import annotations

from pathlib import Path

from npulens.app.charts import roles
from npulens.app.text import i18n
from npulens.app.timeline.words import TEXT

_HERE = Path(__file__).parent / "canvas"
_SCRIPTS = (
    "base", "colour", "view", "rows", "tiles", "strip", "marks", "arrows", "draw", "overlay", "hit", "input", "keys",
    "panel", "table", "search", "area", "flags", "bar", "files", "help", "palette", "beside", "place", "main",
)  # fmt: skip
_FACT = "fact_"


def js() -> str:
    """The component of the dashboard, as one module."""
    return _joined("streamlit")


def notebook_js() -> str:
    """The widget of a notebook, as one module."""
    return _joined("notebook")


def _joined(host: str) -> str:
    return "\n".join((roles.script(), *((_HERE / f"{name}.js").read_text("utf-8") for name in (*_SCRIPTS, host))))


def css() -> str:
    """How it looks."""
    return (_HERE / "timeline.css").read_text("utf-8")


def words(lang: str) -> dict[str, dict[str, str]]:
    """Its texts, and what is recorded of a span, in a language."""
    said = {name: i18n.raw(lang, f"timeline.{name}") for name in TEXT}
    return {
        "texts": {name: text for name, text in said.items() if not name.startswith(_FACT)},
        "facts": {name.removeprefix(_FACT): text for name, text in said.items() if name.startswith(_FACT)},
    }
