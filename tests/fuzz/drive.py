"""One target under the fuzzer, in a process of its own: `python -m tests.fuzz.drive TARGET SECONDS DIRECTORY SCRATCH`.

What `check` raises is kept (the smallest input of each place it comes from) and the fuzzing goes on; only a crash of
the interpreter, too much memory or a hang end the process. DIRECTORY/corpus grows from run to run.
"""

from __future__ import annotations

import hashlib
import resource
import shutil
import sys
import time
import traceback
from pathlib import Path
from random import Random

import atheris

ROOT = Path(__file__).resolve().parents[2]
#: Processor seconds and resident memory one input may cost.
MOST_S, MOST_MB = 5.0, 512


class TooMuch(Exception):
    """An input that costs more than it may."""


class Findings:
    """Inputs that went wrong, one of each kind."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def keep(self, data: bytes, error: BaseException) -> None:
        """Keep an input unless a smaller one came from the same place."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(ROOT))]
        places = [f"{Path(f.filename).relative_to(ROOT)}:{f.name}:{f.lineno}" for f in frames[-3:]]
        name = hashlib.sha256("\n".join([type(error).__name__, *places]).encode()).hexdigest()[:12]
        kept = self.directory / f"{name}.bin"
        if kept.exists() and kept.stat().st_size <= len(data):
            return
        if not kept.exists():
            said = f"{type(error).__name__}: {str(error)[:300]} in {places[-1:]}"
            print(f"FINDING {name} {said}", file=sys.stderr, flush=True)
        kept.write_bytes(data)
        kept.with_suffix(".txt").write_text("".join(traceback.format_exception(error)))


def main() -> None:
    name, seconds, directory, scratch = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    with atheris.instrument_imports(include=["npulens.ingest", "npulens.app"]):
        from tests.fuzz.targets import target

        this = target(name)
    findings = Findings(directory / "findings")
    draw_from = getattr(this, "mutate", None)

    def one(data: bytes) -> None:
        inside = scratch / "in"
        shutil.rmtree(inside, ignore_errors=True)
        inside.mkdir()
        began, peak = time.process_time(), _peak_mb()
        try:
            this.check(data, inside)
            if time.process_time() - began > MOST_S:
                raise TooMuch(f"{time.process_time() - began:.1f} s")
            if peak <= MOST_MB < _peak_mb():
                raise TooMuch(f"{_peak_mb()} MB, {peak} MB before")
        except Exception as error:
            findings.keep(data, error)

    def changed(data: bytes, most: int, seed: int) -> bytes:
        draw = Random(seed)
        if draw_from is not None and draw.random() < 0.6:
            return bytes(draw_from(data, draw)[:most])
        return bytes(atheris.Mutate(data, most))

    corpus = directory / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in this.seeds():
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    options = [
        f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=60", "-rss_limit_mb=2048", "-max_len=65536",
        "-len_control=0", f"-artifact_prefix={directory}/", str(corpus),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=changed)
    atheris.Fuzz()  # never returns


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
