"""Many people on one dashboard: how long a rerun takes and what a session costs.

    python -m tests.bench.users [--users 20] [--think 5] [--seconds 120] [--servers 2] [--run CAPTURE]

Every user is a websocket session that speaks Streamlit's own protocol, as a browser does: it opens a page, waits until
the script has finished, thinks, goes to the next page. Errors are exceptions on the page and sessions that broke. An
8-rank job with faults is simulated and loaded first, and every page is opened once before anything is counted: figures
are then cached, as they are after the first person of the morning.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.bench.captures import ROOT
from tests.bench.measure import proportional_bytes

PAGES = ("", "Timeline", "Kernels")
PATIENCE_S = 60


@dataclass
class Seen:
    """What all users met."""

    reruns: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def wish(page: str, run: str) -> bytes:
    """What a browser sends when somebody opens a page."""
    message = BackMsg()
    message.rerun_script.query_string = f"lang=en&run={run}"
    message.rerun_script.page_name = page
    return bytes(message.SerializeToString())


async def finished(link: websockets.ClientConnection, seen: Seen) -> None:
    """Until the script of the page has ended; a rerun that a fragment or st.rerun asks for belongs to it."""
    while True:
        message = ForwardMsg.FromString(await asyncio.wait_for(link.recv(decode=False), PATIENCE_S))
        kind = message.WhichOneof("type")
        if kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
            seen.errors.append(message.delta.new_element.exception.message[:200])
        if kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            return


async def user(port: int, run: str, until: float, think: float, seen: Seen, number: int) -> None:
    """One person: opens pages and reads them."""
    draw = random.Random(number)
    await asyncio.sleep(draw.uniform(0, think))
    try:
        async with websockets.connect(
            f"ws://127.0.0.1:{port}/_stcore/stream", subprotocols=["streamlit"], max_size=None
        ) as link:
            place = number
            while time.monotonic() < until:
                began = time.monotonic()
                await link.send(wish(PAGES[place % len(PAGES)], run))
                await finished(link, seen)
                seen.reruns.append(time.monotonic() - began)
                place += 1
                await asyncio.sleep(draw.expovariate(1 / think))
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        seen.errors.append(f"{type(error).__name__}: {error}")


@contextmanager
def servers(store: Path, count: int) -> Iterator[list[tuple[subprocess.Popen[bytes], int]]]:
    started = []
    for _ in range(count):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port),
                   "--server.address", "127.0.0.1", "--server.fileWatcherType", "none"]  # fmt: skip
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "NPULENS_STORE": str(store)},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        started.append((process, port))
    try:
        for _, port in started:
            _wait(f"http://127.0.0.1:{port}/_stcore/health")
        yield started
    finally:
        for process, _ in started:
            process.terminate()
            process.wait(20)


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"no server at {url}")


async def together(ports: list[int], run: str, users: int, think: float, seconds: float) -> Seen:
    seen, until = Seen(), time.monotonic() + seconds
    await asyncio.gather(*(user(ports[i % len(ports)], run, until, think, seen, i) for i in range(users)))
    return seen


def loaded(store: Path, capture: Path | None) -> str:
    """The run that everybody looks at."""
    tool = [sys.executable, "-m", "npulens.app.cli"]
    if capture is None:
        capture = store.parent / "job"
        subprocess.run([*tool, "simulate", "late_rank,dataloader,aicpu", "--seed", "8", "--ranks", "8", "--steps", "5",
                        "-o", str(capture)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        capture = capture / "capture"
    subprocess.run([*tool, "load", str(capture), "--store", str(store), "--label", "job"], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    return next(entry.name for entry in store.iterdir() if (entry / "manifest.json").is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--think", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--run", type=Path, help="a capture to load instead of the simulated one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store"
        run = loaded(store, options.run)
        with servers(store, options.servers) as started:
            ports = [port for _, port in started]
            asyncio.run(together(ports, run, len(ports), 0.5, 30))  # the first of the morning
            before = sum(proportional_bytes(process.pid) for process, _ in started)
            seen = asyncio.run(together(ports, run, options.users, options.think, options.seconds))
            after = sum(proportional_bytes(process.pid) for process, _ in started)
    ranked = sorted(seen.reruns)
    print(f"{options.users} users, {options.think:g} s to think, {options.servers} servers, {len(ranked)} reruns")
    print(f"rerun: median {statistics.median(ranked):.2f} s, p95 {ranked[int(0.95 * len(ranked))]:.2f} s, "
          f"largest {ranked[-1]:.2f} s")  # fmt: skip
    print(f"errors: {len(seen.errors)}", *sorted(set(seen.errors))[:5], sep="\n  ")
    print(f"memory: {(after - before) / options.users / 1e6:.1f} MB a session ({before / 1e6:.0f} MB before)")


if __name__ == "__main__":
    main()
