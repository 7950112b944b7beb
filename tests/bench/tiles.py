"""The timeline's data: what the level-of-detail file costs, and how long a tile takes at every zoom.

    python -m tests.bench.tiles [--store DIR --run RUN] [--requests N] [--pixels N] [--tracks N]

Without a store the run is made: a simulated job of 8 ranks, repeated. Windows lie at random places, tracks are picked
at random; every figure is of one whole answer, from the question to the bytes.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from npulens.analysis.timeline import detail, find, summary
from npulens.analysis.timeline.view import view
from npulens.analysis.timeline.wanted import Text, Wanted
from npulens.app.timeline import opened, wire
from npulens.app.timeline.answers import as_tile
from npulens.app.timeline.opened import Opened
from npulens.ingest.store import lod, runs
from tests.bench.captures import CACHE, ROOT

HEAD = " | median ms | p95 ms | most ms | CPU median ms | CPU p95 ms | marks | kB |\n|---|--:|--:|--:|--:|--:|--:|--:|"
#: Shares of the run that a window shows.
ZOOMS = (1.0, 0.3, 0.1, 0.03, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7)
SPANS_PER_REPEAT = 62_300


@dataclass(frozen=True)
class Told:
    """Answers of one kind: milliseconds each, and marks and bytes of the largest."""

    ms: list[float]
    cpu_ms: list[float]
    marks: int
    bytes: int


def made(spans: int) -> tuple[Path, str]:
    """A store with a simulated run of about so many spans."""
    place, label = CACHE / "timeline", f"tiles-{spans}"
    if label not in {run.label for run in runs.runs(place)}:
        home = CACHE / f"tiles_{spans}"
        tool = [sys.executable, "-m", "npulens.app.cli"]
        if not home.exists():
            repeat = str(max(1, spans // SPANS_PER_REPEAT))
            options = ["--ranks", "8", "--steps", "5", "--replicate", repeat, "-o", str(home)]
            subprocess.run([*tool, "simulate", "aicpu,late_rank", *options], cwd=ROOT, check=True, stdout=sys.stderr)
        load = [*tool, "load", str(home / "capture"), "--store", str(place), "--label", label]
        subprocess.run(load, cwd=ROOT, check=True, stdout=sys.stderr)
    return place, label


def built(place: Path, run_id: str) -> None:
    """Builds the file anew, in a process of its own, and prints what that costs."""
    lod.place(place, run_id).unlink(missing_ok=True)
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    program = (
        "import sys; from pathlib import Path; from npulens.ingest.store import lod; "
        "lod.build(Path(sys.argv[1]), sys.argv[2])"
    )
    subprocess.run([sys.executable, "-c", program, place, run_id], cwd=ROOT, check=True)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = lod.place(place, run_id).stat().st_size
    parquet = sum(path.stat().st_size for path in (place / run_id).iterdir())
    print(f"level-of-detail file: {wall:.1f} s wall, {cpu:.1f} s CPU, peak {after.ru_maxrss / 1024:,.0f} MB, "
          f"{size / 1e6:,.0f} MB on disk (the run's Parquet: {parquet / 1e6:,.0f} MB)\n")  # fmt: skip


def windows(run: Opened, zoom: float, count: int, pick: random.Random) -> Iterator[tuple[int, int]]:
    length = max(1, round(run.layout.end * zoom))
    for _ in range(count):
        begin = pick.randrange(max(1, run.layout.end - length + 1))
        yield begin, begin + length


def tiles(run: Opened, zoom: float, tracks: int, options: argparse.Namespace, pick: random.Random) -> Told:
    every = [track.id for track in run.layout.tracks]
    told = Told([], [], 0, 0)
    for begin, end in windows(run, zoom, options.requests, pick):
        chosen = pick.sample(every, min(tracks, len(every)))
        start, cpu = time.perf_counter(), time.process_time()
        with run.lod.cursor() as con:
            found = view(con, run.how, run.pieces(), begin, end, options.pixels, chosen, wire.LONGEST_NAME)
        data = as_tile(run, begin, end, found)
        told.ms.append(1e3 * (time.perf_counter() - start))
        told.cpu_ms.append(1e3 * (time.process_time() - cpu))
        told = Told(
            told.ms, told.cpu_ms, max(told.marks, len(found.spans.ts) + len(found.cells.ts)), max(told.bytes, len(data))
        )
    return told


def high(ms: list[float]) -> float:
    """The 95th of a hundred."""
    return sorted(ms)[min(len(ms) - 1, round(0.95 * len(ms)))]


def line(name: str, told: Told) -> None:
    wall, cpu = (f"{statistics.median(ms):.1f} | {high(ms):.1f}" for ms in (told.ms, told.cpu_ms))
    print(f"| {name} | {wall} | {max(told.ms):.1f} | {cpu} | {told.marks:,} | {told.bytes / 1e3:,.0f} |")
    sys.stdout.flush()


def others(run: Opened, options: argparse.Namespace, pick: random.Random) -> None:
    """The other questions, over the whole run: the worst of each."""
    print(f"\n| question{HEAD}")
    track = max(run.layout.tracks, key=lambda each: each.spans)
    every = [each.id for each in run.layout.tracks if each.id >= 0]
    with run.lod.cursor() as con, run.run.cursor() as tables:
        ids = [row[0] for row in con.execute("SELECT span_id FROM span USING SAMPLE 20").fetchall()]
        asked = {
            "details of a span": lambda: detail.detail(tables, pick.choice(ids)),
            "search": lambda: find.search(con, Wanted((Text(("matmul",)),)), (), 200, 0),
            "next span of a lane": lambda: find.near(con, track.id, 0, pick.randrange(run.layout.end), None, True),
            "summary of everything": lambda: summary.summary(con, run.how, 0, run.layout.end, every),
            "summary of one hundredth": lambda: summary.summary(con, run.how, 0, run.layout.end // 100, every),
        }
        for name, ask in asked.items():
            told = Told([], [], 0, 0)
            for _ in range(5):
                start, cpu = time.perf_counter(), time.process_time()
                ask()
                told.ms.append(1e3 * (time.perf_counter() - start))
                told.cpu_ms.append(1e3 * (time.process_time() - cpu))
            line(name, told)


def report(place: Path, name: str, options: argparse.Namespace) -> None:
    """The whole part, as Markdown."""
    run_id = runs.resolve(place, name).run_id
    built(place, run_id)
    run = opened.opened(place, run_id)
    start = time.perf_counter()
    if not options.no_causes:
        run.causes.result()
        print(f"causes of the gaps: {time.perf_counter() - start:.1f} s, behind the first tiles\n")
    spans, tracks = sum(track.spans for track in run.layout.tracks), len(run.layout.tracks)
    print(f"{spans:,} spans, {tracks} tracks, {options.pixels} pixels, {options.requests} tiles a line\n")
    print(f"| share of the run, tracks{HEAD}")
    pick = random.Random(0)
    for chosen in (options.tracks, tracks):
        for zoom in ZOOMS:
            line(f"{zoom:g}, {chosen}", tiles(run, zoom, chosen, options, pick))
    others(run, options, pick)
    print(f"\npeak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def part(events: int, requests: int = 40) -> None:
    """What `python -m tests.bench` prints of the timeline's data."""
    place, name = made(events)
    print(f"\n## Tiles of the timeline, {events:,} spans\n")
    report(place, name, argparse.Namespace(requests=requests, pixels=2_000, tracks=40, no_causes=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, help="spans of the run that is made")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--run", default="")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--pixels", type=int, default=2_000)
    parser.add_argument("--tracks", type=int, default=40, help="tracks on a screen")
    parser.add_argument("--no-causes", action="store_true")
    options = parser.parse_args()
    place, name = (options.store, options.run) if options.store else made(options.events)
    report(place, name, options)


if __name__ == "__main__":
    main()
