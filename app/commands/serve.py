"""The dashboard."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import click

from npulens.app.console import store_option
from npulens.app.team import config, signed_in
from npulens.app.team.config import Team

MAIN = Path(__file__).resolve().parent.parent / "main.py"
#: The settings of .streamlit/config.toml, for an installed npulens that has no such file beside it.
SETTINGS = (
    "--browser.gatherUsageStats=false",
    "--server.fileWatcherType=none",
    "--server.headless=true",
    "--server.address=127.0.0.1",
    "--client.toolbarMode=viewer",
)


def serve(store: Path, options: tuple[str, ...], team: Path | None = None) -> NoReturn:
    """Become Streamlit on app/main.py: whoever ends this process ends the server, not a parent of it."""
    environment = dict(os.environ, NPULENS_STORE=str(store.absolute()))
    environment.pop(config.VARIABLE, None)
    own: tuple[str, ...] = ()
    if team is not None:
        found = config.read(team)
        environment |= {
            config.VARIABLE: str(team.absolute()), "STREAMLIT_SERVER_COOKIE_SECRET": signed_in.secret(found),
        }  # fmt: skip
        own = _settings(found)
    named = {option.split("=")[0] for option in options}
    given = {setting.split("=")[0]: setting for setting in (*SETTINGS, *own)}
    settings = [setting for name, setting in given.items() if name not in named]
    if _everywhere([*settings, *options]):
        settings.append("--logger.hideWelcomeMessage=true")
        print("npulens listens on every address of this machine.")
    command = [sys.executable, "-m", "streamlit", "run", str(MAIN), *settings, *options]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)


def _everywhere(settings: Sequence[str]) -> bool:
    """Whether it listens on all addresses. Streamlit then asks a site elsewhere for the outer one, to print it."""
    words = [word for setting in settings for word in setting.split("=", 1)]
    said = [value for name, value in pairwise(words) if name == "--server.address"]
    return not said or said[-1] in ("0.0.0.0", "::", "")


def _settings(team: Team) -> tuple[str, ...]:
    """What Streamlit has to know of a team's file."""
    base = (f"--server.baseUrlPath={team.base.strip('/')}",) if team.base else ()
    return (f"--server.address={team.address}", f"--server.port={team.port}", *base)


@click.command("serve", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--config", "team", type=click.Path(path_type=Path, dir_okay=False),
    help="The file of a team: sign-in, projects, roles. Without it there is one store and nobody signs in.",
)  # fmt: skip
@store_option
def command(options: tuple[str, ...], team: Path | None, store: Path) -> None:
    """Open the dashboard over the store. OPTIONS go to streamlit as they are (--server.port=8502...).

    It answers under localhost, this machine's own name and addresses in digits; --server.allowedHosts=NAME adds one.
    With --config it answers under the team's names, and only to people who signed in.
    """
    serve(store, options, team)
