"""The schemas of what commands print with --json: each is one, each command has one, and what is printed fits."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import judged
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.app import schemas
from npulens.app.cli import main

jsonschema = pytest.importorskip("jsonschema")
#: These have no schema yet: what most of them say is made where torch is.
NOT_YET = {
    "bench", "compile", "evidence-run", "evidence-verify", "memcheck", "store-backup", "store-check", "store-migrate",
    "store-restore",
}  # fmt: skip


def fits(name: str, document: object) -> None:
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(document)


def speaking(command: click.Command, path: str = "") -> Iterator[str]:
    """The commands that have --json, a part of a command after a dash."""
    if isinstance(command, click.Group):
        with click.Context(command) as ctx:
            for name in command.list_commands(ctx):
                found = command.get_command(ctx, name)
                assert found is not None
                yield from speaking(found, f"{path}-{name}".lstrip("-"))
    elif any("--json" in option.opts for option in command.params):
        yield path


def test_every_command_with_json_has_a_schema() -> None:
    assert set(speaking(main)) - set(schemas.names()) <= NOT_YET
    assert not NOT_YET & set(schemas.names())


@pytest.mark.parametrize("name", schemas.names())
def test_a_schema_is_one(name: str) -> None:
    for version in range(1, schemas.names()[name] + 1):
        found = schemas.schema(name, version)
        jsonschema.Draft202012Validator.check_schema(found)
        assert found["$id"] == f"urn:npulens:{name}:{version}" and found["title"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("schemas")
    ingest.load(judged.capture(directory / "a.json", "gemm"), directory / "store", label="night")
    ingest.load(judged.capture(directory / "b.json", "gemm", steps=5), directory / "store", label="short")
    return directory


def said(place: Path, *words: str) -> Any:
    done = CliRunner().invoke(main, [*words, "--store", str(place / "store"), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", [
    ("runs",), ("check", "night"), ("check", "night", "--lang", "zh"), ("breakdown", "night"), ("path", "night"),
    ("fleet", "night"), ("kernel", "night"), ("modules", "night"), ("modules", "night", "short"), ("roofline", "night"),
    ("roofline", "night", "short"), ("compare", "night", "short"), ("history",), ("token",), ("token", "--revoke"),
    ("sql", "night", "SELECT rank, avg(dur_ns), NULL FROM span GROUP BY ALL"), ("rm", "short"),
    ("rm", "--undo", "short"),
], ids=" ".join)  # fmt: skip
def test_what_a_command_prints_fits(words: tuple[str, ...], place: Path) -> None:
    fits(words[0], said(place, *words))


def test_what_leaves_and_comes_in_fits(place: Path, tmp_path: Path) -> None:
    fits("export", said(place, "export", "night", "--to", str(tmp_path / "span.csv")))
    fits("report", said(place, "report", "night", "-o", str(tmp_path / "night.md")))
    capture = judged.capture(tmp_path / "c.json", "gemm", steps=3)
    fits("load", said(place, "load", str(capture)))
    fits("load", said(place, "load", str(capture)))  # it is there already


def test_an_error_fits(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["check", "zork", "--store", str(place / "store"), "--json"]
    monkeypatch.setattr(sys, "argv", ["npulens", *words])
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    fits("error", json.loads(done.stdout))


@pytest.mark.parametrize("key", ["run_id", "findings", "quality", "together_ns"])
def test_what_lacks_a_promised_key_does_not_fit(key: str, place: Path) -> None:
    document = said(place, "check", "night")
    del document[key]
    with pytest.raises(jsonschema.ValidationError, match=key):
        fits("check", document)
    with pytest.raises(jsonschema.ValidationError):
        fits("check", {**document, key: {"zork": 1.5}})
