"""One operator of a run as a script that runs it alone, and what may make it slower in its job."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from npulens.analysis.look.replay import replay
from npulens.app import run_replay
from npulens.app.console import json_option, lang_option, print_json, store_option
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores


@click.command("replay")
@click.argument("run")
@click.argument("operator")
@click.option("--shapes", help="Which of several: the shapes as `npulens roofline` prints them.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the script there; '-' prints it.")
@store_option
@json_option
@lang_option
def command(
    run: str, operator: str, shapes: str | None, output: Path | None, store: Path, as_json: bool, lang: str
) -> None:
    """Write a script that runs OPERATOR of RUN alone, and say what may make it slower in its job.

    OPERATOR is a name as `npulens roofline` prints it, or the name of a kernel. Where it means several, `NAME#2` is the
    second longest. Nothing is run: the script needs torch, and a device of its kind to be compared. RUN is a run id, a
    unique beginning of one, or a label. Exits with 2 where OPERATOR means several or cannot be run alone.
    """
    found_run = stores.resolve(store, run)
    con = stores.open_run(store, found_run.run_id)
    try:
        meant = replay(con, operator, shapes)
    finally:
        con.close()
    if not meant.choices:
        names = ", ".join(meant.longest)
        raise IngestError("no_operator", Message("replay_no_operator", {"name": repr(operator), "names": names}))
    found = meant.replay
    printed = output is not None and str(output) == "-"
    written = found is not None and found.call is not None and output is not None and not printed
    if written and found is not None and output is not None:
        run_replay.write(found, output)
    if as_json:
        print_json(run_replay.as_dict(meant, found_run.run_id, output if written else None))
    elif found is None:
        click.echo("\n".join(run_replay.choices(meant, lang, operator)), err=printed)
    else:
        click.echo("\n".join(run_replay.lines(found, lang, output if written else None)), err=printed)
        if printed and found.call is not None:
            click.echo(run_replay.script(found), nl=False)
    if found is None or (found.call is None and output is not None):
        sys.exit(2)
