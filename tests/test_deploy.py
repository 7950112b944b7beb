"""What lies in deploy/: the unit, the proxies' files and the example of a team are valid, and a server works behind."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from npulens.app.team import config, tokens
from npulens.app.team.config import Role
from npulens.ingest.store import book
from tests.team_made import FILE, URL, cookie
from tests.team_served import free_port

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
NAME = "npulens.example"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def test_the_example_of_a_team_is_one(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    text = (DEPLOY / "team.toml").read_text().replace("/etc/npulens/client_secret", "secret")
    (tmp_path / "team.toml").write_text(text)
    team = config.read(tmp_path / "team.toml")
    assert team.projects["training"].members == {
        "ann@example.org": Role.OWNER, "group:nightly": Role.BRINGER, "*": Role.READER,
    }  # fmt: skip
    assert team.home == Path("/var/lib/npulens") and team.origin == "https://npulens.example.org"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (DEPLOY / "npulens.service").read_text()
    assert unit.count("/opt/npulens/bin/npulens ") == 1
    (tmp_path / "npulens.service").write_text(unit.replace("/opt/npulens/bin/npulens", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "npulens.service")], capture_output=True, text=True, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if "npulens.service" in line]
    assert (done.returncode, said) == (0, [])


def test_the_unit_waits_longer_than_the_server(tmp_path: Path) -> None:
    unit = (DEPLOY / "npulens.service").read_text()
    stop = next(int(line.partition("=")[2]) for line in unit.splitlines() if line.startswith("TimeoutStopSec="))
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert stop > config.Team.graceful_s and services["npulens"]["stop_grace_period"] == f"{stop}s"
    assert set(services) == {"npulens", "provider", "proxy"}


def test_the_proxy_of_the_compose_file_leads_to_server_and_provider() -> None:
    """By the files and names that compose.yaml hands to it."""
    if shutil.which("caddy") is None:
        pytest.skip("caddy is not installed")
    proxy = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["proxy"]
    mounted = {volume.split(":")[0] for volume in proxy["volumes"] if volume.startswith("./")}
    assert mounted == {"./Caddyfile", "./provider.caddy"}
    said = {name: value.partition(":-")[2].rstrip("}") or value for name, value in proxy["environment"].items()}
    done = subprocess.run(
        ["caddy", "adapt", "--adapter", "caddyfile", "--config", str(DEPLOY / "Caddyfile")],
        env={**os.environ, **said}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    (server,) = json.loads(done.stdout)["apps"]["http"]["servers"].values()
    leads = {route["match"][0]["host"][0]: json.dumps(route["handle"]) for route in server["routes"]}
    assert set(leads) == {"npulens.example.org", "id.example.org"}
    assert '"dial": "npulens:8501"' in leads["npulens.example.org"]
    assert '"dial": "provider:4593"' in leads["id.example.org"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[config.Team, Path]]:
    """A server of a team, without its provider: whoever has a cookie signed in before."""
    if NGINX is None and shutil.which("caddy") is None:
        pytest.skip("neither nginx nor caddy is installed")
    place, port = tmp_path_factory.mktemp("deploy"), free_port()
    (place / "secret").write_text("secret")
    (place / "team.toml").write_text(f"{FILE}\n[server]\nport = {port}\ngraceful_s = 2\n")
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "npulens.app.cli", "serve", "--config", str(place / "team.toml")],
            cwd=ROOT, stdout=log, stderr=log,
        )  # fmt: skip
    left: list[socket.socket] = []
    try:
        wait(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close(), process)
        team = config.read(place / "team.toml")
        yield team, place
        left.append(
            _stalled(team)
        )  # an upload that fell silent does not keep the server: it waits graceful_s, no longer
    finally:
        process.terminate()
        assert process.wait(20) in (0, -15), (place / "log").read_text()[-2000:]
        for each in left:
            each.close()


def _stalled(team: config.Team) -> socket.socket:
    """An upload that was let in, sends three bytes of ten and then nothing."""
    text, _ = tokens.mint(team, "boris@x.example", "red", Role.BRINGER, "stalls", 1)
    upload = socket.create_connection(("127.0.0.1", team.port), 30)
    upload.sendall(
        f"PUT /api/upload/capture/x.json HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {text}\r\n"
        "Content-Length: 10\r\n\r\nabc".encode()
    )
    while not any((team.projects["red"].store / ".incoming").glob("*/x.json")):
        time.sleep(0.05)
    return upload


def wait(ready: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None
        try:
            ready()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("it does not answer")


@pytest.fixture(params=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest, served: tuple[config.Team, Path], tmp_path: Path) -> Iterator[int]:
    """The port of a proxy with the file of deploy/, TLS and a certificate of its own."""
    team, port = served[0], free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "fullchain.pem",
         "-subj", f"/CN={NAME}"], cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    name = str(request.param)
    if name == "nginx":
        if NGINX is None:
            pytest.skip("nginx is not installed")
        command = [NGINX, "-c", str(_nginx(team, port, tmp_path)), "-p", str(tmp_path), "-g", "daemon off;"]
    else:
        if shutil.which("caddy") is None:
            pytest.skip("caddy is not installed")
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(_caddy(team, port, tmp_path))]
    environment = {**os.environ, "NPULENS_NAME": f"https://{NAME}:{port}", "HOME": str(tmp_path),
                   "NPULENS_SERVER": f"127.0.0.1:{team.port}"}  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        wait(lambda: ask(port, "/_stcore/health"), process)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _nginx(team: config.Team, port: int, place: Path) -> Path:
    own = (DEPLOY / "nginx.conf").read_text()
    for old, new in (("443 ssl", f"127.0.0.1:{port} ssl"), ("/etc/ssl/npulens", str(place)),
                     ("127.0.0.1:8501", f"127.0.0.1:{team.port}"), ("npulens.example.org", NAME)):  # fmt: skip
        assert old in own
        own = own.replace(old, new)
    temporary = "".join(
        f"{kind}_temp_path {place}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (place / "nginx.conf").write_text(
        f"pid {place}/pid;\nerror_log {place}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{own}}}\n"
    )
    return place / "nginx.conf"


def _caddy(team: config.Team, port: int, place: Path) -> Path:
    own = (DEPLOY / "Caddyfile").read_text()
    head, _, rest = own.partition("{$NPULENS_NAME:npulens.example.org} {\n")
    assert rest
    (place / "Caddyfile").write_text(
        "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"
        f"{head}{{$NPULENS_NAME}} {{\n\tbind 127.0.0.1\n\ttls {place}/fullchain.pem {place}/key.pem\n{rest}"
    )
    return place / "Caddyfile"


def ask(
    port: int, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    raw = socket.create_connection(("127.0.0.1", port), 30)
    connection = http.client.HTTPConnection(NAME)
    connection.sock = context.wrap_socket(raw, server_hostname=NAME)
    try:
        connection.request(method, path, body, {"Host": NAME, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.headers, b"" if answer.status == 101 else answer.read()
    finally:
        connection.close()


def test_behind_a_proxy_everything_is_as_without(served: tuple[config.Team, Path], proxy: int) -> None:
    team, place = served
    mine = {"Cookie": cookie(team, "olga@x.example")}
    assert ask(proxy, "/Runs")[0] == 401
    status, headers, page = ask(proxy, "/Runs", headers=mine)
    assert status == 200 and b"streamlit" in page.lower()
    assert "frame-ancestors" in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"
    assert "Secure" in ask(proxy, "/sign-in?back=/Runs")[1]["Set-Cookie"]
    assert ask(proxy, "/metrics", headers=mine)[0] == 404
    upgrade = {
        **mine, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(), "Sec-WebSocket-Protocol": "streamlit",
    }  # fmt: skip
    assert ask(proxy, "/_stcore/stream", headers={**upgrade, "Origin": URL})[0] == 101
    assert ask(proxy, "/_stcore/stream", headers={**upgrade, "Origin": "https://evil.example"})[0] == 403
    text, made = tokens.mint(team, "boris@x.example", "red", Role.BRINGER, "curl", 1)
    bearer = {"Authorization": f"Bearer {text}"}
    assert ask(proxy, "/api/upload/capture/poem.txt", "PUT", bearer, b"no capture at all" * 200_000)[0] == 422
    line = book.lines(team.home, "red", 1)[0]
    assert (line.name, line.by, line.act, line.allowed) == ("boris@x.example", f"token {made.id}", "bring", True)
    for _ in range(100):  # the line is written when the answer is over, which may be after it has arrived
        logged = [json.loads(each) for each in (place / "log").read_text().splitlines() if each.startswith("{")]
        if any(each["request"] == line.request and each["who"] == "boris@x.example" for each in logged):
            return
        time.sleep(0.1)
    raise AssertionError("the log does not hold the request of the audit")


def test_prometheus_reads_the_metrics(served: tuple[config.Team, Path], tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    team, port = served[0], free_port()
    (tmp_path / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "npulens", "static_configs": [{"targets": [f"127.0.0.1:{team.port}"]}]}],
    }))  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log,
        )  # fmt: skip

    def found(name: str) -> list[dict[str, dict[str, str]]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={name}", timeout=5) as answer:
            result: list[dict[str, dict[str, str]]] = json.load(answer)["data"]["result"]
        if not result:
            raise OSError("not scraped yet")
        return result

    try:
        wait(lambda: found("npulens_runs"), process)
        assert {each["metric"]["project"] for each in found("npulens_runs")} == {"red", "blue"}
        assert found("npulens_quota_bytes")[0]["metric"]["project"] == "blue"
        assert found("npulens_answers_total") and found("npulens_answer_seconds_bucket")
    finally:
        process.terminate()
        process.wait(20)
