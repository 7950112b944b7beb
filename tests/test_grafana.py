"""Grafana's dashboard: every panel asks a real Prometheus for what the server's metrics hold."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import team_made

from npulens.app.team import config, keeping, metrics

BOARD = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "npulens.json"
GRID = 24  # columns of Grafana's page


def asked() -> list[str]:
    """What the panels ask, with Grafana's variables filled in."""
    board = json.loads(BOARD.read_text())
    every = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [text.replace("$__rate_interval", "20s").replace("$instance", ".*") for text in every]


def test_the_dashboard_is_whole() -> None:
    board = json.loads(BOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) and board["uid"] == "npulens"
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= GRID
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not cells & taken, f"{panel['title']} lies on another panel"
        taken |= cells
    assert not any("$" in text for text in asked())


class Metrics(BaseHTTPRequestHandler):
    """What the server's route answers, made by the same functions."""

    team: config.Team

    def do_GET(self) -> None:
        metrics.answered("http", 200, 0.03)
        metrics.refused("not_your_project")
        with metrics.open_of("http"):
            held = {"loads_waiting": ("", {"": 0.0}), "sessions": ("", {"": 2.0})}
            body = metrics.text({**keeping.gauges(self.team), **held}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    """A real one that scrapes the metrics of a team every second."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus here: apt-get install prometheus")
    Metrics.team = config.read(team_made.made(tmp_path / "team"))
    with HTTPServer(("127.0.0.1", 0), Metrics) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        scrape = {"job_name": "npulens", "static_configs": [{"targets": [f"127.0.0.1:{server.server_port}"]}]}
        (tmp_path / "p.yml").write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [f"--config.file={tmp_path / 'p.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
                 f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]  # fmt: skip
        process = subprocess.Popen([program, *words])
        try:
            yield f"http://127.0.0.1:{port}/api/v1/query?query="
        finally:
            process.terminate()
            process.wait(20)
            server.shutdown()


def test_every_panel_shows_what_a_real_prometheus_scraped(prometheus: str) -> None:
    left, until = asked(), time.monotonic() + 60
    while left and time.monotonic() < until:
        left = [text for text in left if not _answer(prometheus, text)]
        time.sleep(0.5)
    assert left == [], "these panels stay empty"
    assert [float(row["value"][1]) for row in _answer(prometheus, "sum(npulens_sessions)")] == [2.0]
    projects = {row["metric"]["project"] for row in _answer(prometheus, "npulens_runs")}
    assert projects == {"red", "blue"}


def _answer(place: str, text: str) -> list[Any]:
    try:
        with urllib.request.urlopen(place + urllib.parse.quote(text), timeout=10) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except OSError:
        return []
