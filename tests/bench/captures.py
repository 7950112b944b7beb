"""The captures that are measured: made once by the simulated backend, kept in .bench."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".bench"

#: Only a process of its own may load the collectors; it also keeps the generator's memory out of ours.
GENERATE = (
    "import sys; from pathlib import Path; from npulens.collectors.simulator import simulated; "
    "getattr(simulated, sys.argv[1])(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))"
)


def made(path: Path, writer: str, events: int, seed: int) -> Path:
    """A file by one of the simulated backend's writers, whole or not there."""
    if not path.exists():
        print(f"making {path.relative_to(ROOT)} ({events:,} events)", file=sys.stderr, flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"part-{path.name}")
        subprocess.run([sys.executable, "-c", GENERATE, writer, part, str(events), str(seed)], cwd=ROOT, check=True)
        part.rename(path)
    return path


def npu_rank(directory: Path, events: int, rank: int) -> Path:
    """One torch_npu rank directory."""
    home = directory / f"rank{rank}_ascend_pt"
    made(home / "ASCEND_PROFILER_OUTPUT" / "trace_view.json", "write_trace_view", events, seed=rank)
    (home / f"profiler_info_{rank}.json").write_text(json.dumps({"config": {}, "rank_id": rank}))
    return home


def npu(events: int) -> Path:
    return npu_rank(CACHE / f"npu_{events}", events, 0)


def npu_two(events: int) -> Path:
    """The same rank and another one; the first is a hard link to `npu`'s."""
    directory = CACHE / f"npu_{events}_two"
    first = npu(events)
    if not (directory / first.name).exists():
        shutil.copytree(first, directory / first.name, copy_function=os.link)
    npu_rank(directory, events, 1)
    return directory


def kineto(events: int) -> Path:
    return made(CACHE / f"kineto_{events}" / "rank0.json", "write_kineto_file", events, seed=0)


def kineto_gz(events: int) -> Path:
    """Packed as torch.profiler packs."""
    plain = kineto(events)
    packed = CACHE / f"kineto_{events}_gz" / "rank0.json.gz"
    if not packed.exists():
        packed.parent.mkdir(parents=True, exist_ok=True)
        part = packed.with_name("part.gz")
        with plain.open("rb") as source, gzip.open(part, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target, 4 << 20)
        part.rename(packed)
    return packed


def size(path: Path) -> int:
    """Bytes of a file, or of the files below a directory."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
