"""What the verbs share: the store option, JSON, numbers for people."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from npulens.analysis.serving.slo import FORM, Slo, objectives
from npulens.ingest.store.place import default_dir, located

F = TypeVar("F", bound=Callable[..., Any])

#: What a line may not be broken within: a word with the space after it, or one wide character.
_PIECES = re.compile(r"[^\u2e80-\uffff\s]+\s*|[\u2e80-\uffff]\s*|\s+")


class _Store(click.Path):
    """A directory, or s3://bucket/prefix."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(located(value), param, ctx)


def store_option(command: F) -> F:
    """--store DIR or s3://bucket/prefix, else NPULENS_STORE, else the platform's data directory."""
    return click.option(
        "--store", type=_Store(path_type=Path, file_okay=False), default=default_dir,
        show_default="NPULENS_STORE, else the user's data directory",
        help="Where runs are kept: a directory, or s3://bucket/prefix.",
    )(command)  # fmt: skip


class _Objectives(click.ParamType[Slo]):
    """ttft=200,tpot=25, in ms."""

    name = FORM

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Slo:
        try:
            return value if isinstance(value, Slo) else objectives(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def slo_option(command: F) -> F:
    """--slo, else what npulens.toml says, else the usual objectives."""
    return click.option(
        "--slo", type=_Objectives(), metavar=FORM,
        help="Objectives of requests in ms, for goodput.  [default: [serving] slo in npulens.toml, else "
             "ttft=200,tpot=25]",
    )(command)  # fmt: skip


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts instead of text.")(command)


def lang_option(command: F) -> F:
    return click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the text.")(command)


def redact_option(command: F) -> F:
    return click.option(
        "--redact", is_flag=True,
        help="Replace host names, user names, paths, addresses and secrets. Names of kernels and functions stay.",
    )(command)  # fmt: skip


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


def milliseconds(ns: int | None) -> str:
    """Nanoseconds as milliseconds with every digit; '-' is not recorded."""
    if ns is None:
        return "-"
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1_000_000}.{ns % 1_000_000:06d}"


def table(header: list[str], rows: list[list[str]], left: int = 0) -> str:
    """Columns padded to their widest cell; the first ``left`` flush left, the others right."""
    widths = [max(_width(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [
            cell + " " * (width - _width(cell)) if i < left else " " * (width - _width(cell)) + cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Columns a text takes on a terminal: Chinese characters take two."""
    return sum(2 if ord(char) > 0x2E7F else 1 for char in text)


def filled(text: str, width: int, indent: str = "") -> list[str]:
    """Text broken into lines of at most ``width`` columns, each indented; Chinese breaks anywhere."""
    lines, line = [], ""
    for piece in _PIECES.findall(text):
        if line and _width(indent + line + piece.rstrip()) > width:
            lines.append(indent + line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, indent + line.rstrip()] if line or not lines else lines
