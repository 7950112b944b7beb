"""Numbers in sentences: the ending of a number's name is its unit.

A part of a sentence in [[double brackets]] is left out where a number in it is not known. One that begins with families
of devices, [[npu: ...]] or [[cuda|rocm: ...]], is said on those only. A part may hold other parts. Sentences are
written for a job with steps. They say so where they are about a single step, a recording without steps, or what
happened once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from npulens.analysis.finding import Value, Words

LANGUAGES = ("en", "zh")

_Swaps = tuple[tuple[re.Pattern[str], str], ...]
#: Sentences speak of each step. What they say instead where a job marked none, in both languages.
_NO_STEP: _Swaps = (
    (re.compile(r" kernels of (?:each|every|a) step,"), " kernels,"),
    (re.compile(r"(?<!out )\b(of|in) (?:each|every|a|the) step\b(?!')"), r"\1 the recorded time"),
    (re.compile(r"\b(?:each|the) step would\b"), "the recorded time would"),
    (re.compile(r"(?<=[\w}]) (?:a|each|every) step(?=[:.,;)]| \(|$)"), " in the recorded time"),
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
    return f"{100 * value:.1f} %" if abs(value) < 0.9995 else f"{100 * value:.0f} %"


def size(count: float) -> str:
    """Bytes in powers of 1024."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= scale:
            return f"{_digits(count / scale)} {unit}"
    return f"{count:.0f} B"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


#: One of something that a sentence has in the plural, and what it does.
_ONE = re.compile(
    r"(?<![\d.,])\b1 ((?:matrix |slow |separate |blocking |short )?)"
    r"(kernel|copie|call|operator|transfer|collective|packet|request|iteration|gap|launche|graph|conversion|check)s\b"
    r"((?: of (?:each|the) (?:step|recorded time)| within the device| at times| by RDMA| once)*)"
    r"(?: (are|were|run|take|wait|compute|convert)\b)?"
)
_ALONE = {"are": "is", "were": "was"}


def single(said: str) -> str:
    """A sentence in which one of something is in the singular."""

    def one(found: re.Match[str]) -> str:
        kind, noun, where, verb = found.groups()
        noun = {"copie": "copy", "launche": "launch"}.get(noun, noun)
        return f"1 {kind}{noun}{where}" + (f" {_ALONE.get(verb, verb + 's')}" if verb else "")

    return _ONCE_EACH.sub("once", _ONE.sub(one, said))


#: So often, not so many times as much.
_ONCE_EACH = re.compile(r"(?<![\d.,])1 times\b(?! (?:as|the|longer|what|its|their|more|of)\b)")


#: What a number is per: a step, the only one, the whole recorded time (no step was marked), or it happened once.
STEP, ONLY_STEP, RECORDED, ONCE = "step", "only step", "recorded", "once"


@dataclass(frozen=True)
class Whole:
    """The time that shares are of: the step, or all that was recorded where no step was marked."""

    stepped: bool = True
    outside: bool = False  # without steps: much of the recorded time lies before or after all work of the device
    steady: bool = False  # first use is left out


def filled(words: Words, numbers: Mapping[str, Value], whole: Whole | None = None) -> Words:
    """The sentences with their numbers, in the language of the device (`device`) and of the time (`per`)."""
    spoken = {name: number(name, value) for name, value in numbers.items()}
    known = {name for name, value in numbers.items() if value is not None}
    several = not spoken.get("ranks", "0").isdigit()

    def sentence(template: str, whole: Whole | None) -> str:
        if several:
            template = template.replace("Rank {ranks}", "Ranks {ranks}")
        if "most_rank" in known:
            template = _OF_RANK.sub(r"\g<0>, on rank {most_rank}", template)
            template = _OF_RANK_ZH.sub(r"\g<0>，在 rank {most_rank} 上", template)
        template = per(template, spoken.get("per", STEP), whole)
        if spoken.get("device") == "cpu":
            template = on_cpu(template)
        return single(_told(template, known, spoken.get("device", "")).format_map(spoken))

    return Words(sentence(words.title, whole), sentence(words.advice, whole and replace(whole, steady=False)))


#: Shares of idle time after which the rank is named whose figures they are, where those of others differ.
_OF_RANK, _OF_RANK_ZH = re.compile(r"(?<=\(){(?:idle|first)_share}(?=\))"), re.compile(
    r"(?<=（){(?:idle|first)_share}(?=）)"
)
#: How a sentence about each step speaks of the only one that was recorded.
_ONLY: _Swaps = (
    (re.compile(r"(?<!out )\b(of|in) (?:each|every|a) step\b(?!')"), r"\1 the step"),
    (re.compile(r"\beach step would\b"), "the step would"),
    (re.compile(r"(?<=[\w}]) (?:a|each|every) step(?=[:.,;)]| \(|$)"), " in the step"),
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


#: How a sentence speaks of the time in which the device worked, where that is not all of the recorded time.
_OUTSIDE: _Swaps = (
    (re.compile(r"\bthe recorded time\b"), "the time with device work"),
    (re.compile(r"采集时段|采集时长|采集时间"), "设备工作时段"),
)
#: How it speaks of the time without start-up.
_STEADY: _Swaps = (
    (re.compile(r"\b(of|in) (the (?:step|recorded time|time with device work))\b"), r"\1 \2 without start-up"),
    (re.compile(r"该步|步长|采集时段内|设备工作时段内|采集时长|设备工作时段(?!内)"), r"\g<0>（不含启动阶段）"),
)


def per(template: str, what: str, whole: Whole | None = None) -> str:
    """A template of a job with steps, said of a job that marked one or none, or of what happened once."""
    swaps = {STEP: (), ONLY_STEP: _ONLY, RECORDED: _NO_STEP, ONCE: _ONCE}[what]
    for pattern, instead in (*swaps, *(_OUTSIDE if whole and whole.outside else ())):
        template = pattern.sub(instead, template)
    if whole and whole.steady and what in (ONLY_STEP, RECORDED):
        for pattern, instead in _STEADY:
            template = pattern.sub(instead, template, count=1)
    return template


#: Families of devices that sentences know.
FAMILIES = ("npu", "cuda", "rocm", "cpu")
_PART = re.compile(r"\[\[(?:((?:npu|cuda|rocm|cpu)(?:\|(?:npu|cuda|rocm|cpu))*): ?)?((?:(?!\[\[).)*?)\]\]")
#: How a sentence about devices is said of a job on a CPU. It has no device that idles, and its kernels are operators.
_ON_CPU: _Swaps = (
    (re.compile(r"\bthe time with device work\b"), "the time with operators"),
    (re.compile(r"设备工作时段"), "算子运行时段"),
    (re.compile(r"\bthe host is late, the device idles (?={)"), "no operator runs for "),
    (re.compile(r"主机下发太晚，设备([^，。{}]{0,20}?)空闲 ({\w+})"), r"\1有 \2 没有算子在运行"),
    (re.compile(r"\bthe device idles (?={)"), "nothing is computed for "),
    (re.compile(r"设备([^，。{}]{0,20}?)空闲 ({\w+})"), r"\1有 \2 没有在计算"),
    (re.compile(r"\bholds the device up: launching is slow"), "is long: calling is slow"),
    (re.compile(r"单独拖住设备，而是下发普遍偏慢"), "特别长，而是调用普遍偏慢"),
    (re.compile(r"\bwhat else uses the device\b"), "what else uses the CPU"),
    (re.compile(r"这些时刻设备上还有什么"), "这些时刻 CPU 上还有什么"),
    (re.compile(r"(?<![{\w])kernel(s?)\b"), r"operator\1"),
    (re.compile(r"(?<![{\w])Kernel(s?)\b"), r"Operator\1"),
)
_NAME = re.compile(r"{(\w+)}")


def on_cpu(text: str) -> str:
    """A sentence about a device, as it is said of a job on a CPU."""
    for pattern, instead in _ON_CPU:
        text = pattern.sub(instead, text)
    return text


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
