"""What is said of the inside of a kernel, on the screen and in the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from npulens.analysis.look.kernel_inside import UNEVEN, Inside
from npulens.app.text import i18n
from npulens.app.text.wording import plain

NOTHING: Mapping[str, object] = {}


def say(lang: str, key: str, values: Mapping[str, object] = NOTHING) -> str:
    return i18n.say(lang, f"kernel.{key}", values)


def core(lang: str, name: str) -> str:
    return say(lang, f"core_{name}")


def count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def sums(found: Inside, lang: str) -> list[str]:
    """What it is; then what is worth a sentence: its bound, the time around the cores, uneven blocks, main memory."""
    said = [_head(found, lang)]
    if found.busiest is not None:
        said.append(say(lang, f"bound_{found.bound}", {
            "pipe": found.busiest.pipe, "core": core(lang, found.busiest.core), "share": percent(found.busy_share or 0),
        }))  # fmt: skip
    if found.outside_ns is not None:
        said.append(say(lang, "outside", {"time": i18n.duration(round(found.outside_ns))}))
    said.extend(
        say(lang, "uneven", {"core": core(lang, one.core), "slowest": plain(one.slowest), "times": f"{one.uneven:.2f}"})
        for one in found.cores if one.uneven >= UNEVEN
    )  # fmt: skip
    if found.paths:
        said.append(_memory(found, lang))
    return said


def _head(found: Inside, lang: str) -> str:
    time = {"time": i18n.duration(round(found.dur_ns)), "n": found.kernels}
    if found.simulated:
        return say(lang, "simulated", time)
    name = {"name": plain(found.name or "") + (f" ({plain(found.op_type)})" if found.op_type else "")}
    about = [say(lang, "alone" if found.unit == "block" else "several", {**name, **time})]
    if found.unit == "block" and found.blocks is not None:
        about.append(say(lang, "blocks", {"n": found.blocks}))
    if found.unit == "block" and found.mix_blocks is not None:
        about.append(say(lang, "mix_blocks", {"n": found.mix_blocks}))
    if found.mhz is not None and found.rated_mhz is not None:
        about.append(say(lang, "clock", {"mhz": f"{found.mhz:g}", "rated": f"{found.rated_mhz:g}"}))
    return (", " if lang == "en" else "，").join(about)


def _memory(found: Inside, lang: str) -> str:
    share, peak = found.memory_share, found.memory_peak
    if found.device is None:
        return say(lang, "no_device")
    if share is None or peak is None:
        return say(lang, "no_memory", {"device": plain(found.device)})
    return say(lang, "memory", {
        "rate": f"{share * peak / 1e9:,.0f} GB/s", "peak": f"{peak / 1e9:,.0f} GB/s", "device": plain(found.device),
        "share": percent(share),
    })  # fmt: skip
