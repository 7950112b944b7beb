"""A real S3 server on this machine's loopback (moto's), behind a proxy that can lose, refuse, delay and damage."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

from npulens.ingest.objects.bucket import Bucket

KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_REGION": "us-east-1"}
#: What is not passed on: it belongs to one connection.
_OWN = {"connection", "transfer-encoding", "keep-alive"}


def missing() -> str | None:
    """Why there is no such server here."""
    lacking = [name for name in ("obstore", "moto", "flask") if find_spec(name) is None]
    return f"{', '.join(lacking)} not installed: `make test-fleet` installs them" if lacking else None


@dataclass
class Fault:
    """What becomes of a request: an answer of its own instead, a pause before, a body with a bit turned."""

    status: int | None = None
    pause_s: float = 0.0
    damage: bool = False


@dataclass
class Storage:
    """An S3 server: where it is asked, what it was asked, and what goes wrong."""

    endpoint: str
    asked: list[tuple[str, str]] = field(default_factory=list)  # method and path of every request, in order
    fault: Callable[[str, str], Fault | None] = lambda method, path: None

    def puts(self, below: str = "") -> list[str]:
        """Objects in the order in which they were put there."""
        return [path for method, path in self.asked if method == "PUT" and below in path]

    def environment(self) -> dict[str, str]:
        """What a process needs to be sent here."""
        return KEYS | {"AWS_ENDPOINT_URL": self.endpoint}


@contextmanager
def storage(folder: Path) -> Iterator[Storage]:
    """A server of its own process with the bucket `tests`, asked through a proxy in this one."""
    with (folder / "moto.log").open("w+") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        with subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as server:
            try:
                port = _port(log.name, server)
                asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                asked.request("PUT", "/tests", body=b"", headers={"Content-Length": "0"})
                assert asked.getresponse().status == 200
                asked.close()
                with _proxied(port) as found:
                    yield found
            finally:
                server.terminate()


def _port(log: str, server: subprocess.Popen[bytes]) -> int:
    """The port that it chose, as it says itself."""
    for _ in range(600):
        said = Path(log).read_text(errors="replace")
        if "Running on http://127.0.0.1:" in said:
            return int(said.partition("Running on http://127.0.0.1:")[2].split()[0])
        assert server.poll() is None, said
        time.sleep(0.05)
    raise AssertionError("moto did not start")


@contextmanager
def _proxied(port: int) -> Iterator[Storage]:
    found = Storage("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the requests are in `asked`."""

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.asked.append((self.command, self.path))
            fault = found.fault(self.command, self.path) or Fault()
            time.sleep(fault.pause_s)
            if fault.status is not None:
                self.answer(fault.status, [], b"<Error><Code>SlowDown</Code></Error>")
                return
            behind = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            behind.request(self.command, self.path, body, dict(self.headers))
            answer = behind.getresponse()
            content = answer.read()
            behind.close()
            if fault.damage and content:
                content = content[:-1] + bytes([content[-1] ^ 1])
            self.answer(answer.status, answer.getheaders(), content)

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            try:
                self.send_response_only(status)
                kept = {name: value for name, value in headers if name.lower() not in _OWN}
                if self.command != "HEAD":
                    kept["Content-Length"] = str(len(content))
                for name, value in kept.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)
            except OSError:  # whoever asked has gone
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        proxy.daemon_threads = True
        found.endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            proxy.shutdown()
            thread.join()


def objects(address: str) -> list[str]:
    """What lies below an address, as the library lists it."""
    return sorted(one.name for folder in ("runs", "data", "deleted", "labels") for one in Bucket(address).names(folder))
