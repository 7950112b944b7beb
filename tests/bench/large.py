"""A run of ten million spans, which benchmarks of pages share: made once, or one that is there already."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from npulens.ingest.store import runs
from tests.bench.captures import CACHE, ROOT

TOOL = [sys.executable, "-m", "npulens.app.cli"]
LABEL = "roofs"


def options(parser: argparse.ArgumentParser) -> None:
    """Which run is meant."""
    parser.add_argument("--replicate", type=int, default=160, help="160 make ten million spans")
    parser.add_argument("--store", type=Path, help="a store that is there already")
    parser.add_argument("--run", default="", help="its run")


def chosen(told: argparse.Namespace) -> tuple[Path, str, int]:
    """The store, the run in it, and how many spans it has."""
    if told.store is None:
        store, run = made(told.replicate)
    else:
        store, run = told.store, runs.resolve(told.store, told.run).run_id
    con = runs.open_run(store, run)
    ((spans,),) = con.execute("SELECT count(*) FROM span").fetchall()
    con.close()
    return store, run, spans


def made(replicate: int) -> tuple[Path, str]:
    """A store with a job of 8 ranks whose 5 steps are there so many times, and its run."""
    store, capture = CACHE / f"store-{LABEL}-{replicate}", CACHE / f"{LABEL}-{replicate}"
    if not store.exists():
        part = store.with_name(f"part-{store.name}")
        for place in (part, capture):
            shutil.rmtree(place, ignore_errors=True)
        job = ["aicpu,late_rank", "--ranks", "8", "--steps", "5", "--replicate", str(replicate)]
        subprocess.run([*TOOL, "simulate", *job, "-o", str(capture)], cwd=ROOT, check=True, stdout=sys.stderr)
        load = ["load", str(capture / "capture"), "--store", str(part), "--label", LABEL]
        subprocess.run([*TOOL, *load], cwd=ROOT, check=True, stdout=sys.stderr)
        shutil.rmtree(capture)
        part.rename(store)
    return store, runs.resolve(store, LABEL).run_id
