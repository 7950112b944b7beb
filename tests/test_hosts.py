"""A name that is not ours gets nothing: no page, no route, no websocket."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from npulens.app.team import hosts

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """`streamlit run app/main.py` that allows one name more."""
    place = tmp_path_factory.mktemp("hosts")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(number)]
    command += ["--server.address", "127.0.0.1", "--server.allowedHosts", "lab.example"]
    command += ["--server.allowedHosts", "127.0.0.1"]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "NPULENS_STORE": str(place / "store")}, stdout=log, stderr=log
        )
    try:
        for _ in range(300):
            try:
                if answer(number, "/_stcore/health", "127.0.0.1") == 200:
                    break
            except OSError:
                assert process.poll() is None, (place / "log").read_text()
            time.sleep(0.1)
        yield number
    finally:
        process.terminate()
        process.wait(20)


def answer(port: int, path: str, *named: str, headers: dict[str, str] | None = None) -> int:
    """The status of one request that names these hosts."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name in named:
            connection.putheader("Host", name)
        for key, value in (headers or {}).items():
            connection.putheader(key, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def upgrade(host: str) -> dict[str, str]:
    return {
        "Connection": "Upgrade", "Upgrade": "websocket", "Origin": f"http://{host}", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(), "Sec-WebSocket-Protocol": "streamlit",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/", "/timeline", "/_stcore/health", "/api/upload/done", "/api/timeline/x/lanes"])
def test_pages_and_routes_answer_no_foreign_name(path: str, port: int) -> None:
    assert answer(port, path, f"evil.example:{port}") == 421
    assert answer(port, path, f"127.0.0.1:{port}") != 421


def test_the_websocket_answers_no_foreign_name(port: int) -> None:
    foreign, own = f"evil.example:{port}", f"127.0.0.1:{port}"
    assert answer(port, "/_stcore/stream", foreign, headers=upgrade(foreign)) == 403
    assert answer(port, "/_stcore/stream", own, headers=upgrade(own)) == 101


def test_a_name_that_was_allowed_is_answered(port: int) -> None:
    assert answer(port, "/_stcore/health", "lab.example") == 200
    assert answer(port, "/_stcore/health", "LAB.example.:80") == 200
    assert answer(port, "/_stcore/health", "notlab.example") == 421


@pytest.mark.parametrize(
    "host, known",
    [
        ("localhost:8501", True), ("a.localhost", True), ("127.0.0.1", True), ("[::1]:8501", True), ("10.1.2.3", True),
        ("evil.example", False), ("localhost.evil.example", False), ("127.0.0.1.evil.example", False), ("", False),
        ("[::1", False), ("x.lab.example", True), ("lab.example", False), ("0x7f000001", False),
    ],
)  # fmt: skip
def test_names(host: str, known: bool) -> None:
    scope = {"headers": [(b"host", host.encode())]}
    assert hosts.asked(scope, ("localhost", "*.lab.example")) is known


def test_every_name_of_a_request_counts() -> None:
    both = {"headers": [(b"host", b"localhost"), (b"host", b"evil.example")]}
    assert not hosts.asked(both, ("localhost",)) and not hosts.asked({"headers": []}, ("localhost",))
    assert hosts.asked(both, ("*",))
