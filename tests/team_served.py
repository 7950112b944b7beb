"""A team's server as people meet it: `npulens serve --config` in a process, a real provider, Chromium that signs in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests import provider
from tests.provider import CLIENT, PASSWORD, SECRET, Provider

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = shutil.which("chromium")
PEOPLE = ("olga@x.example", "boris@x.example", "rita@x.example", "bella@x.example", "stan@x.example")
PROJECTS = """
[project.red]
title = "Red"
owner = ["olga@x.example"]
bringer = ["boris@x.example"]
reader = ["rita@x.example"]

[project.blue]
title = "Blue"
owner = ["bella@x.example"]
"""


def missing() -> str | None:
    """What this machine lacks."""
    if CHROMIUM is None or find_spec("playwright") is None:
        return "no chromium or no playwright"
    if find_spec("authlib") is None:
        return "authlib is not installed (the extra team)"
    return provider.missing()


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Served:
    """Provider and server; red and blue each hold one run."""

    def __init__(self, place: Path) -> None:
        port = free_port()
        self.url, self.place = f"http://localhost:{port}", place
        self.provider = Provider(place / "provider", free_port(), self.url, PEOPLE)
        self.file, self.log = place / "team.toml", place / "log"
        (place / "secret").write_text(SECRET)
        self.head = f"""
url = "{self.url}"
home = "home"
[server]
port = {port}
graceful_s = 5
[sign_in]
provider = "{self.provider.metadata}"
client_id = "{CLIENT}"
client_secret_file = "secret"
scope = "openid"
"""
        self.file.write_text(self.head + PROJECTS)
        self.red = self._load("red", "cpu_conv_folded")
        self.blue = self._load("blue", "cpu_conv_unfused")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "npulens.app.cli", "serve", "--config", str(self.file)],
                cwd=ROOT, stdout=log, stderr=log,
            )  # fmt: skip
        self._wait()

    def store(self, project: str) -> Path:
        """Where a project's runs lie."""
        return self.place / "home" / "projects" / project

    def _load(self, project: str, sample: str) -> str:
        command = [
            sys.executable,
            "-m",
            "npulens.app.cli",
            "load",
            f"sample_traces/{sample}",
            "--label",
            f"{project} run",
        ]
        subprocess.run(
            [*command, "--store", str(self.store(project))], cwd=ROOT, check=True, capture_output=True, timeout=120
        )
        return next(path.name for path in self.store(project).iterdir() if (path / "manifest.json").is_file())

    def _wait(self) -> None:
        for _ in range(600):
            assert self._process.poll() is None, self.log.read_text()
            try:
                urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=5).close()
                return
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def sign_in(self, browser: Any, name: str, path: str = "/Runs") -> Any:
        """A page of Chromium in which somebody has signed in at the provider, where they wanted to go."""
        page = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US").new_page()
        page.goto(f"{self.url}{path}")
        page.get_by_role("link", name="Sign in").click()
        page.fill("#username", name.split("@")[0], timeout=30_000)
        page.fill("input[type=password]", PASSWORD)
        page.keyboard.press("Enter")
        page.get_by_text("Continue", exact=True).click(timeout=30_000)
        page.wait_for_url(f"{self.url}/**", timeout=30_000)
        return page

    def end(self) -> int:
        """Ends both; the status of the server."""
        self._process.terminate()
        status = self._process.wait(30)
        self.provider.end()
        return status


def cookies(page: Any) -> str:
    """What a page's browser sends to the server."""
    return "; ".join(
        f"{each['name']}={each['value']}" for each in page.context.cookies() if "streamlit" in each["name"]
    )


def environment(served: Served) -> dict[str, str]:
    """In which code of the test sees the same team."""
    return {**os.environ, "NPULENS_TEAM": str(served.file)}
