"""Answers about operators as sentences, for the command line, the page and the report alike."""

from __future__ import annotations

from collections.abc import Sequence

from npulens.analysis.compat.answers import FINE, Answer, Compatibility
from npulens.analysis.compat.registry import registry
from npulens.app.text.i18n import say
from npulens.app.text.wording import plain

_MOST = 6


def names(found: Sequence[str], lang: str) -> str:
    """Operators with commas; the rest as a number."""
    shown = ", ".join(plain(each) for each in found[:_MOST])
    rest = len(found) - _MOST
    return shown if rest <= 0 else f"{shown} {say(lang, 'compat.and_more', {'n': rest})}"


def headline(found: Compatibility, lang: str) -> str:
    """The answer in one sentence."""
    every = len(found.answers)
    if not every:
        return say(lang, "compat.answer_none")
    host = found.count("host") + found.count("part_on_host")
    if host:
        calls = found.calls("host") + found.calls("part_on_host")
        return say(lang, "compat.answer_host", {"n": host, "all": every, "calls": f"{calls:,}"})
    left = sum(answer.status not in FINE for answer in found.answers)
    if left:
        return say(lang, "compat.answer_open", {"n": left, "all": every})
    return say(lang, "compat.answer_all", {"n": every})


def why(answer: Answer, found: Compatibility, lang: str) -> str:
    """Why an operator ends as it does."""
    release = found.release
    told = {"torch": release.torch, "torch_npu": release.torch_npu}
    ops = {"ops": names(answer.through or (answer.name,), lang)}
    if answer.status == "absent":
        return say(lang, "compat.said_absent", told)
    if answer.status in ("host", "fails"):
        return say(lang, f"compat.said_{answer.status}")
    if answer.status == "part_on_host":
        return say(lang, "compat.said_part_on_host", ops)
    if answer.status == "sometimes":
        return say(lang, "compat.said_sometimes_parts", ops) if answer.through else say(lang, "compat.said_sometimes")
    if answer.status == "composite":
        return (
            say(lang, "compat.said_composite", ops) if answer.through else say(lang, "compat.said_composite_host_only")
        )
    if answer.status == "kernel":
        return say(lang, "compat.said_kernel")
    if answer.why == "library":
        library = (answer.through or (answer.name,))[0].partition("::")[0]
        return say(lang, "compat.said_library", {"space": plain(library)})
    if answer.why == "other_torch":
        return say(lang, "compat.said_other_torch", {**ops, "torch": release.torch})
    return say(lang, f"compat.said_{answer.why}", ops)


def advice(answer: Answer, found: Compatibility, lang: str) -> str:
    """What to do about it; nothing where nothing needs to be done."""
    said = []
    if answer.status in ("fails", "host", "part_on_host") and answer.later is None and answer.earlier is None:
        said.append(say(lang, "compat.do_never", {"n": len(registry().releases)}))
    if answer.later is not None:
        name = "do_since" if answer.status == "absent" else "do_later"
        said.append(say(lang, f"compat.{name}", {"release": answer.later}))
    if answer.earlier is not None:
        said.append(say(lang, "compat.do_earlier", {"release": answer.earlier}))
    if answer.forms:
        said.append(say(lang, "compat.do_forms", {"ops": names(answer.forms, lang)}))
    if answer.instead:
        said.append(say(lang, "compat.do_instead", {"ops": names(answer.instead, lang)}))
    return ("" if lang == "zh" else " ").join(said)


def host_words(found: Compatibility, lang: str) -> str | None:
    """How the host shows in this release; None where nothing runs there."""
    if not any(answer.status in ("host", "part_on_host", "sometimes") for answer in found.answers):
        return None
    return say(lang, "compat.forbid" if found.release.forbids_host else "compat.warns")
