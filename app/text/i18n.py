"""Two languages, and numbers as people write them.

Every text on the screen is a pair (English, Chinese) and is asked for as "part.key". A part is a file of
app/text/words, or words.py in the folder of a page. A new page brings its own and nothing else changes.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from math import floor, isfinite, log10
from types import ModuleType

from npulens.app import pages
from npulens.app.text import words

LANGUAGES = {"en": "English", "zh": "中文"}
_NOTHING: Mapping[str, object] = {}
#: Spaces between two Chinese characters or marks: a text has them around what may begin or end with Latin letters.
_WIDE = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
_APART = re.compile(f"(?<={_WIDE}) +(?={_WIDE})")
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_LETTERS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_OLDEST_WALL_CLOCK_NS = 10**18  # September 2001; anything smaller counts from an unknown zero


@cache
def texts() -> dict[str, tuple[str, str]]:
    """Every text of the screen by its full key."""
    found: dict[str, tuple[str, str]] = {}
    for part, module in parts().items():
        pairs: dict[str, tuple[str, str]] = module.TEXT
        found.update({f"{part}.{key}": pair for key, pair in pairs.items()})
    return found


@cache
def parts() -> dict[str, ModuleType]:
    """The files of words by the name that their keys begin with: those of text/words, and words.py of a page."""
    shared = {module.name: f"{words.__name__}.{module.name}" for module in pkgutil.iter_modules(words.__path__)}
    own = {module.name: f"{pages.__name__}.{module.name}.words" for module in pkgutil.iter_modules(pages.__path__)}
    own |= {name: f"npulens.app.{name}.words" for name in ("nightly", "timeline")}
    there = {name: full for name, full in own.items() if find_spec(full) is not None}
    return {name: importlib.import_module(full) for name, full in {**shared, **there}.items()}


def say(lang: str, key: str, values: Mapping[str, object] = _NOTHING) -> str:
    """The text of ``key``; with ``n`` of one it takes the singular ``key.one`` where there is one.

    A number ``n`` counts something, so thousands are parted.
    """
    found, n = texts(), values.get("n")
    if n == 1 and f"{key}.one" in found:
        key = f"{key}.one"
    if isinstance(n, int) and n >= 1_000:
        values = {**values, "n": f"{n:,}"}
    if lang != "zh":
        return found[key][0].format_map(values)
    return _APART.sub("", found[key][1].format_map(values))


def joined(lang: str, sentences: Iterable[str]) -> str:
    """Sentences one behind the other."""
    return ("" if lang == "zh" else " ").join(sentences)


@dataclass(frozen=True)
class Speaker:
    """``say`` in one language."""

    lang: str

    def __call__(self, key: str, values: Mapping[str, object] = _NOTHING) -> str:
        return say(self.lang, key, values)


def raw(lang: str, key: str) -> str:
    """The text of ``key`` with its {placeholders} left in, for the browser to fill."""
    return texts()[key][1 if lang == "zh" else 0]


def known(key: str) -> bool:
    """Whether there is a text for ``key``: names that come from data may have none."""
    return key in texts()


def language(wanted: str | None, locale: str | None) -> str:
    """The language a visitor asked for, else the one the browser speaks, else English."""
    if wanted in LANGUAGES:
        return str(wanted)
    return "zh" if (locale or "").lower().startswith("zh") else "en"


def duration(ns: int | None) -> str:
    """A length of time to four digits, in the unit that reads best: 346.7 ms."""
    if ns is None:
        return "–"
    if abs(ns) >= 120 * 10**9:
        minutes, seconds = divmod(round(abs(ns) / 1e9), 60)
        return f"{'−' if ns < 0 else ''}{minutes:,} min {seconds} s"
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if abs(ns) >= 0.99995 * scale), _UNITS[-1])
    return f"{ns:,} {unit}" if scale == 1 else f"{digits(ns / scale)} {unit}"


def digits(value: float) -> str:
    """A figure to four digits: 346.7, 0.001235; a million and more with a letter, 2.163M."""
    scale, letter = next(((scale, letter) for scale, letter in _LETTERS if abs(value) >= 0.99995 * scale), (1.0, ""))
    value /= scale
    if not value or not isfinite(value):
        return f"{value:.0f}"
    return f"{value:,.{max(0, 3 - floor(log10(abs(float(f'{value:.3e}')))))}f}{letter}"


def count(many: int | None) -> str:
    """How many, thousands parted; a dash where nobody knows."""
    return "–" if many is None else f"{many:,}"


def exact(ns: int) -> str:
    """Every nanosecond, where each counts: 346,701,234 ns. All other figures have three to four digits."""
    return f"{'−' if ns < 0 else ''}{abs(ns):,} ns"


def share(part: int | None, whole: int | None) -> str:
    """A part of a whole in percent: 28.3 %; what is more than ten wholes as so many of them: 15.04 ×."""
    if part is None or not whole:
        return "–"
    percent = f"{100 * part / whole:.1f} %"
    return percent if abs(part / whole) < 9.9995 else f"{digits(part / whole)} ×"


def size(count: int) -> str:
    """Bytes in decimal units to three digits: 23.4 MB."""
    scale, unit = next((each for each in _SIZES if abs(count) >= 0.9995 * each[0]), (1, "B"))
    value = count / scale
    behind = 0 if scale == 1 else max(0, 2 - floor(log10(abs(float(f"{value:.2e}")))))
    return f"{value:.{behind}f}".removesuffix(".00").removesuffix(".0") + f" {unit}"


def ranges(numbers: Iterable[int], most: int | None = None) -> str:
    """Numbers with runs joined: 0, 2–7. Of more than ``most`` runs the first ones, and that there are more."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = runs if most is None or len(runs) <= most else runs[: most - 1]
    said = [str(first) if first == last else f"{first}–{last}" for first, last in shown]
    return ", ".join([*said, *("…" for _ in runs[len(shown) :][:1])])


def moment(ns: int, lang: str) -> str | None:
    """Wall-clock time of a stamp, to the second, in UTC; None where its zero is unknown."""
    if ns < _OLDEST_WALL_CLOCK_NS:
        return None
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)
    return f"{when:%Y年%m月%d日 %H:%M:%S} UTC" if lang == "zh" else f"{when.day} {when:%B %Y, %H:%M:%S} UTC"
