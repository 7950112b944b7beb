"""What a night leaves for people and scripts: five files, each written whole or not at all."""

from __future__ import annotations

import getpass
import json
import os
import platform
import shutil
from pathlib import Path

import msgspec
from msgspec.structs import replace

from npulens.app.nightly import night, place
from npulens.app.nightly.night import Night
from npulens.app.nightly.written import as_html, as_junit, as_markdown
from npulens.ingest.store.redact import Redactor

LANGS = {"en": ("en",), "zh": ("zh",), "both": ("en", "zh")}
HTML, MARKDOWN, JUNIT = "night.html", "night.md", "night.junit.xml"
#: Where GitHub shows what a step says of itself.
SUMMARY = "GITHUB_STEP_SUMMARY"


def write(tonight: Night, folder: Path, out: Path | None, lang: str) -> Path:
    """The reports of a night, in its folder and where the configuration wants them; the page to forward."""
    langs = LANGS[lang]
    markdown = as_markdown.write(tonight, langs)
    texts = {
        night.NAME: json.dumps(night.as_dict(tonight), ensure_ascii=False, indent=1),
        HTML: as_html.write(tonight, langs),
        MARKDOWN: markdown,
        JUNIT: as_junit.write(tonight, langs),
    }
    for name, text in texts.items():
        place.write(folder / name, text)
    if summary := os.environ.get(SUMMARY):
        with open(summary, "a", encoding="utf-8") as stream:
            stream.write(markdown)
    if out is None:
        return folder / HTML
    target = out / tonight.label
    target.mkdir(parents=True, exist_ok=True)
    for name in texts:
        shutil.copyfile(folder / name, target / name)
    return target / HTML


def redacted(tonight: Night) -> Night:
    """The night without the people, machines and places in it."""
    hosts = {platform.node()} | {
        text for row in tonight.rows for hint in row.hints if hint.name.rpartition(".")[2] == "host"
        for text in (hint.before, hint.after)
    }  # fmt: skip
    rows = tuple(replace(row, commits=row.commits and replace(row.commits, author="–")) for row in tonight.rows)
    tonight = replace(tonight, rows=rows)
    clean = Redactor(hosts - {""}, {getpass.getuser()}).value(msgspec.to_builtins(tonight))
    return msgspec.convert(clean, Night)
