"""Whether this machine can run, record and measure, and what to do where it cannot."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from npulens.app.console import json_option, lang_option, print_json, redact_option, table
from npulens.app.evidence import packing, self_test
from npulens.app.run_collectors import ask
from npulens.app.text.i18n import known, say
from npulens.app.text.wording import plain

STATUSES = ("FAIL", "WARN", "PASS", "SKIP")
_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red", "SKIP": "blue"}
#: Outcomes that say only that a check has nothing to look at.
_NOTHING = "no_"


@click.command("doctor")
@click.option(
    "--roofs", is_flag=True, help="Measure how fast torch multiplies, moves and starts operators on this device."
)
@click.option("--self-test", is_flag=True, help="Go the whole way once on this device and keep the evidence.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False),
    help="Where the archive of a self-test goes.  [here]",
)  # fmt: skip
@click.option(
    "--backend", type=click.Choice(["npu", "cuda", "mps", "cpu"]), help="Test this one.  [the first there is]"
)
@click.option(
    "--python", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The Python that runs your jobs, if it is another one.  [the one of npulens]",
)  # fmt: skip
@redact_option
@json_option
@lang_option
def command(
    roofs: bool, self_test: bool, output: Path | None, backend: str | None, python: Path | None, redact: bool,
    as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Look at torch, torch_npu, CANN, drivers, devices, clocks and settings, and say what to do.

    With --self-test also measure, record, load and split a few small jobs, and put what was found, what the tools
    of the driver said and the traces into one archive. With --roofs measure the roofs of this device and keep them:
    `npulens collect` puts them beside what it records, and `npulens roofline` compares with them. Exits with 0 if
    this machine is usable, with 1 if something has to be mended, with 2 on an error.
    """
    if roofs:
        if self_test:
            raise click.UsageError("--roofs and --self-test are two things: ask for one of them")
        measured = ask(["roofs", *(["--backend", backend] if backend else [])], python=python)
        if as_json:
            print_json(measured)
        else:
            click.echo("\n".join(roof_lines(measured, lang)))
        return
    answer = tested(output or Path(), backend, python, redact) if self_test else ask(["doctor"], python=python)
    if as_json:
        print_json(answer)
    else:
        for line in lines(answer, lang):
            click.echo(line)
    sys.exit(0 if answer["status"] == "usable" else 1)


def tested(output: Path, backend: str | None, python: Path | None, redact: bool) -> dict[str, Any]:
    """The self-test: the collectors' half, ours, and the archive."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="npulens-") as scratch:
        place = Path(scratch) / "evidence"
        chosen = ["--backend", backend] if backend else []
        answer = ask(["self-test", "-o", str(place), *chosen], python=python)
        checks = [*answer["checks"], *self_test.judged(answer, Path(scratch) / "store")]
        failed = any(check["status"] == "FAIL" for check in checks)
        report = {**answer, "checks": checks, "status": "unusable" if failed else "usable", "redacted": redact}
        return {**report, "archive": str(packing.pack(place, report, output, redact))}


def lines(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The visit for people: every check that had something to look at, its commands, and the sum."""
    checks = answer["checks"]
    width = max(len(check["name"]) for check in checks)
    skipped = [check["name"] for check in checks if check["said"].startswith(_NOTHING)]
    for check in checks:
        if check["name"] not in skipped:
            status = click.style(check["status"], fg=_COLOURS[check["status"]], bold=True)
            yield f"{status}  {check['name']:<{width}}  {sentence(check, lang)}"
            for todo in check["do"]:
                yield f"{'':<{width + 8}}$ {todo}"
    yield ""
    if skipped:
        yield say(lang, "doctor.skipped", {"names": ", ".join(skipped)})
    yield say(lang, "doctor.dated", answer["compatibility"])
    if "archive" in answer:
        yield say(lang, "self_test.archive", {"path": answer["archive"]})
    counts = Counter(check["status"] for check in checks)
    yield click.style(say(lang, f"doctor.{answer['status']}", {name: counts[name] for name in STATUSES}), bold=True)


def roof_lines(found: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The roofs for people: the best, the median with its interval, and whether the machine was quiet."""
    torch, threads = (found["versions"] or {}).get("torch"), found["threads"]
    on = say(lang, "doctor.roofs_threads", {"threads": threads}) if threads else ""
    yield say(lang, "doctor.roofs_head", {"device": plain(found["device"]), "backend": found["backend"], "on": on,
                                          "torch": torch, "seconds": f"{found['seconds']:.0f}"})  # fmt: skip
    columns = [say(lang, f"doctor.roofs_{name}") for name in ("name", "best", "median", "size", "agree")]
    yield table(columns, [_roof_cells(each, lang) for each in found["roofs"]], 1)
    if not all(each["agree"] for each in found["roofs"]):
        yield say(lang, "doctor.roofs_unquiet")
    for name, why in found["left_out"].items():
        yield say(lang, f"doctor.roofs_left_out_{why}", {"name": name})
    if found["kept"]:
        yield say(lang, "doctor.roofs_kept", {"path": found["kept"]})


def _roof_cells(each: Mapping[str, Any], lang: str) -> list[str]:
    kind = each["kind"]
    unit, scale = {"matmul": ("TFLOP/s", 1e12), "memory": ("GB/s", 1e9), "launch": ("µs", 1e3)}[kind]
    best, median, low, high = (
        "-" if each[end] is None else f"{each[end] / scale:.4g}" for end in ("best", "median", "low", "high")
    )
    size = {"matmul": f"{each['size']} x {each['size']}", "memory": f"{each['size'] >> 20} MiB", "launch": "-"}[kind]
    called = say(lang, f"doctor.roofs_of_{kind}", {"name": each["name"]})
    agree = say(lang, "doctor.roofs_yes" if each["agree"] else "doctor.roofs_no")
    return [called, f"{best} {unit}", f"{median} [{low}, {high}]", size, agree]


def sentence(check: Mapping[str, Any], lang: str) -> str:
    """What one check saw, in words."""
    seen = {name: _text(value) for name, value in check["seen"].items()}
    name, said = check["name"], check["said"]
    if (name, said) == ("backend", "uses") and check["seen"]["reasons"]:
        said = "uses_instead"
    keys = (f"doctor.{name}_{said}", f"self_test.{name}_{said}", f"self_test.any_{name.partition('_')[0]}_{said}")
    return say(lang, next(filter(known, keys), f"self_test.{said}"), seen)


def _text(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "–"
    return "–" if value is None else str(value)
