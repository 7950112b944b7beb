"""Finding runs by what is said and known about them. Pure: no screen, no store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from npulens.ingest.store.notes import About
from npulens.ingest.store.runs import RunInfo

_NOTHING = About()
FIELDS = ("label", "note", "tag", "format", "ranks", "status", "id")


def found(
    runs: Sequence[RunInfo], said: Mapping[str, About], query: str, called: Callable[[RunInfo], tuple[str, str]]
) -> tuple[RunInfo, ...]:
    """The runs every word of ``query`` fits, in their order.

    A word fits anywhere in label, note, tags, format or at the beginning of the id. ``field:word`` asks one field, and
    ``ranks:8`` means that eight ranks were captured. ``called`` gives name and format as the screen writes them.
    """
    words = query.casefold().replace("：", ":").split()
    return tuple(run for run in runs if all(_fits(word, _fields(run, said, called)) for word in words))


def _fields(
    run: RunInfo, said: Mapping[str, About], called: Callable[[RunInfo], tuple[str, str]]
) -> dict[str, tuple[str, ...]]:
    about, (name, fmt) = said.get(run.run_id, _NOTHING), called(run)
    fields = {
        "label": (name,), "note": (about.note,), "tag": about.tags, "format": (*run.formats, fmt),
        "ranks": (str(len(run.ranks)),), "status": (run.status,), "id": (run.run_id,),
    }  # fmt: skip
    return {field: tuple(text.casefold() for text in texts) for field, texts in fields.items()}


def _fits(word: str, fields: Mapping[str, tuple[str, ...]]) -> bool:
    field, colon, rest = word.partition(":")
    if colon and field in FIELDS:
        if field == "ranks":
            return rest in fields[field]
        return not rest or any(rest in text for text in fields[field])
    if any(text.startswith(word) for text in fields["id"]):
        return True
    return any(word in text for field in ("label", "note", "tag", "format") for text in fields[field])
