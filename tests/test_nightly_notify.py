"""Telling people: a receiver on this machine, services known by their URL only, and secrets that stay secret."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from npulens.app.nightly.written import notify
from tests.nights.lab import Lab, job

pytest.importorskip("apprise", reason="apprise is not installed")
# Its own use of what Python 3.13 leaves out.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

PAIRS = 'base = { env = { VALUE = "100" } }\nhead = { env = { VALUE = "105" } }\n'


class Receiver:
    """What arrived, and how many requests are refused before one is taken."""

    def __init__(self, refuse: int) -> None:
        self.refuse, self.asked, self.got = refuse, 0, list[dict[str, str]]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked += 1
                body = self.rfile.read(int(self.headers["Content-Length"]))
                taken = outer.asked > outer.refuse
                if taken:
                    outer.got.append(json.loads(body))
                self.send_response(200 if taken else 503)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://user:s3cr3t-w0rd@127.0.0.1:{self.server.server_port}/t0ken-of-ours"


@pytest.fixture
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    found = Receiver(getattr(request, "param", 0))
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def toml(more: str, tasks: str) -> str:
    return f"[night]\nrounds = 8\n{tasks}\n[notify]\nwait = 0.01\n{more}\n"


def test_a_message_says_what_regressed(tmp_path: Path, receiver: Receiver) -> None:
    lab = Lab(tmp_path, toml('urls = ["${WHERE}"]', job("a", PAIRS)))
    done = lab.run("--night", "2026-03-01", "--lang", "en", env={"WHERE": receiver.url})
    assert done.exit_code == 1 and "told 1 (JSON)" in done.stderr
    (message,) = receiver.got
    title = "nightly, night of 2026-03-01: 1 regression in 1 task: a · step, +5.1 %"
    assert message["title"] == title and message["type"] == "failure"
    assert "regressed" in message["message"] and "100" in message["message"]
    assert "s3cr3t" not in done.output and "t0ken" not in done.output


def test_urls_come_from_the_environment_and_the_language_from_the_command(tmp_path: Path, receiver: Receiver) -> None:
    lab = Lab(tmp_path, toml("", job("a")))
    lab.run("--night", "2026-03-01", "--lang", "zh", env={notify.VARIABLE: f"{receiver.url} {receiver.url}"})
    assert [message["title"] for message in receiver.got] == [
        "nightly，2026-03-01 夜间结果: 仍在学习：1 项指标中有 1 项尚不足 5 夜，无法了解其噪声"
    ] * 2


@pytest.mark.parametrize(("when", "messages"), [("always", 1), ("changed", 0), ("regressed", 0)])
def test_a_quiet_night_is_told_to_those_who_want_it(
    tmp_path: Path, receiver: Receiver, when: str, messages: int
) -> None:
    lab = Lab(tmp_path, toml(f'when = "{when}"', job("a")))
    lab.run("--night", "2026-03-01", env={notify.VARIABLE: receiver.url})
    assert len(receiver.got) == messages


@pytest.mark.parametrize("receiver", [2], indirect=True)
def test_what_is_refused_is_tried_again(tmp_path: Path, receiver: Receiver) -> None:
    lab = Lab(tmp_path, toml("tries = 3", job("a")))
    done = lab.run("--night", "2026-03-01", env={notify.VARIABLE: receiver.url})
    assert (receiver.asked, len(receiver.got)) == (3, 1) and "told 1 (JSON)" in done.stderr


@pytest.mark.parametrize("receiver", [9], indirect=True)
def test_what_cannot_be_delivered_is_said_and_changes_nothing(tmp_path: Path, receiver: Receiver) -> None:
    lab = Lab(tmp_path, toml("tries = 2", job("a")))
    urls = f"{receiver.url} json://127.0.0.1:1/s3cr3t-w0rd"
    done = lab.run("--night", "2026-03-01", env={notify.VARIABLE: urls})
    assert done.exit_code == 0 and receiver.asked == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("could not tell")]
    assert [line.split(":")[0] for line in lines] == ["could not tell 1 (JSON)", "could not tell 2 (JSON)"]
    assert "s3cr3t" not in done.output


def test_a_receiver_of_no_known_kind_is_an_error_before_anything_is_measured(
    tmp_path: Path, receiver: Receiver
) -> None:
    lab = Lab(tmp_path, toml("", job("a")))
    urls = f"{receiver.url} nosuch://t0ken-of-ours ://"
    done = lab.run("--night", "2026-03-01", env={notify.VARIABLE: urls})
    assert done.exit_code == 2 and lab.sessions() == []
    assert "2 (nosuch)" in done.stderr and "3 (?)" in done.stderr and "t0ken" not in done.output
    (message,) = receiver.got
    assert "did not begin" in message["message"] and message["type"] == "failure", "those who can be told are told"


def test_who_cannot_begin_tells_it(tmp_path: Path, receiver: Receiver) -> None:
    lab = Lab(tmp_path, toml("", job("a")))
    (lab.store / ".nights").mkdir(parents=True)
    (lab.store / ".nights" / "nightly").write_text("a file where the nights are to be")
    done = lab.run("--night", "2026-03-01", env={notify.VARIABLE: receiver.url})
    assert done.exit_code == 2 and len(receiver.got) == 1


def test_a_store_that_takes_no_files_is_told(tmp_path: Path, receiver: Receiver) -> None:
    lab = Lab(tmp_path, toml("", job("a")))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(made(lab.store))], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a disk")
    try:
        done = lab.run("--night", "2026-03-01", env={notify.VARIABLE: receiver.url})
    finally:
        subprocess.run(["umount", "-l", str(lab.store)], check=True)
    assert done.exit_code == 2 and "ead-only file system" in done.stderr and lab.sessions() == []
    (message,) = receiver.got
    assert "ead-only file system" in message["message"] and message["type"] == "failure"


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_nobody_is_told_where_nobody_is_to_be(tmp_path: Path, receiver: Receiver) -> None:
    lab = Lab(tmp_path, toml("", job("a")))
    lab.run("--night", "2026-03-01", "--no-notify", env={notify.VARIABLE: receiver.url})
    assert receiver.asked == 0


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("dingtalk://t0ken", "DingTalk"), ("feishu://t0ken", "Feishu"), ("lark://t0ken", "Lark"),
        ("wecombot://t0ken", "WeCom"), ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops", "Slack"),
        ("mailtos://user:pass@example.com", "E-Mail"),
    ],
)  # fmt: skip
def test_the_services_people_use_are_known_by_their_url(url: str, service: str) -> None:
    import apprise

    found = apprise.Apprise.instantiate(url)
    assert found is not None and service in str(found.service_name)
