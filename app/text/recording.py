"""What ``collect`` noticed of a recording besides its traces, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npulens.app.text.i18n import duration, say, size
from npulens.ingest.messages import one_line

#: A manifest may come from anybody: more than this nobody reads.
_MOST = 50


def said(notice: Mapping[str, Any], lang: str) -> str:
    """One notice of the collectors as a sentence."""
    values = dict(notice["values"])
    if "ns" in values:
        values["took"] = duration(values["ns"])
    if notice["name"] == "unlike_steps":
        who = "process" if values["rank"] is None else "rank"
        values |= {"who": say(lang, f"collect.{who}", values), "steps": say(lang, f"collect.by_{values['steps_by']}")}
        values |= {"shortest": duration(values["shortest_ns"]), "longest": duration(values["longest_ns"])}
    sizes = {name: size(values[name]) for name in ("bytes", "limit_bytes") if name in values}
    lists = {name: ", ".join(value) for name, value in values.items() if isinstance(value, list)}
    name = f"collect.{notice['name']}" + ("_no_traces" if values.get("traces") == [] else "")
    return say(lang, name, {**values, **sizes, **lists})


def noticed(manifest: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The notices of a stored run; those that this release has no words for are left out."""
    collected = manifest.get("collected")
    notices = collected.get("notices") if isinstance(collected, dict) else None
    for notice in notices[:_MOST] if isinstance(notices, list) else ():
        try:
            yield one_line(said(notice, lang), 2000)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # of another release, or made up
            continue
