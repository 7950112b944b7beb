"""The dashboard."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from npulens.app.console import store_option

MAIN = Path(__file__).resolve().parent.parent / "main.py"
#: The settings of .streamlit/config.toml, for an installed npulens that has no such file beside it.
SETTINGS = (
    "--browser.gatherUsageStats=false",
    "--server.fileWatcherType=none",
    "--server.headless=true",
    "--server.address=127.0.0.1",
    "--client.toolbarMode=viewer",
)


def serve(store: Path, options: tuple[str, ...]) -> NoReturn:
    """Become Streamlit on app/main.py: whoever ends this process ends the server, not a parent of it."""
    named = {option.split("=")[0] for option in options}
    settings = [setting for setting in SETTINGS if setting.split("=")[0] not in named]
    environment = dict(os.environ, NPULENS_STORE=str(store.absolute()))
    command = [sys.executable, "-m", "streamlit", "run", str(MAIN), *settings, *options]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)


@click.command("serve", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@store_option
def command(options: tuple[str, ...], store: Path) -> None:
    """Open the dashboard over the store. OPTIONS go to streamlit as they are (--server.port=8502...).

    It answers under localhost, this machine's own name and addresses in digits; --server.allowedHosts=NAME adds one.
    """
    serve(store, options)
