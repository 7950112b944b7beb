"""The console script. One file of app/commands is one verb; each only orchestrates.

Verbs are imported when they are asked for: loading a trace should not wait for what a chart needs.
"""

from __future__ import annotations

import ast
import atexit
import gc
import importlib
import json
import os
import pkgutil
import sys
import threading
from importlib.resources import files

import click

from npulens.app import commands
from npulens.app.settings import of_store
from npulens.ingest.errors import IngestError, of_the_system
from npulens.ingest.messages import Message, as_data

#: Objects that are made before Python looks for rings among them. Importing a verb makes hundreds of thousands that
#: stay, and so does a check of a run whose shapes hardly repeat: looking at its 700 takes a tenth of their time.
gc.set_threshold(100_000, 20, 50)


class Verbs(click.Group):
    """The files of app/commands as subcommands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(m.name for m in pkgutil.iter_modules(commands.__path__) if not m.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"npulens.app.commands.{cmd_name}").command
        assert isinstance(command, click.Command), f"app/commands/{cmd_name}.py: command is no click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Every verb with the beginning of its docstring; none of them is imported for that."""
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name, width)) for name in names])

    def invoke(self, ctx: click.Context) -> object:
        """A typed error is one line on stderr, with --json also an object on stdout, and exit code 2."""
        try:
            return self._invoked(ctx)
        except IngestError as error:
            if "--json" in sys.argv:
                click.echo(json.dumps({"error": error.as_dict(), "said": as_data(error.said())}, ensure_ascii=False))
            click.echo(f"npulens: {error}", err=True)
            ctx.exit(2)

    def _invoked(self, ctx: click.Context) -> object:
        """What the verb does; a disk that refuses, and a run that goes while it is read, as a typed error."""
        try:
            of_store.apply()
            return super().invoke(ctx)
        except OSError as error:
            if (said := of_the_system(error)) is None:
                raise
            raise said from error
        except _lost_files() as error:
            if "No such file" not in str(error):
                raise
            raise IngestError("unknown_run", Message("run_went_while_it_was_read")) from error


def _lost_files() -> tuple[type[Exception], ...]:
    """What DuckDB raises where a file is gone; nothing where no verb has imported it."""
    return (sys.modules["duckdb"].IOException,) if "duckdb" in sys.modules else ()


def _summary(name: str, width: int) -> str:
    """The beginning of what the verb says of itself: the docstring of its command, read from its file."""
    tree = ast.parse((files(commands) / f"{name}.py").read_text("utf-8"))
    verb = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "command")
    return click.Command(name, help=ast.get_docstring(verb)).get_short_help_str(width)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="npulens", prog_name="npulens")
def main() -> None:
    """Where does the time of this NPU job go, and what gives the most of it back?

    \b
    npulens demo                     look at the bundled samples
    npulens load CAPTURE             take in what a profiler left: a file or a directory
    npulens breakdown RUN            split every step: computing, communication, copies, idle
    npulens serve                    the dashboard
    """


def run() -> None:
    """The console script: a verb, and the end without looking at each object that the process holds."""
    try:
        main()
    except SystemExit as end:
        if threading.active_count() > 1 or not isinstance(end.code, int | None):
            raise
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:  # nobody reads it any more
            raise end from None
        os._exit(end.code or 0)


if __name__ == "__main__":
    run()
