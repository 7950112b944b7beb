"""The canvas in a notebook: the same scripts, fed by the kernel. Needs the extra `notebook`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from npulens.app.timeline import scripts
from npulens.app.timeline.asked import asked
from npulens.app.timeline.opened import opened


class Timeline(anywidget.AnyWidget):
    """One canvas. `place` says where its reader is, in the words of a link."""

    _esm = scripts.notebook_js()
    said = traitlets.Dict().tag(sync=True)
    place = traitlets.Dict().tag(sync=True)


def timeline(store: Path, run_id: str, window: tuple[int, int] | None, lang: str, height: int) -> Timeline:
    """The canvas of a run; what is asked of it is answered here."""
    opened(store, run_id)
    made = Timeline(said=said(run_id, window, lang, height), place={})
    made.on_msg(_answer(store, run_id))
    return made


def said(run_id: str, window: tuple[int, int] | None, lang: str, height: int) -> dict[str, object]:
    """What the canvas is told at first."""
    place = {"from": str(window[0]), "to": str(window[1])} if window else {}
    return {"run": run_id, "lang": lang, "perfetto": None, "place": place, "height": height, "guest": True,
            "style": scripts.css(), **scripts.words(lang)}  # fmt: skip


def _answer(store: Path, run_id: str) -> Callable[[Any, Mapping[str, Any], list[bytes]], None]:
    def answer(widget: Timeline, message: Mapping[str, Any], _: list[bytes]) -> None:
        status, body = asked(store, run_id, str(message.get("path", "")))
        widget.send({"id": message.get("id"), "status": status}, [body])

    return answer
