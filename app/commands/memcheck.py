"""Accesses of Triton kernels outside their tensors, or unaligned, with the line they stand in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from npulens.app.console import filled, json_option, lang_option, print_json
from npulens.app.run_collectors import ask
from npulens.app.text.i18n import say
from npulens.app.text.wording import plain

_WIDEST = 110


@click.command("memcheck", context_settings={"ignore_unknown_options": True})
@click.argument("target", required=False, metavar="[FILE.py[:NAME]]")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--on-device", is_flag=True, help="Run it on the device here, under compute-sanitizer or msSanitizer instead."
)
@click.option(
    "--read", "report", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A report that compute-sanitizer or msSanitizer wrote.",
)  # fmt: skip
@click.option("--python", type=click.Path(path_type=Path), help="An interpreter with torch and triton.  [this one]")
@json_option
@lang_option
def command(
    target: str | None, arguments: tuple[str, ...], on_device: bool, report: Path | None, python: Path | None,
    as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Check every memory access of Triton kernels: outside their tensors, or unaligned. No device is needed.

    \b
    npulens memcheck                        the kernels of this project
    npulens memcheck FILE.py                kernels that a script launches, in Triton's interpreter
    npulens memcheck FILE.py:NAME           kernels that one function launches
    npulens memcheck --read report.txt      what a device's own tool reported

    Each finding names the line, the tensor, the lane and the offset. The status is 1 if there is one.
    """
    os.environ["TRITON_INTERPRET"] = "0" if on_device else "1"
    told = [*(["--on-device"] if on_device else []), *(["--read", str(report.absolute())] if report else [])]
    answer = ask(["memcheck", *told, *([target] if target else []), *arguments], python=python)
    if as_json:
        print_json(answer)
    else:
        click.echo("\n".join(lines(answer, lang)))
    sys.exit({"found": 1, "partial": 2}.get(answer["status"], 0))


def lines(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The answer for people."""
    how = say(lang, f"memcheck.how_{answer['how']}")
    launches = answer["launches"]
    if launches:
        kernels = len({each["kernel"] for each in launches})
        told = {"n": len(launches), "kernels": kernels, "how": how, "accesses": f"{answer['accesses']:,}"}
        yield say(lang, "memcheck.looked_at", told)
    else:
        yield say(lang, "memcheck.read", {"how": how, "n": len(answer["findings"])})
    for finding in answer["findings"]:
        yield ""
        yield from _finding(finding, lang)
    if answer["unknown"]:
        yield from filled(say(lang, "memcheck.unknown", {"n": f"{answer['unknown']:,}"}), _WIDEST)
    for note in answer["notes"]:
        yield from filled(say(lang, "memcheck.partial", {"why": plain(note)}), _WIDEST)
    if not answer["findings"] and not answer["notes"]:
        yield say(lang, "memcheck.clean")
    if answer["how"] != "interpreter":
        yield from filled(say(lang, "memcheck.not_run"), _WIDEST)


def _finding(finding: Mapping[str, Any], lang: str) -> Iterator[str]:
    place = {"file": plain(str(finding["file"])), "line": finding["line"], "kernel": plain(finding["kernel"])}
    yield say(lang, "memcheck.place" if finding["line"] is not None else "memcheck.place_unknown", place)
    if finding["source"]:
        yield f"    {plain(finding['source'])}"
    access = say(lang, f"memcheck.access_{finding['access'] or 'none'}")
    told = {
        "access": access, "tensor": plain(str(finding["tensor"])), "lanes": finding["lanes"],
        "programs": finding["programs"], "offset": finding["offset_bytes"], "element": finding["element_bytes"],
        "text": plain(str(finding["text"])),
    }  # fmt: skip
    yield from filled(say(lang, f"memcheck.kind_{_kind(finding)}", told), _WIDEST, "  ")
    if finding["offset_bytes"] is not None and finding["lowest_bytes"] is not None:
        yield from filled(say(lang, "memcheck.first", {
            "program": _tuple(finding["program"]), "lane": _tuple(finding["lane"]), "low": finding["lowest_bytes"],
            "high": finding["highest_bytes"], "size": finding["tensor_bytes"],
        }), _WIDEST, "  ")  # fmt: skip
    if finding["called_from"]:
        yield from filled(say(lang, "memcheck.called_from", {"places": plain(", ".join(finding["called_from"]))}),
                          _WIDEST, "  ")  # fmt: skip


def _kind(finding: Mapping[str, Any]) -> str:
    """Which sentence tells it: a device's tool has words of its own, and without a tensor there is no offset."""
    if finding["kind"] == "hint":
        return "hint"
    if finding["text"] is not None:
        return "told"
    return "nowhere" if finding["kind"] == "outside" and finding["tensor"] is None else str(finding["kind"])


def _tuple(values: list[int] | None) -> str:
    return ", ".join(map(str, values)) if values else "-"
