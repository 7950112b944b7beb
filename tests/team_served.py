"""A team's server as people meet it: `npulens serve --config` in a process, a real provider, Chromium that signs in.

`python -m tests.team_served` starts server, provider and proxy, says who can sign in where, and ends with Ctrl+C.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
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
PEOPLE = ("olga@x.example", "boris@x.example", "rita@x.example", "bella@x.example", "nina@x.example",
          "stan@x.example")  # fmt: skip
PROJECTS = """
[project.red]
title = "Red"
owner = ["olga@x.example"]
bringer = ["boris@x.example"]
reader = ["rita@x.example", "nina@x.example"]

[project.blue]
title = "Blue"
owner = ["bella@x.example"]
reader = ["nina@x.example"]
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
    """Provider and server; red and blue each hold one run. With ``proxy`` Caddy stands before it, by its file."""

    def __init__(self, place: Path, proxy: bool = False) -> None:
        port, outer = free_port(), free_port()
        self.url, self.place = f"http://localhost:{outer if proxy else port}", place
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
        self._proxy = _proxy(place, self.url, port) if proxy else None
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
        """Ends all of them; the status of the server."""
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait(20)
        self._process.terminate()
        status = self._process.wait(30)
        self.provider.end()
        return status


def _proxy(place: Path, url: str, port: int) -> subprocess.Popen[bytes]:
    """Caddy with deploy/Caddyfile, on loopback and without TLS: the address says http."""
    own = (ROOT / "deploy" / "Caddyfile").read_text()
    site = "{$NPULENS_NAME:npulens.example.org} {\n"
    assert site in own
    (place / "Caddyfile").write_text("{\n\tadmin off\n}\n" + own.replace(site, f"{site}\tbind 127.0.0.1\n"))
    said = {**os.environ, "NPULENS_NAME": url, "NPULENS_SERVER": f"127.0.0.1:{port}", "HOME": str(place)}
    with (place / "proxy.log").open("wb") as log:
        return subprocess.Popen(
            ["caddy", "run", "--adapter", "caddyfile", "--config", str(place / "Caddyfile")],
            stdout=log, stderr=log, env=said,
        )  # fmt: skip


def cookies(page: Any) -> str:
    """What a page's browser sends to the server."""
    return "; ".join(
        f"{each['name']}={each['value']}" for each in page.context.cookies() if "streamlit" in each["name"]
    )


def environment(served: Served) -> dict[str, str]:
    """In which code of the test sees the same team."""
    return {**os.environ, "NPULENS_TEAM": str(served.file)}


def main() -> int:
    lacks = missing() or (None if shutil.which("caddy") else "caddy is not installed")
    if lacks is not None:
        print(lacks, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as place:
        served = Served(Path(place), proxy=True)
        print(f"{served.url}: Caddy, npulens serve --config, glewlwyd; projects Red and Blue")
        print(f"password of each: {PASSWORD}; people:", *(name.split("@")[0] for name in PEOPLE), flush=True)
        ends = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # else they end this process, and leave the others behind
        signal.sigwait(ends)
        served.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
