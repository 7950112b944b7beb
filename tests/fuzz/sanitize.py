"""The C extensions under AddressSanitizer and UBSan: `python -m tests.fuzz.sanitize [--changes N]`.

Builds them apart with gcc, loads them in a child where the sanitizer's library comes first, and lets them read the
seeds and the fuzzer's corpus (.fuzz/events) with N changes of each, random spans and random graphs, all against their
Python twins. A byte read or written outside its buffer, an overflow or a wrong shift ends the child with a report.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ("npulens.ingest.events._scan", "npulens.ingest.tables._nest", "npulens.analysis.replay._maxplus")
_FLAGS = ("-g", "-O1", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: Python's own objects must lie in malloc's memory, or the gaps between them are no gaps.
_SETTINGS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",
}  # fmt: skip


def library() -> str | None:
    """The sanitizer's library; None where there is no gcc that has one."""
    if shutil.which("gcc") is None:
        return None
    asked = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return asked.stdout.strip() if os.path.isabs(asked.stdout) else None


def build(directory: Path) -> None:
    """Compile every extension into a directory, under its full name."""
    include = sysconfig.get_path("include")
    for name in EXTENSIONS:
        source = (ROOT / name.removeprefix("npulens.").replace(".", "/")).with_suffix(".c")
        subprocess.run(["gcc", *_FLAGS, f"-I{include}", str(source), "-o", str(directory / f"{name}.so")], check=True)


def load(directory: Path) -> None:
    """Put the built extensions where their packages will find them."""
    for name in EXTENSIONS:
        loader = importlib.machinery.ExtensionFileLoader(name, str(directory / f"{name}.so"))
        spec = importlib.util.spec_from_file_location(name, directory / f"{name}.so", loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        sys.modules[name] = module


def work(changes: int) -> str:
    """Everything the extensions do, beside their twins."""
    from tests.fuzz.targets import events

    draw, inputs = Random(1), list(events.seeds())
    inputs += [path.read_bytes() for path in sorted((ROOT / ".fuzz" / "events" / "corpus").glob("*"))]
    with tempfile.TemporaryDirectory() as scratch:
        for data in inputs:
            events.check(data, Path(scratch))
            for _ in range(changes):
                events.check(events.mutate(data, draw), Path(scratch))
    for _ in range(200):
        _nested(draw)
        _solved(draw)
    return f"{len(inputs) * (1 + changes)} traces, 200 tracks and 200 graphs read"


def _nested(draw: Random) -> None:
    import numpy as np

    from npulens.ingest.tables import nest

    lengths, count = (0, 1, 5, 70, 2**60), draw.randrange(60)
    rows = sorted((draw.randrange(3), draw.randrange(90), -draw.choice(lengths)) for _ in range(count))
    track, start, length = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    ids = np.arange(len(rows), dtype=np.int64)
    fast = nest.Nest().place(track, start, -length, ids)
    compiled, nest._native = nest._native, None
    slow = nest.Nest().place(track, start, -length, ids)
    nest._native = compiled
    assert all((one == other).all() for one, other in zip(fast, slow, strict=True)), "the twins of nest differ"


def _solved(draw: Random) -> None:
    import numpy as np

    from npulens.analysis.replay import _maxplus

    nodes = draw.randrange(1, 40)
    many = [draw.randrange(4) if i else 0 for i in range(nodes)]
    edges = [[(draw.randrange(i), draw.randrange(-5, 100)) for _ in range(many[i])] for i in range(nodes)]
    first = np.cumsum([0, *map(len, edges)]).astype(np.int64)
    flat = [edge for each in edges for edge in each]
    source, lag = np.array([e[0] for e in flat], np.int32), np.array([e[1] for e in flat], np.int64)
    rest, time = np.array([draw.randrange(9) for _ in range(nodes)], np.int64), np.zeros(nodes, np.int64)
    _maxplus.solve(first, source, lag, rest, time)
    expected: list[int] = []
    for i in range(nodes):
        expected.append(max((expected[j] + gap for j, gap in edges[i]), default=0) + int(rest[i]))
    assert time.tolist() == expected, "the solver is wrong"
    last, until = nodes - 1, draw.randrange(-5, 200)
    way = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    count = _maxplus.walk(first, source, lag, rest, time, last, until, *way)
    node, passed = last, 0
    while node >= 0 and expected[node] > until:
        reached = [expected[j] + gap + int(rest[node]) == expected[node] for j, gap in edges[node]]
        edge = int(first[node]) + max(i for i, one in enumerate(reached) if one) if any(reached) else -1
        assert (int(way[0][passed]), int(way[1][passed])) == (node, edge), "the way back is wrong"
        passed, node = passed + 1, int(source[edge]) if edge >= 0 else -1
    assert count == passed, "the way back has another end"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.sanitize")
    parser.add_argument("--changes", type=int, default=10, help="of each input")
    parser.add_argument("--built", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.built:
        load(asked.built)
        print(work(asked.changes))
        return
    first = library()
    if first is None:
        sys.exit("no gcc with libasan here")
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory))
        child = [sys.executable, "-m", "tests.fuzz.sanitize", "--changes", str(asked.changes), "--built", directory]
        settings = os.environ | _SETTINGS | {"LD_PRELOAD": first}
        sys.exit(subprocess.run(child, cwd=ROOT, env=settings, check=False).returncode)


if __name__ == "__main__":
    main()
