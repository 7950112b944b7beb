"""Look after the store: check it, heal it, bring it to this version, back it up and restore it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from npulens.app.console import json_option, print_json, store_option, table
from npulens.ingest.loading import mend
from npulens.ingest.loading.mend import Found
from npulens.ingest.loading.quota import amount
from npulens.ingest.messages import as_data
from npulens.ingest.store import backup as backups
from npulens.ingest.store import raw


@click.group("store")
def command() -> None:
    """Check the store and heal it, bring it to this version, back it up and restore it."""


@command.command("check")
@click.option("--repair", is_flag=True, help="Heal what can be healed, from raw captures above all.")
@store_option
@json_option
def check(repair: bool, store: Path, as_json: bool) -> None:
    """Read every file of the store and compare it with what was stored.

    Exits with 1 if something is damaged and was not healed.
    """
    found = list(mend.look(store))
    if repair:
        found = [each if each.state in ("whole", "newer") else mend.heal(store, each) for each in found]
    runs = sum(each.what == "run" for each in found)
    kept = len(raw.names(store))
    if as_json:
        print_json(
            {"things": [_row(each) for each in found], "runs": runs, "raw": kept, "raw_bytes": raw.bytes_of(store)}
        )
    else:
        _show([each for each in found if each.state != "whole"])
        whole = sum(each.state == "whole" and each.what == "run" for each in found)
        click.echo(
            f"{whole} of {runs} runs are whole; the captures of {kept} are kept, in {amount(raw.bytes_of(store))}"
        )
        if others := _open_to_others(store):
            click.echo(others)
    if any(each.is_bad for each in found):
        sys.exit(1)


@command.command("migrate")
@store_option
@json_option
def migrate(store: Path, as_json: bool) -> None:
    """Bring every run that an earlier release stored to this version.

    From its raw capture where that is kept, else table by table. A run of a newer release stays as it is. Exits with 1
    if a run could not be brought to this version.
    """
    done = mend.migrate(store, lambda found: None if as_json else _show([found]))
    if as_json:
        print_json({"things": [_row(each) for each in done]})
    elif not done:
        click.echo("every run is of this version")
    if not all(each.healed for each in done):
        sys.exit(1)


@command.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@store_option
@json_option
def backup(file: Path, store: Path, as_json: bool) -> None:
    """Write the whole store to FILE: runs, raw captures, labels, notes, history, nights.

    Others may go on meanwhile. What is computed again and the key that signs tokens stay out.
    """
    _done(backups.backup(store, file), file, as_json)


@command.command("restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@store_option
@json_option
def restore(file: Path, store: Path, as_json: bool) -> None:
    """Make a store of what `backup` wrote, where there is none yet."""
    _done(backups.restore(file, store), store, as_json)


def _done(done: backups.Backup, place: Path, as_json: bool) -> None:
    if as_json:
        print_json({**asdict(done), "place": str(place)})
    else:
        click.echo(f"{done.runs} runs, {done.files:,} files, {amount(done.bytes)}: {place}")


def _row(found: Found) -> dict[str, object]:
    return {**asdict(found), "said": as_data(found.reason), "bad": found.is_bad}


def _show(found: list[Found]) -> None:
    rows = [[each.what, each.name, each.state, _became(each), each.reason or ""] for each in found]
    if rows:
        click.echo(table(["thing", "name", "state", "now", "why"], rows, left=5))


def _became(found: Found) -> str:
    return "" if found.healed is None else "healed" if found.healed else f"not healed: {found.why_not}"


def _open_to_others(store: Path) -> str:
    if not store.is_dir() or not store.stat().st_mode & 0o077:
        return ""
    return f"others on this machine may read this store; `chmod -R go= {store}` ends that"
