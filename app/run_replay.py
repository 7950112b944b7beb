"""The script of one operator, and what is said beside it, for the terminal.

A script is data and fixed code. Every text of a capture in it is a Python literal of plain ASCII, so no name can become
code. It is written only from what `analysis/look/replay.py` found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npulens.analysis.look.replay import Beside, Choice, Meant, Replay, words_of
from npulens.app.console import table
from npulens.app.text import i18n
from npulens.app.text.wording import plain
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

_MARK = '"""One operator of a job, alone: the shapes, types, strides and plain values that a profiler recorded.'
_HEAD = f"""#!/usr/bin/env python3
{_MARK}

    python FILE [--device npu|cuda|cpu] [--seconds 5] [--once] [--json]

It checks the result against float64 on the CPU, times the call, and puts the times of the capture beside it. Numbers in
the tensors are random: a capture holds none. Needs torch, and npulens installed or PYTHONPATH=npulens-collect.pyz.
\"\"\"

from npulens.collectors.replay.run import main

"""
_TAIL = """
if __name__ == "__main__":
    raise SystemExit(main(OPERATOR, INPUTS, TRACE))
"""
_LINE = 118
_NAME, _SHAPES, _GIVEN, _MOST = 40, 48, 40, 12
_NOTHING: Mapping[str, object] = {}


def script(found: Replay) -> str:
    """The whole file."""
    assert found.call is not None
    lines = ["# (\"tensor\", type, shape, strides), (\"tensors\", [...]), (\"value\", v) or (\"nothing\",), by place."]
    lines += [f"OPERATOR = {ascii(found.call.operator)}", "INPUTS = ["]
    for one in found.call.inputs:
        lines += _literal(_listed(one))
    lines += ["]", "# One call in the capture: the time of its kernels on the device, in ns."]
    lines += ["TRACE = {", *(f"    {ascii(key)}: {ascii(value)}," for key, value in _trace(found).items()), "}"]
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def _literal(value: tuple[Any, ...]) -> list[str]:
    """One argument: a line, or several where it is a long list of tensors."""
    whole = f"    {ascii(value)},"
    if len(whole) <= _LINE or value[0] != "tensors":
        return [whole]
    return ["    ('tensors', [", *(f"        {ascii(one)}," for one in value[1]), "    ]),"]


def _listed(one: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sides and strides as lists, as people write them."""
    if one[0] == "tensor":
        return (one[0], one[1], list(one[2]), list(one[3]))
    if one[0] == "tensors":
        return (one[0], [(kind, list(shape), list(strides)) for kind, shape, strides in one[1]])
    return (one[0], list(one[1])) if one[0] == "value" and isinstance(one[1], tuple) else one


def _trace(found: Replay) -> dict[str, Any]:
    reasons = [_beside(one, "en").replace("µ", "u") for one in words_of(found.beside)[0]]
    return {
        "run": found.run_id, "backend": found.backend, "device": found.device, "calls": found.times.calls,
        "min_ns": found.times.min_ns, "median_ns": found.times.median_ns, "max_ns": found.times.max_ns,
        "flops": found.flops, "kernel": found.choice.kernel[:200], "notes": [_note(one, "en") for one in _notes(found)],
        "reasons": reasons,
    }  # fmt: skip


def write(found: Replay, target: Path) -> None:
    """Writes the script. A file that is no such script stays as it is."""
    text = script(found)
    try:
        if target.exists() and _MARK not in target.read_text("utf-8", "replace")[:400]:
            raise IngestError("not_a_script", Message("replay_would_overwrite", {"path": str(target)}))
        target.write_text(text, "utf-8")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise IngestError("cannot_write", Message("replay_cannot_write", {"path": str(target), "why": why})) from error


def as_dict(meant: Meant, run_id: str, output: Path | None) -> dict[str, Any]:
    """The keys that `npulens replay --json` promises."""
    if meant.replay is None:
        return {"run_id": run_id, "choices": [vars(one) for one in meant.choices], "longest": list(meant.longest)}
    told = meant.replay.as_dict()
    written = script(meant.replay) if meant.replay.call is not None else None
    return {**told, "script": written, "output": None if output is None else str(output)}


def lines(found: Replay, lang: str, output: Path | None) -> Iterator[str]:
    """What was meant, how long it took, what the capture shows beside it, and how to go on."""
    choice, times = found.choice, found.times
    yield f"{_short(choice.operator, 80)}  {_short(choice.shapes or '', 120)}".rstrip()
    yield "  " + _say(lang, "times", {
        "median": i18n.duration(times.median_ns), "least": i18n.duration(times.min_ns),
        "most": i18n.duration(times.max_ns), "n": times.calls, "device": plain(found.device or found.backend or "-"),
    })  # fmt: skip
    if found.call is not None and found.call.mapped:
        yield "  " + _say(lang, "mapped", {"kernel": _short(choice.operator, 60), "operator": found.call.operator})
    for name in _notes(found):
        yield f"  {_note(name, lang)}"
    if found.layouts > 1:
        yield "  " + _say(lang, "layouts", {"n": found.layouts})
    there, absent, unknown = words_of(found.beside)
    yield ""
    yield _say(lang, "beside" if there else "beside_none")
    yield from (f"  {_beside(one, lang)}" for one in there)
    comma = _say(lang, "comma")
    for key, ones in (("looked", absent), ("unknown", unknown)):
        if ones:
            yield "  " + _say(lang, key, {"what": comma.join(_say(lang, f"name_{one.name}") for one in ones)})
    yield ""
    if found.call is None:
        yield _say(lang, "refused", {"why": _say(lang, f"why_{choice.reason}")})
    elif output is None:
        yield _say(lang, "how")
    else:
        yield _say(lang, "written", {"path": plain(str(output))})


def choices(meant: Meant, lang: str, name: str) -> Iterator[str]:
    """The operators that a name can mean, longest first."""
    yield _say(lang, "several", {"n": len(meant.choices), "name": _short(name, 60)})
    header = [_say(lang, f"col_{column}") for column in ("number", "operator", "shapes", "given", "calls", "time")]
    shown = meant.choices[:_MOST]
    yield table(header, [_cells(one) for one in shown], 4)
    if len(meant.choices) > len(shown):
        yield _say(lang, "more", {"n": len(meant.choices) - len(shown)})
    yield _say(lang, "choose")


def _cells(one: Choice) -> list[str]:
    given = [text for text in _given(one) if text]
    return [
        f"#{one.number}", _short(one.operator, _NAME), _short(one.shapes or "-", _SHAPES),
        _short(" ".join(given) or "-", _GIVEN), str(one.calls), i18n.duration(one.ns),
    ]  # fmt: skip


def _given(one: Choice) -> list[str]:
    try:
        found = json.loads(one.given or "[]")
    except ValueError:
        return []
    return [str(each) for each in found] if isinstance(found, list) else []


def _notes(found: Replay) -> tuple[str, ...]:
    return () if found.call is None else found.call.notes


def _note(name: str, lang: str) -> str:
    return _say(lang, f"note_{name}")


def _beside(one: Beside, lang: str) -> str:
    values: dict[str, object] = {}
    for key, value in one.values:
        if key.endswith("_ns") or key == "ns":
            values[key.removesuffix("_ns")] = i18n.duration(value)
        elif key == "share":
            values[key] = f"{100 * value:.0f} %"
        else:
            values[key] = _short(value, 60) if isinstance(value, str) else value
    more = "_apart" if one.name == "contention" and "beside" in values else ""
    return _say(lang, f"beside_{one.name}{more}", values)


def _short(name: str, longest: int) -> str:
    """A name as a terminal can show it."""
    text = plain(name)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _say(lang: str, key: str, values: Mapping[str, object] = _NOTHING) -> str:
    return i18n.say(lang, f"replay.{key}", values)
