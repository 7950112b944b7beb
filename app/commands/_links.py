"""What collectives send and how near that comes to their links, as `npulens roofline` tells it."""

from __future__ import annotations

from collections.abc import Sequence

from npulens.analysis.work.links import Moved
from npulens.app.console import milliseconds, table
from npulens.app.text import i18n
from npulens.app.text.wording import plain

_LONGEST = 24
#: Rows shown; the others take less time.
_MOST = 10
_COLUMNS = ("collective", "group", "ranks", "calls", "each", "size", "sent", "rate", "link", "of_link")


def text(found: Sequence[Moved], lang: str) -> str:
    """The part of collectives; nothing where there are none."""
    if not found:
        return ""
    shown = found[:_MOST]
    lines = [_say(lang, "links"), table([_say(lang, f"col_{name}") for name in _COLUMNS],
                                        [_cells(one, lang) for one in shown], 2)]  # fmt: skip
    lines.append(_say(lang, "links_sent"))
    if any(one.least and one.bytes_per_s is not None for one in shown):
        lines.append(_say(lang, "links_least"))
    if any(one.assumed for one in shown):
        lines.append(_say(lang, "links_assumed"))
    if any(one.above is not None for one in shown):
        lines.append(_say(lang, "links_above"))
    lines += [_say(lang, f"links_no_{why}") for why in sorted({one.reason for one in shown if one.reason is not None})]
    return "\n".join(lines)


def _cells(one: Moved, lang: str) -> list[str]:
    at_least = "> " if one.least else ""
    share = "-" if one.share is None else f"{at_least}{100 * one.share:.1f} %"
    return [
        plain(one.collective) or "-", _short(one.kind or one.group), "-" if one.ranks is None else str(one.ranks),
        str(one.calls), milliseconds(one.ns // one.calls), _mb(one.bytes),
        f"{_mb(one.sent)}{'' if one.counted or one.sent is None else ' ~'}",
        "-" if one.bytes_per_s is None else f"{at_least}{one.bytes_per_s / 1e9:.1f}",
        "-" if one.link is None else f"{plain(one.link)}{' ?' if one.assumed else ''}",
        share if one.above is None else _say(lang, "wrong"),
    ]  # fmt: skip


def _mb(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:.3f}"


def _short(name: str) -> str:
    shown = plain(name) or "-"
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _say(lang: str, key: str) -> str:
    return i18n.say(lang, f"roofline.{key}")
