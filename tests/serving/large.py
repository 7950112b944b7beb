"""An hour of a production service loaded and asked: `python -m tests.serving.large TRACE [--first N]`.

TRACE is Mooncake's conversation_trace.jsonl: when each request came, and its tokens. An engine without a device serves
them in virtual time and leaves the files that vLLM and a client do. What a load of these takes is measured, and what a
question about P99 takes from the command line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from npulens.collectors.serving.engine import Asked, Setup, run
from npulens.collectors.serving.writers import write
from npulens.ingest.store import runs

#: An engine that keeps up with the trace: 50,000 prompt tokens a second, and room for all that come.
ENGINE = Setup(
    base_ns=1e7, context_ns=0.0, context_token_ns=1.5e4, decoder_ns=5e4, budget=8192, slots=256, blocks=200_000,
)  # fmt: skip


def asked(trace: Path, first: int | None) -> list[Asked]:
    """The requests of a trace, in order of time."""
    rows = [json.loads(line) for line in trace.read_text().splitlines()[:first]]
    return [
        Asked(f"r{at:05}", int(row["timestamp"]) * 1_000_000, int(row["input_length"]), int(row["output_length"]))
        for at, row in enumerate(rows)
    ]


def _timed(words: list[str]) -> tuple[float, float]:
    """Seconds that a command takes, by the wall and of processors."""
    begun, used = time.perf_counter(), _used()
    subprocess.run([Path(sys.executable).with_name("npulens"), *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun, _used() - used


def _used() -> float:
    said = resource.getrusage(resource.RUSAGE_CHILDREN)
    return said.ru_utime + said.ru_stime


def main() -> None:
    about = argparse.ArgumentParser(prog="python -m tests.serving.large")
    about.add_argument("trace", type=Path)
    about.add_argument("--first", type=int, help="only so many requests")
    options = about.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        served = run(asked(options.trace, options.first), ENGINE, 22)
        write(served, home / "files")
        size = sum(path.stat().st_size for path in (home / "files").iterdir())
        print(f"{len(served.requests):,} requests, {sum(len(one.tokens_ns) for one in served.requests):,} tokens, "
              f"{len(served.iterations):,} iterations, {size / 1e6:,.0f} MB")  # fmt: skip
        del served
        store = ["--store", str(home / "store")]
        load, used = _timed(["load", str(home / "files"), *store])
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        (found,) = runs.runs(home / "store")
        with runs.open_run(home / "store", found.run_id) as con:
            ((members,),) = con.execute("SELECT count(*) FROM member").fetchall()
        kept = sum(path.stat().st_size for path in (home / "store" / found.run_id).iterdir())
        print(f"load {load:.1f} s, {used:.1f} s of processors, {most:,.0f} MB at most, {members:,} members, "
              f"{kept / 1e6:,.0f} MB in the store")  # fmt: skip
        seconds = sorted(_timed(["requests", found.run_id, "--slow", "ttft", *store]) for _ in range(5))
        wall, used = seconds[2]
        print(f"npulens requests --slow ttft: {wall:.2f} s, {used:.2f} s of processors (median of 5), "
              f"load average {os.getloadavg()[0]:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
