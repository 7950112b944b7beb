"""Numbers in sentences: the ending of a number's name is its unit.

A part of a sentence in [[double brackets]] is left out where a number in it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from analysis.finding import Value, Words

LANGUAGES = ("en", "zh")

_Swaps = tuple[tuple[re.Pattern[str], str], ...]
#: Sentences speak of each step. What they say instead where a job marked none, in both languages.
_NO_STEP: _Swaps = (
    (re.compile(r" kernels of (?:each|every|a) step,"), " kernels,"),
    (re.compile(r"(?<!out )\b(of|in) (?:each|every|a|the) step\b(?!')"), r"\1 the recorded time"),
    (re.compile(r"\b(?:each|the) step would\b"), "the recorded time would"),
    (re.compile(r"(?<=[\w}]) (?:a|each|every) step(?=[:.,;]| \(|$)"), " in the recorded time"),
    (re.compile(r"设备每步"), "设备在采集时段内"),
    (re.compile(r"每步可缩短"), "采集时段可缩短"),
    (re.compile(r"每步(?:共)?"), "采集时段内"),
    (re.compile(r"占步长"), "占采集时长"),
)


def number(name: str, value: Value) -> str:
    """A number as people read it: three digits that matter, its unit by the ending of its name."""
    if value is None:
        return "?"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    if isinstance(value, str):
        return value
    if name.endswith("_ns"):
        return duration(value)
    if name.endswith("_share"):
        return share(value)
    if name.endswith("_bytes_per_s"):
        return f"{value / 1e9:.3g} GB/s"
    if name.endswith("_bytes"):
        return size(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def duration(ns: float) -> str:
    """1,234,567 ns is 1.23 ms."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= scale * 0.9995:
            return f"{_digits(ns / scale)} {unit}"
    return f"{ns:.0f} ns"


def share(value: float) -> str:
    """0.1234 is 12.3 %."""
    return f"{100 * value:.1f} %" if abs(value) < 0.995 else f"{100 * value:.0f} %"


def size(count: float) -> str:
    """Bytes in powers of 1024."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= scale:
            return f"{_digits(count / scale)} {unit}"
    return f"{count:.0f} B"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def of_steps(text: str, stepped: bool) -> str:
    """A sentence about each step as it is true of a job, whether it marked steps or not."""
    for pattern, instead in () if stepped else _NO_STEP:
        text = pattern.sub(instead, text)
    return text


def filled(words: Words, numbers: Mapping[str, Value], stepped: bool = True) -> Words:
    """The sentences with their numbers; ``stepped``: the job marked steps."""
    spoken = {name: number(name, value) for name, value in numbers.items()}
    known = {name for name, value in numbers.items() if value is not None}
    several = not spoken.get("ranks", "0").isdigit()

    def sentence(template: str) -> str:
        if several:
            template = template.replace("Rank {ranks}", "Ranks {ranks}")
        template = of_steps(template, stepped)
        return _PART.sub(lambda part: _known_part(part[1], known), template).format_map(spoken)

    return Words(sentence(words.title), sentence(words.advice))


_PART = re.compile(r"\[\[(.*?)\]\]")
_NAME = re.compile(r"{(\w+)}")


def _known_part(part: str, known: set[str]) -> str:
    return part if known.issuperset(_NAME.findall(part)) else ""
