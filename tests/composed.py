"""The compose file of deploy/, started as it is: a server, a provider and a proxy in containers, and somebody signs in.

    python -m tests.composed [--build OPTION ...]

Root, podman, podman-compose, debootstrap and Chromium are needed. The images of provider and proxy are made of Debian's
packages, under the names that the file asks for. The one of npulens is made of deploy/Containerfile; --build hands
options to `podman build`, such as -v for certificates. Names end in .localhost, so the proxy signs for itself. What is
added to the file is who trusts it. Ends with 1 where a person cannot sign in.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Error, Page, sync_playwright

from tests.bench.captures import ROOT
from tests.provider import PASSWORD, SECRET

BASE, PROXY, PROVIDER, SERVER = (
    "docker.io/library/debian:bookworm-slim", "docker.io/library/caddy:2", "docker.io/babelouest/glewlwyd:latest",
    "localhost/npulens",
)  # fmt: skip
NAME, IDENTITY = "npulens.localhost", "id.localhost"
_APT = "RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends"
_PROXY = f"""FROM {BASE}
{_APT} caddy
ENV XDG_DATA_HOME=/data
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
"""
_PROVIDER = f"""FROM {BASE}
{_APT} glewlwyd sqlite3 openssl
COPY provider.py start.py /opt/
CMD ["python3", "/opt/start.py"]
"""
_START = f"""import os, signal, sys
from pathlib import Path
sys.path.insert(0, "/opt")
from provider import Provider
place = Path("/var/cache/glewlwyd/made")
one = Provider(place, 4593, "https://{NAME}", ["ann@example.org"], os.environ["GLWD_EXTERNAL_URL"])
signal.sigwait([signal.SIGTERM, signal.SIGINT])
one.end()
"""
#: Who trusts a proxy that signs for itself, and under which names the others find it.
_TRUST = {
    "services": {
        "npulens": {
            "image": SERVER, "environment": {"SSL_CERT_FILE": "/etc/npulens/ca.crt"},
            "volumes": ["./ca.crt:/etc/npulens/ca.crt:ro"],
        },
        "proxy": {
            "networks": {"default": {"aliases": [NAME, IDENTITY]}},
            "volumes": ["./ca.crt:/data/caddy/pki/authorities/local/root.crt:ro",
                        "./ca.key:/data/caddy/pki/authorities/local/root.key:ro"],
        },
    }
}  # fmt: skip


def said(*command: str, into: Path | None = None) -> None:
    """Runs a command that has to succeed."""
    print("$", " ".join(command[:6]), flush=True)
    subprocess.run(command, cwd=into, check=True, stdout=sys.stderr)


def images(scratch: Path, options: list[str]) -> None:
    """Everything that the compose file asks for."""
    base = scratch / "base"
    site = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True)
    mirror = next(line for line in site.stdout.splitlines() if "security" not in line)
    said("debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm", str(base),
         mirror)  # fmt: skip
    said("tar", "-C", str(base), "-cf", str(scratch / "base.tar"), ".")
    said("podman", "import", str(scratch / "base.tar"), BASE)
    for name, text in ((PROXY, _PROXY), (PROVIDER, _PROVIDER)):
        place = scratch / name.replace("/", "_").replace(":", "_")
        place.mkdir()
        (place / "Containerfile").write_text(text)
        (place / "start.py").write_text(_START)
        shutil.copy(ROOT / "tests" / "provider.py", place)
        said("podman", "build", "--network=host", "-q", "-t", name, str(place))
    said("podman", "build", "--network=host", "-q", *options, "-t", SERVER, "-f", "deploy/Containerfile", ".",
         into=ROOT)  # fmt: skip


def place(scratch: Path) -> Path:
    """A copy of deploy/ as somebody fills it in, and an authority for the proxy."""
    made = scratch / "deploy"
    shutil.copytree(ROOT / "deploy", made)
    team = (made / "team.toml").read_text().replace("npulens.example.org", NAME)
    (made / "team.toml").write_text(team.replace("id.example.org/", f"{IDENTITY}/api/oidc/"))
    (made / "client_secret").write_text(SECRET)
    (made / ".env").write_text(f"NPULENS_NAME={NAME}\nID_NAME={IDENTITY}\n")
    (made / "trust.yaml").write_text(json.dumps(_TRUST))
    said("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key", into=made)
    said("openssl", "req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=A test", "-days", "2", "-out", "ca.crt",
         into=made)  # fmt: skip
    (made / "ca.crt").chmod(0o644)
    return made


def sign_in(page: Page) -> str:
    """What the page says once somebody has signed in."""
    page.goto(f"https://{NAME}/")
    page.get_by_role("link", name="Sign in").click()
    page.fill("#username", "ann", timeout=30_000)
    page.fill("input[type=password]", PASSWORD)
    page.get_by_role("button", name="OK").click()
    page.get_by_text("Continue", exact=True).click(timeout=30_000)
    page.wait_for_url(f"https://{NAME}/**", timeout=30_000)
    page.get_by_text("This store is empty.").wait_for(timeout=60_000)
    return page.inner_text("body")


def answers(made: Path) -> bool:
    """Whether somebody can sign in within two minutes."""
    with sync_playwright() as started:
        arguments = ["--no-sandbox", "--no-proxy-server", "--host-resolver-rules=MAP *.localhost 127.0.0.1"]
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for _ in range(24):
            page = browser.new_context(ignore_https_errors=True, locale="en-US").new_page()
            try:
                print("signed in:", "Sign out" in sign_in(page), flush=True)
                page.screenshot(path=str(made / "signed_in.png"))
                return True
            except Error as error:  # while containers start
                print(str(error).splitlines()[0], flush=True)
                time.sleep(5)
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", nargs=argparse.REMAINDER, default=[], help="options of podman build, the last here")
    options = parser.parse_args()
    compose = ["podman-compose", "-f", "compose.yaml", "-f", "trust.yaml"]
    with tempfile.TemporaryDirectory(prefix="npulens-composed-") as scratch:
        images(Path(scratch), options.build)
        made = place(Path(scratch))
        try:
            said(*compose, "up", "-d", into=made)
            good = answers(made)
            said("podman", "ps", "--format", "{{.Names}} {{.Status}}")
        finally:
            subprocess.run([*compose, "down", "-v"], cwd=made, check=False, stdout=sys.stderr)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
