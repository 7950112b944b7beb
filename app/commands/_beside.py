"""Runs of different devices side by side, as `npulens roofline RUN RUN ...` tells it."""

from __future__ import annotations

from collections.abc import Sequence

from npulens.analysis.work.scale import Family, Scale, order
from npulens.app.console import milliseconds, table
from npulens.app.text import i18n
from npulens.app.text.wording import plain

#: A run id needs no more to be told from others.
_ID, _LONGEST = 8, 24
#: Less of a family's time than this is told beside its share.
_MOSTLY = 0.9


def text(found: Sequence[Scale], lang: str) -> str:
    """A table of families, two columns a run, and what the runs are."""
    header = [_say(lang, "col_family")]
    for one in found:
        header += [_called(one), _say(lang, "col_share")]
    rows = [_family_row(name, found, lang) for name in order(found)]
    rows += [[_say(lang, "beside_all"), *_pairs([milliseconds(one.kernel_ns) for one in found],
                                               [_share(one.share, False, one.known) for one in found])],
             *([_say(lang, name), *_pairs(["" for _ in found], [_percent(value) for value in values])]
               for name, values in (("beside_hfu", [one.hfu for one in found]),
                                    ("beside_mfu", [one.mfu for one in found])))]  # fmt: skip
    lines = [_say(lang, "beside"), table(header, rows, 1), _say(lang, "beside_legend")]
    if any(one.measured for one in found):
        lines.append(_say(lang, "beside_measured"))
    for one in found:
        device = ", ".join(plain(name) for name in one.devices) or _say(lang, "beside_no_device")
        lines.append(f"{_called(one)}: {device}")
    return "\n".join(lines)


def _family_row(name: str, found: Sequence[Scale], lang: str) -> list[str]:
    there = [next((each for each in one.families if each.family == name), None) for one in found]
    called = i18n.say(lang, f"roofline.family_{name}") if i18n.known(f"roofline.family_{name}") else plain(name)
    return [
        called,
        *_pairs(
            [_percent(None if each is None else each.time_share) for each in there], [_cell(each) for each in there]
        ),
    ]


def _pairs(left: Sequence[str], right: Sequence[str]) -> list[str]:
    return [cell for pair in zip(left, right, strict=True) for cell in pair]


def _cell(each: Family | None) -> str:
    return "-" if each is None else _share(each.share, each.least, each.known)


def _share(share: float | None, least: bool, known: float) -> str:
    if share is None:
        return "-"
    part = "" if known >= _MOSTLY else f" ({100 * known:.0f} %)"
    return f"{'> ' if least else ''}{_percent(share)}{part}"


def _called(one: Scale) -> str:
    name = plain(one.label or "") or one.run_id[:_ID]
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _say(lang: str, key: str) -> str:
    return i18n.say(lang, f"roofline.{key}")
