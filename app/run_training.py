"""From which step on two trainings part, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npulens.analysis import training
from npulens.app.console import print_json, table
from npulens.app.text.i18n import say
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores

_COLUMNS = ("series", "steps", "first", "base", "head")


def parted(store: Path, names: Sequence[str]) -> list[training.Parted]:
    """Series by series; both runs have to hold some."""
    found = []
    for name in names:
        con = stores.open_run(store, stores.resolve(store, name).run_id)
        try:
            found.append(training.series(con))
        finally:
            con.close()
        if not found[-1]:
            raise IngestError("nothing_to_compare", Message("holds_no_training", {"name": repr(name)}))
    return list(training.parted(found[0], found[1]))


def as_dict(found: Sequence[training.Parted]) -> dict[str, Any]:
    return {"share": training.SHARE, "series": [asdict(one) for one in found]}


def lines(found: Sequence[training.Parted], lang: str) -> Iterator[str]:
    """One row a series, and the step from which on they part."""
    first = min((one.step for one in found if one.step is not None), default=None)
    yield say(lang, "training.same" if first is None else "training.parted", {
        "step": first, "share": f"{training.SHARE:.0%}", "steps": max((one.steps for one in found), default=0),
    })  # fmt: skip
    rows = [
        [one.series, str(one.steps), "-" if one.step is None else str(one.step), _value(one.base), _value(one.head)]
        for one in found
    ]
    yield table([say(lang, f"training.{name}") for name in _COLUMNS], rows, 1)


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def command(store: Path, names: Sequence[str], as_json: bool, lang: str) -> Iterator[str]:
    """What `npulens compare --training` prints."""
    found = parted(store, names)
    if as_json:
        print_json(as_dict(found))
    else:
        yield from lines(found, lang)
