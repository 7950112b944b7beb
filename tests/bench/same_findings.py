"""Whether two commits say the same of every run: findings, numbers, evidence, outcomes and quality, to the nanosecond.

    python -m tests.bench.same_findings BASE [HEAD] [--cases 60] [--seed 7] [--only WORD] [--jobs 1]

HEAD is the working tree unless a commit is named. Runs are the samples, the real captures beside the repository (where
they are) and simulated jobs with planted faults in every dialect, half of which have several ranks. They are loaded
once, by the working tree, and kept in .bench. What a commit said is kept too. Prints every difference; exits with 1 if
there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from npulens import ingest
from npulens.collectors.planting.plant import plan, write
from npulens.collectors.simulator.dialect import DIALECTS
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs as stores
from tests.bench.captures import CACHE, ROOT
from tests.score.__main__ import tasks

HOME = CACHE / "same_findings"
ROOMS = ("analysis", "app", "collectors", "ingest")
SHARED = tuple(ROOT.parent / "shared" / name for name in ("traces", "traces_2", "traces_serving"))
PROGRAM = ROOT / "tests" / "bench" / "programs" / "findings.py"


def stored(cases: int, seed: int) -> dict[str, list[str]]:
    """The store's runs by where they come from; what is missing is loaded."""
    HOME.mkdir(parents=True, exist_ok=True)
    place = HOME / "runs.json"
    known: dict[str, list[str]] = json.loads(place.read_text()) if place.exists() else {}
    captures = {f"sample {path.name}": path for path in sorted((ROOT / "sample_traces").iterdir()) if path.is_dir()}
    captures |= {f"shared {path.name}": path for path in SHARED if path.is_dir()}
    for name, path in captures.items():
        if name not in known and not path.name.startswith("_"):
            known[name] = _loaded(path)
    for task in tasks(cases, seed, False, tuple(DIALECTS)):
        name = f"simulated {task.name}"
        if name not in known:
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    write(plan(task.names, task.seed, task.options), Path(scratch))
                except ValueError:  # no job has all these faults
                    known[name] = []
                    continue
                known[name] = _loaded(Path(scratch))
        place.write_text(json.dumps(known))
    place.write_text(json.dumps(known))
    wanted = {*captures, *(f"simulated {task.name}" for task in tasks(cases, seed, False, tuple(DIALECTS)))}
    return {name: runs for name, runs in known.items() if name in wanted}


def _loaded(path: Path) -> list[str]:
    print(f"loading {path.name}", file=sys.stderr, flush=True)
    try:
        report = ingest.load(path, HOME / "store")
    except IngestError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return []
    return [run.run_id for run in report.runs if run.run_id is not None]


def tree(commit: str | None, scratch: Path) -> Path:
    """A folder for PYTHONPATH that holds a commit, or the working tree, as the package `npulens`."""
    source = ROOT
    if commit is not None:
        source = scratch / "source"
        subprocess.run(["git", "worktree", "add", "--detach", "-f", source, commit], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        for built in ROOT.glob("*/*/*.abi3.so"):
            code = next(built.parent.glob(f"{built.name.split('.')[0]}*.c"), None)
            there = source / built.relative_to(ROOT)
            if there.parent.is_dir() and code is not None and _same(code, source / code.relative_to(ROOT)):
                shutil.copy2(built, there)
    package = scratch / "path" / "npulens"
    package.mkdir(parents=True)
    for room in ROOMS:
        (package / room).symlink_to(source / room)
    for path in (source / "app" / "front").glob("*.py"):
        (package / path.name).symlink_to(path)
    return package.parent


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def said(commit: str | None, runs: list[str], jobs: int) -> dict[str, dict[str, Any]]:
    """What a commit says of runs; of a named commit what it said before is not asked again."""
    kept = HOME / f"said-{commit}.jsonl" if commit else None
    known = _lines(kept.read_text()) if kept is not None and kept.exists() else {}
    missing = [run for run in runs if run not in known]
    if missing:
        scratch = Path(tempfile.mkdtemp(prefix="npulens-same-"))
        try:
            path = tree(commit, scratch)
            with ThreadPoolExecutor(jobs) as pool:
                for text in pool.map(lambda part: _asked(path, scratch, part), [missing[n::jobs] for n in range(jobs)]):
                    known |= _lines(text)
        finally:
            if commit is not None:
                subprocess.run(["git", "worktree", "remove", "--force", scratch / "source"], cwd=ROOT, check=False)
            shutil.rmtree(scratch, ignore_errors=True)
        if kept is not None:
            kept.write_text("".join(json.dumps(row) + "\n" for row in known.values()))
    return {run: known[run] for run in runs if run in known}


def _asked(path: Path, scratch: Path, runs: list[str]) -> str:
    command = [sys.executable, PROGRAM, HOME / "store", *runs]
    done = subprocess.run(
        command, cwd=scratch, env={**os.environ, "PYTHONPATH": str(path)}, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        print(f"{path}: the check ended with {done.returncode}", file=sys.stderr)
    return done.stdout


def _lines(text: str) -> dict[str, dict[str, Any]]:
    return {row["run_id"]: row for row in map(json.loads, text.splitlines())}


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Every place in which two answers differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            yield from differences(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from differences(mine, theirs, f"{where}[{place}]")
    elif one != other:
        yield f"{where}: {str(one)[:200]} != {str(other)[:200]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("head", nargs="?")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="", help="runs whose name has this word")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", type=int, default=10, help="differences of a run that are printed")
    options = parser.parse_args()
    base, head = (
        None if name is None else subprocess.run(
            ["git", "rev-parse", name], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip() for name in (options.base, options.head)
    )  # fmt: skip
    names = {run: name for name, runs in stored(options.cases, options.seed).items() for run in runs}
    here = {run.run_id for run in stores.runs(HOME / "store")}
    runs = sorted(run for run, name in names.items() if options.only in name and run in here)
    before, after = said(base, runs, options.jobs), said(head, runs, options.jobs)
    wrong = findings = 0
    for run in runs:
        pair = [{key: row[key] for key in ("said", "changes")} if (row := side.get(run)) else None
                for side in (before, after)]  # fmt: skip
        found = (
            list(differences(*pair))
            if None not in pair
            else [f"no answer of {'both' if pair == [None, None] else 'one'}"]
        )
        findings += len(pair[0]["changes"]) if pair[0] else 0
        wrong += bool(found)
        for line in found[: options.show]:
            print(f"{names[run]} {run[:12]} {line}")
    cpu = [sum(row["cpu_s"] for row in side.values()) for side in (before, after)]
    print(
        f"{len(runs)} runs, {findings} findings: {wrong} runs differ; CPU s of the checks {cpu[0]:.1f} and {cpu[1]:.1f}"
    )
    sys.exit(1 if wrong or not runs else 0)


if __name__ == "__main__":
    main()
