"""Numbers in sentences: the ending of a number's name is its unit.

A part of a sentence in [[double brackets]] is left out where a number in it is not known. One that begins with families
of devices, [[npu: ...]] or [[cuda|rocm: ...]], is said on those only. A part may hold other parts. Sentences are
written for a job with steps. They say so where they are about a single step, a recording without steps, or what
happened once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from npulens.analysis.finding import Value, Words

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


_SINGLE = re.compile(r"\bin 1 kernels\b")


def filled(words: Words, numbers: Mapping[str, Value]) -> Words:
    """The sentences with their numbers, in the language of the device (`device`) and of the time (`per`)."""
    spoken = {name: number(name, value) for name, value in numbers.items()}
    known = {name for name, value in numbers.items() if value is not None}
    several = not spoken.get("ranks", "0").isdigit()

    def sentence(template: str) -> str:
        if several:
            template = template.replace("Rank {ranks}", "Ranks {ranks}")
        template = per(template, spoken.get("per", STEP))
        return _SINGLE.sub("in 1 kernel", _told(template, known, spoken.get("device", "")).format_map(spoken))

    return Words(sentence(words.title), sentence(words.advice))


#: What a number is per: a step, the only one, the whole recorded time (no step was marked), or it happened once.
STEP, ONLY_STEP, RECORDED, ONCE = "step", "only step", "recorded", "once"
#: How a sentence about each step speaks of the only one that was recorded.
_ONLY: _Swaps = (
    (re.compile(r"(?<!out )\b(of|in) (?:each|every|a) step\b(?!')"), r"\1 the step"),
    (re.compile(r"\beach step would\b"), "the step would"),
    (re.compile(r"(?<=[\w}]) (?:a|each|every) step(?=[:.,;]| \(|$)"), " in the step"),
    (re.compile(r"每步"), "该步"),
)
#: How a sentence about each step says that it happened once.
_ONCE: _Swaps = (
    (re.compile(r"\b(?:of|in) (?:each|every) step\b"), "once"),
    (re.compile(r"\beach step would\b"), "the recorded time would"),
    (re.compile(r"Operators a step"), "Operators"),
    (re.compile(r" (times|receives|calls)(?: in)? a step"), r" \1"),
    (re.compile(r"out of the step's way"), "out of the way"),
    (re.compile(r"每步"), "单次"),
)


def per(template: str, what: str) -> str:
    """A template of a job with steps, said of a job that marked one or none, or of what happened once."""
    for pattern, instead in {STEP: (), ONLY_STEP: _ONLY, RECORDED: _NO_STEP, ONCE: _ONCE}[what]:
        template = pattern.sub(instead, template)
    return template


#: Families of devices that sentences know.
FAMILIES = ("npu", "cuda", "rocm", "cpu")
_PART = re.compile(r"\[\[(?:((?:npu|cuda|rocm|cpu)(?:\|(?:npu|cuda|rocm|cpu))*): ?)?((?:(?!\[\[).)*?)\]\]")
_NAME = re.compile(r"{(\w+)}")


def on_device(text: str, device: str) -> str:
    """A text without numbers, as it is said on a family of devices."""
    return _told(text, set(), device)


def _told(text: str, known: set[str], device: str) -> str:
    """A text without brackets; those within others go first."""

    def part(found: re.Match[str]) -> str:
        meant = found[1] is None or device in found[1].split("|")
        return found[2] if meant and known.issuperset(_NAME.findall(found[2])) else ""

    while (less := _PART.sub(part, text)) != text:
        text = less
    return text
