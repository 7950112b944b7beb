"""Many people on one dashboard: how long a rerun takes and what a session costs.

    python -m tests.bench.users [--users 20] [--think 5] [--seconds 120] [--servers 2] [--run CAPTURE]
    python -m tests.bench.users --users 50 --servers 1 --arrive 3 --mb 200       captures come in meanwhile
    python -m tests.bench.users --users 3 --think 10 --soak 120                  two hours; 480 are eight

Every user is a websocket session that speaks Streamlit's own protocol, as a browser does: it opens a page, waits until
the script has finished, thinks, goes to the next page. Errors are exceptions on the page and sessions that broke. An
8-rank job with faults is simulated and loaded first, and every page is opened once before anything is counted: figures
are then cached, as they are after the first person of the morning.

Where captures arrive and in a soak, people look at every page, at any run that the store holds by then. In a soak they
leave after ten pages and somebody else comes. A small capture arrives every 100 s; of more than 20 runs the oldest is
deleted. In the first third they think a tenth as long, which fills the caches. Every five minutes all rest. When
every page is drawn and every load has ended, one visitor opens the first page of each run and then every page of the
first run. So the caches hold the same before each sample. A minute later, when free memory has gone back, what is
held is written: memory (each shared page by its share), that of it which is no page of a file, open files and threads
of the server and of all it started. Then what the server says that it holds: MB of its libraries' heap and thousands
of Python's blocks. In the end it says the slope of each by least squares after that third, with its standard error.
It ends with 1 if what is no page of a file grows by more than a MB an hour: what libraries take depends on whatever
else runs here.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import pkgutil
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from npulens.app import pages
from npulens.app.intake.invitations import TOKEN_HEADER
from npulens.ingest.store import runs
from tests.bench import captures
from tests.bench.captures import CACHE, ROOT
from tests.bench.measure import proportional_bytes, tree, written_bytes

PAGES = ("", "Timeline", "Kernels")
#: What a menu offers to somebody who has no account.
EVERY_PAGE = ("", *(
    module.name.title().replace("_", "-") for module in pkgutil.iter_modules(pages.__path__)
    if module.name not in ("workspace", "team")
))  # fmt: skip
PATIENCE_S = 60
VISIT = 10  # pages until somebody leaves
HURRY = 10  # times as fast while a soak fills its caches
KINETO_BYTES = 240  # of an event, about
REST_EACH_S, DRAWN_S, REST_S = 300, 20, 60
SLOWEST = 12  # reruns that are named
ARRIVES_EACH_S = 100  # a small capture in a soak
RUNS = 20  # what a soak's store keeps
MOST_MB_AN_HOUR = 1.0


@dataclass
class Seen:
    """What all users met."""

    reruns: list[float] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)  # of each rerun: which, of which run, and when it began
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Habit:
    """What people look at, and for how long."""

    think: float
    pages: tuple[str, ...] = PAGES
    visit: int = 0  # pages until somebody leaves and another comes; 0: nobody leaves
    store: Path | None = None  # any run that it holds by then is looked at
    awake: threading.Event | None = None  # while it is not set, nobody opens a page
    hurry_until: float = 0.0  # of the monotonic clock: until then people think a tenth as long


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


async def user(port: int, run: str, until: float, habit: Habit, seen: Seen, number: int) -> None:
    """One person after the other: opens pages and reads them."""
    draw = random.Random(number)
    await asyncio.sleep(draw.uniform(0, habit.think))
    place = number
    while time.monotonic() < until:
        try:
            place = await _visit(port, run, until, habit, seen, draw, place)
        except (OSError, TimeoutError, websockets.WebSocketException) as error:
            seen.errors.append(f"{type(error).__name__}: {error}")
            await asyncio.sleep(habit.think)


async def alike(port: int, run: str, store: Path, seen: Seen) -> None:
    """One visitor opens the first page of each run and every page of one, always in the same order."""
    others = sorted(set(_held(store)) - {run}, key=lambda held: (store / held).stat().st_mtime)
    try:
        for looked_at, pages in (*((other, EVERY_PAGE[:1]) for other in others), (run, EVERY_PAGE)):
            habit = Habit(0.1, pages, len(pages))
            await _visit(port, looked_at, time.monotonic() + PATIENCE_S, habit, seen, random.Random(0), 0)
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        seen.errors.append(f"{type(error).__name__}: {error}")


async def _visit(
    port: int, run: str, until: float, habit: Habit, seen: Seen, draw: random.Random, place: int
) -> int:  # fmt: skip
    """From the first page to the last; which page comes next."""
    async with websockets.connect(
        f"ws://127.0.0.1:{port}/_stcore/stream", subprotocols=["streamlit"], max_size=None
    ) as link:
        last = place + habit.visit if habit.visit else sys.maxsize
        while time.monotonic() < until and place < last:
            while habit.awake is not None and not habit.awake.is_set():
                await asyncio.sleep(1)
            looked_at = run if habit.store is None else draw.choice(_held(habit.store))
            began, page = time.monotonic(), habit.pages[place % len(habit.pages)]
            await link.send(wish(page, looked_at))
            await finished(link, seen)
            seen.reruns.append(time.monotonic() - began)
            seen.pages.append(f"{page or 'Workspace'} of {looked_at[:6]}, {until - began:.0f} s before the end")
            place += 1
            think = habit.think / (HURRY if time.monotonic() < habit.hurry_until else 1)
            await asyncio.sleep(min(draw.expovariate(1 / think), max(0.0, until - time.monotonic())))
    return place


def _held(store: Path) -> list[str]:
    return sorted(entry.name for entry in store.iterdir() if runs.is_id(entry.name))


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


async def together(
    ports: list[int], run: str, users: int, think: float, seconds: float, habit: Habit | None = None
) -> Seen:  # fmt: skip
    """So many people for so long; without a habit they look at three pages of one run."""
    seen, until = Seen(), time.monotonic() + seconds
    habit = habit or Habit(think)
    await asyncio.gather(*(user(ports[i % len(ports)], run, until, habit, seen, i) for i in range(users)))
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


@dataclass(frozen=True)
class Sample:
    """What a server and all it has started hold."""

    hour: float
    mb: float
    own: float  # MB of the server alone
    written: float  # MB that are no pages of files
    own_written: float
    files: float
    threads: float
    heap: float = 0  # MB that its libraries hold of the C library, in a soak
    blocks: float = 0  # thousands of Python's own blocks in use, in a soak


def sample(began: float, root: int, port: int = 0) -> Sample:
    found = tree(root)
    mb = sum(map(proportional_bytes, found)) / 1e6
    files, threads = (sum(_entries(pid, folder) for pid in found) for folder in ("fd", "task"))
    written = sum(map(written_bytes, found)) / 1e6
    own, own_written = proportional_bytes(root) / 1e6, written_bytes(root) / 1e6
    heap, blocks = held(port) if port else (0, 0)
    return Sample((time.monotonic() - began) / 3600, mb, own, written, own_written, files, threads, heap, blocks)


def held(port: int) -> tuple[float, float]:
    """What the server says it holds: what it has freed does not count, wherever it lies."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = (line.split() for line in answer.read().decode().splitlines())
    told = {words[0]: float(words[1]) for words in lines if len(words) == 2}
    return told["npulens_heap_bytes"] / 1e6, told["npulens_python_blocks"] / 1e3


def _entries(pid: int, folder: str) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/{folder}"))
    except OSError:  # it ended meanwhile
        return 0


def slope(samples: list[Sample], what: str) -> tuple[float, float]:
    """By least squares: how much more an hour, and the standard error of that."""
    hours, held = ([getattr(each, name) for each in samples] for name in ("hour", what))
    line = statistics.linear_regression(hours, held)
    beside = sum((y - line.intercept - line.slope * x) ** 2 for x, y in zip(hours, held, strict=True))
    spread = sum((x - statistics.fmean(hours)) ** 2 for x in hours)
    return line.slope, (beside / (len(hours) - 2) / spread) ** 0.5


def watched(root: int, stopped: threading.Event, samples: list[Sample]) -> None:
    """A sample a second until it is told to stop."""
    began = time.monotonic()
    while not stopped.wait(1):
        samples.append(sample(began, root))


def rested(
    root: int, port: int, run: str, store: Path, stopped: threading.Event, awake: threading.Event,
    samples: list[Sample], seen: Seen,
) -> None:  # fmt: skip
    """A sample at the end of every rest: a page that is drawn, a load that runs, other things looked at: no growth."""
    began = time.monotonic()
    while not stopped.wait(REST_EACH_S - DRAWN_S - REST_S):
        awake.clear()
        if not stopped.wait(DRAWN_S):
            asyncio.run(alike(port, run, store, seen))
        if not stopped.wait(REST_S):
            samples.append(sample(began, root, port))
            print(*(f"{each:.4g}" for each in astuple(samples[-1])), sep="\t", flush=True)
        awake.set()
    awake.set()


def send(port: int, store: Path, capture: Path) -> str:
    """A capture by the route that `curl -T` takes: what the server answers."""
    said = subprocess.run([sys.executable, "-m", "npulens.app.cli", "token", "--store", str(store), "--json"], cwd=ROOT,
                          check=True, capture_output=True, text=True)  # fmt: skip
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    with capture.open("rb") as body:
        link.request("PUT", f"/api/upload/capture/{capture.name}", body, {
            "Content-Length": str(capture.stat().st_size), TOKEN_HEADER: json.loads(said.stdout)["token"],
        })  # fmt: skip
        answer = link.getresponse()
        text = answer.read().decode(errors="replace")
    link.close()
    return "" if answer.status == 200 else f"upload: {answer.status} {text[:200]}"


def capture_of(mb: float, number: int) -> Path:
    """A trace of about that size, made once; another number is another run."""
    events = round(mb * 1e6 / KINETO_BYTES)
    return captures.made(CACHE / f"arrives_{mb:g}" / f"{number}.json", "write_kineto_file", events, seed=number)


def arrives(port: int, store: Path, capture: Path, seen: Seen) -> None:
    """One capture: sent, loaded, answered."""
    began = time.monotonic()
    if problem := send(port, store, capture):
        seen.errors.append(problem)
    print(f"{capture.stat().st_size / 1e6:.0f} MB arrived and loaded after {time.monotonic() - began:.0f} s",
          file=sys.stderr, flush=True)  # fmt: skip


def renewed(port: int, store: Path, stopped: threading.Event, awake: threading.Event, seen: Seen) -> None:
    """A small capture now and then, and the oldest run goes."""
    brought: list[str] = []
    while not stopped.wait(ARRIVES_EACH_S):
        awake.wait()
        before = set(_held(store))
        arrives(port, store, capture_of(1, len(brought)), seen)
        brought += set(_held(store)) - before
        if len(brought) >= RUNS:
            runs.remove(store, brought[-RUNS])


def soak(process: subprocess.Popen[bytes], port: int, run: str, store: Path, options: argparse.Namespace) -> bool:
    """Few people for hours: whether the server stays as large as it is."""
    seconds, stopped, awake = options.soak * 60, threading.Event(), threading.Event()
    samples, brought = list[Sample](), Seen()
    awake.set()
    print("hour\tMB\tof the server\twritten\tof the server\tfiles\tthreads\theap\tblocks", flush=True)
    beside = [
        threading.Thread(target=rested, args=(process.pid, port, run, store, stopped, awake, samples, brought)),
        threading.Thread(target=renewed, args=(port, store, stopped, awake, brought)),
    ]
    for thread in beside:
        thread.start()
    habit = Habit(options.think, EVERY_PAGE, VISIT, store, awake, time.monotonic() + seconds / 3)
    seen = asyncio.run(together([port], run, options.users, options.think, seconds, habit))
    stopped.set()
    for thread in beside:
        thread.join()
    seen.errors += brought.errors
    told(seen, f"{options.users} users for {options.soak:g} min, {options.think:g} s to think, every page")
    counted = [each for each in samples if each.hour >= samples[-1].hour / 3]
    for what in ("mb", "own", "written", "own_written", "files", "threads", "heap", "blocks"):
        grows, error = slope(counted, what)
        first, last = getattr(counted[0], what), getattr(counted[-1], what)
        print(f"{what}: {grows:+.2f} an hour, standard error {error:.2f}; from {first:.0f} to {last:.0f}")
    return not seen.errors and slope(counted, "written")[0] <= MOST_MB_AN_HOUR


def told(seen: Seen, who: str) -> None:
    ranked = sorted(seen.reruns)
    print(f"{who}, {len(ranked)} reruns")
    print(f"rerun: median {statistics.median(ranked):.2f} s, p95 {ranked[int(0.95 * len(ranked))]:.2f} s, "
          f"largest {ranked[-1]:.2f} s")  # fmt: skip
    slowest = sorted(zip(seen.reruns, seen.pages, strict=True), reverse=True)[:SLOWEST]
    print(*(f"  {seconds:6.2f} s  {page}" for seconds, page in slowest), sep="\n")
    print(f"errors: {len(seen.errors)}", *sorted(set(seen.errors))[:5], sep="\n  ")


def beside_captures(
    process: subprocess.Popen[bytes], port: int, run: str, store: Path, options: argparse.Namespace
) -> None:
    """Many people while captures arrive: how long they wait, what the server takes, what it gives back in a minute."""
    coming = [capture_of(options.mb, number) for number in range(options.arrive)]
    habit = Habit(options.think, EVERY_PAGE, 0, store)
    asyncio.run(together([port], run, 1, 0.1, 60, habit))  # every page was open once
    stopped, samples, seen = threading.Event(), list[Sample](), Seen()
    before = sample(0, process.pid)
    beside = [threading.Thread(target=watched, args=(process.pid, stopped, samples))]
    beside += [threading.Timer(10, arrives, (port, store, capture, seen)) for capture in coming]
    for thread in beside:
        thread.start()
    people = asyncio.run(together([port], run, options.users, options.think, options.seconds, habit))
    for thread in beside[1:]:
        thread.join()
    time.sleep(60)
    stopped.set()
    beside[0].join()
    people.errors += seen.errors
    told(people, f"{options.users} users, {options.think:g} s to think, {options.arrive} captures of {options.mb:g} MB")
    for what, who in (("own", "the server"), ("mb", "the server and its children")):
        first, *every = (getattr(each, what) for each in (before, *samples))
        print(f"memory of {who}: {first:.0f} MB before, {max(every):.0f} MB at most, "
              f"{every[-1]:.0f} MB a minute after everybody left")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--think", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--servers", type=int, default=2, help="one where captures arrive and in a soak")
    parser.add_argument("--run", type=Path, help="a capture to load instead of the simulated one")
    parser.add_argument("--arrive", type=int, default=0, help="captures that come in meanwhile")
    parser.add_argument("--mb", type=float, default=200.0, help="how large each of them is")
    parser.add_argument("--soak", type=float, default=0.0, help="minutes")
    options = parser.parse_args()
    if 0 < options.soak < 30:
        parser.error("a soak of less than half an hour says nothing")
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store"
        run = loaded(store, options.run)
        alone = bool(options.arrive or options.soak)
        with servers(store, 1 if alone else options.servers) as started:
            if options.soak:
                sys.exit(0 if soak(*started[0], run, store, options) else 1)
            elif options.arrive:
                beside_captures(*started[0], run, store, options)
            else:
                quiet(started, run, options)


def quiet(started: list[tuple[subprocess.Popen[bytes], int]], run: str, options: argparse.Namespace) -> None:
    """Many people and nothing beside them."""
    ports = [port for _, port in started]
    asyncio.run(together(ports, run, len(ports), 0.5, 30))  # the first of the morning
    before = sum(proportional_bytes(process.pid) for process, _ in started)
    seen = asyncio.run(together(ports, run, options.users, options.think, options.seconds))
    after = sum(proportional_bytes(process.pid) for process, _ in started)
    told(seen, f"{options.users} users, {options.think:g} s to think, {options.servers} servers")
    print(f"memory: {(after - before) / options.users / 1e6:.1f} MB a session ({before / 1e6:.0f} MB before)")


if __name__ == "__main__":
    main()
