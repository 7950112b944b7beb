"""Directories: what may lie in one, what it may be called, and where it may lead."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import socket
from pathlib import Path

from tests.hostile.kineto import good, trace
from tests.hostile.planted import Kind, Planted
from tests.hostile.trace_view import SAMPLE
from tests.text_export import KERNEL, L1, write

NAMES = ("a\nb", "a\rb", "a\tb", "\u202egnp.nosj", "\u2066x\u2069", "é算子", "e\u0301", "<img src=x onerror=alert(1)>",
         "'; DROP TABLE run;--", '"quoted"', "a*b?c[d]", "%00%2f", "..hidden", "-rf", "--store", "~", "$HOME", "`id`",
         " lead", "trail ", "a" * 240, "\x01\x1b[31mred", "con", "a\\b", "{0}", "%s", "#", "a;b|c&d", "nul\x7f",
         b"\xff\xfe".decode("utf-8", "surrogateescape"), "\ufeffbom", "\u200b", "☃" * 60)  # fmt: skip


def _names(directory: Path, dice: random.Random, number: int) -> Planted:
    """Whatever a directory or a file is called, it is only a name."""
    name = NAMES[number % len(NAMES)]
    match number // len(NAMES):
        case 0:
            place = directory / name
            place.mkdir()
            trace(place, good())
            return Planted(directory, rows={"span": 20}, status=("complete",))
        case 1:
            trace(directory, good(), name=name + ".json" if len(os.fsencode(name)) < 240 else name)
            return Planted(directory, rows={"span": 20}, status=("complete",))
        case 2:
            root = f"{name[:60]}_ascend_pt"
            return Planted(write(directory / root, kernel_details_csv=f"{L1}\n{KERNEL}\n").parent, rows={"span": 1})
        case _:
            (directory / name).write_bytes(b"nothing of ours")
            return Planted(directory, status=("refused",))


def _links(directory: Path, dice: random.Random, number: int) -> Planted:
    """Links that lead out, round in a circle, to themselves or nowhere; no walk goes through one.

    The output directory of a rank may be a link: people keep it on another disk.
    """
    up = directory / "upload"
    up.mkdir()
    outside = directory / "outside"
    outside.mkdir()
    trace(outside, good())
    match number % 8:
        case 0:
            (up / "self").symlink_to(up)
        case 1:
            (up / "a").symlink_to(up / "b")
            (up / "b").symlink_to(up / "a")
        case 2:
            (up / "gone.json").symlink_to(outside / "missing.json")
        case 3:
            (up / "x.pt.trace.json").symlink_to(outside / "t.pt.trace.json")
        case 4:
            (up / "dir").symlink_to(outside, target_is_directory=True)
        case 5:
            (up / "proc").symlink_to("/proc")
            (up / "zero.json").symlink_to("/dev/zero")
        case 6:
            root = write(up / "rank_0_ascend_pt", kernel_details_csv=f"{L1}\n{KERNEL}\n")
            (root / "profiler_metadata.json").symlink_to("/dev/zero")
            (root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").symlink_to("/dev/zero")
            return Planted(up, rows={"span": 1})
        case _:
            root = up / "rank_0_ascend_pt"
            root.mkdir()
            (root / "ASCEND_PROFILER_OUTPUT").symlink_to(SAMPLE / "ASCEND_PROFILER_OUTPUT")
            return Planted(up, status=("complete", "partial"))
    if number >= 8:
        trace(up, good())
        return Planted(up, rows={"span": 20})
    return Planted(up, status=("refused",))


def _special(directory: Path, dice: random.Random, number: int) -> Planted:
    """Pipes, sockets and files that may not be read where a capture's files are expected."""
    names = ("t.pt.trace.json", "trace_view.json", "profiler_info_0.json", "profiler_metadata.json", "analysis.db",
             "ascend_pytorch_profiler_0.db", "kernel_details.csv", "communication.json", "x.zip", "memory_record.csv",
             "logs/a.log", "x.json.gz")  # fmt: skip
    name = names[number % len(names)]
    root = write(directory / "rank_0_ascend_pt", op_statistic_csv="OP Type,Count\nAdd,1\n",
                 kernel_details_csv="" if name == "kernel_details.csv" else f"{L1}\n{KERNEL}\n")  # fmt: skip
    output = root if name.startswith(("profiler_", "logs")) else root / "ASCEND_PROFILER_OUTPUT"
    place = output / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    match number // len(names):
        case 0:
            os.mkfifo(place)
        case 1:
            with socket.socket(socket.AF_UNIX) as end:
                here = os.open(place.parent, os.O_RDONLY)
                end.bind(f"/proc/self/fd/{here}/{place.name}")
                os.close(here)
        case 2:
            place.mkdir()
        case 3:
            place.write_text("{}")
            place.chmod(0)
        case _:
            os.truncate(os.open(place, os.O_CREAT | os.O_RDWR), 1 << 40)  # a hole of a terabyte
    if number // len(names) > 3:
        small = name in ("x.zip", "logs/a.log")  # nobody's files
        return Planted(directory, rows={"span": 1} if small else {})
    return Planted(directory, rows={"span": 1} if name != "kernel_details.csv" else {})


def _many(directory: Path, dice: random.Random, number: int) -> Planted:
    count = (1_000, 20_000, 49_000, 250_000)[number % 4]
    match number // 4:
        case 0:
            for i in range(count):
                (directory / f"{i}.txt").touch()
        case 1:
            for i in range(count // 10):
                (directory / f"d{i}").mkdir()
        case 2:
            (directory / "x.json").write_text("{}")
            for i in range(count // 10):
                os.link(directory / "x.json", directory / f"{i}.json")
        case _:
            (directory / "x.db").write_bytes(b"SQLite format 3\0" + bytes(84))
            for i in range(count // 100):
                os.link(directory / "x.db", directory / f"{i}.db")
    if number % 8 < 4 or number == 7:  # 25,000 directories are more than are walked through
        return Planted(directory, status=("refused",))
    trace(directory, good())
    return Planted(directory, rows={"span": 20})


def _scraps(directory: Path, dice: random.Random, number: int) -> Planted:
    """Very many things of nearly nothing beside a capture, of each sort that costs something to look at."""
    count, raw = (200, 9_900, 30_000)[number % 3], gzip.compress(b"nothing")
    for i in range(count):
        match number // 3:
            case 0:
                (directory / f"{i}.json").write_bytes(b'{"a": 1}')
            case 1:
                (directory / f"{i}.log.gz").write_bytes(raw)
            case _:
                (directory / f"d{i}").mkdir()
                (directory / f"d{i}" / "x.csv").touch()
    trace(directory, good())
    if count == 200 or number == 1 or number == 2:
        return Planted(directory, rows={"span": 20})
    return Planted(directory, status=("complete", "refused") if number == 7 else ("refused",))


def _deep(directory: Path, dice: random.Random, number: int) -> Planted:
    """Directories in directories, up to beyond what a path may be long."""
    depth, name = (5, 50, 200, 500)[number % 4], "d" if number < 4 else "d" * 200
    here = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    trace(directory, good())
    return Planted(directory, rows={"span": 20})


def _alike(directory: Path, dice: random.Random, number: int) -> Planted:
    """The sample rank with its parts somewhere else, twice, or called by each other's names."""
    root = directory / "host_1_20260105080000000_ascend_pt"
    shutil.copytree(SAMPLE, root)
    output = root / "ASCEND_PROFILER_OUTPUT"
    files = sorted(output.iterdir())
    match number % 8:
        case 0:
            a, b = dice.sample(files, 2)
            held = a.read_bytes()
            a.write_bytes(b.read_bytes())
            b.write_bytes(held)
        case 1:
            for name in ("profiler_info_1.json", "profiler_info_2.json", "profiler_info_999999999.json"):
                shutil.copy(root / "profiler_info_0.json", root / name)
        case 2:
            shutil.copytree(output, output / "ASCEND_PROFILER_OUTPUT")
        case 3:
            shutil.copytree(root, root / "PROF_000001_20260105080000000_ABC" / root.name)
        case 4:
            for i in range(2, 40):
                shutil.copy(output / "trace_view.json", output / f"msprof_slice_{i}_20260105.json")
        case 5:
            for path in dice.sample(files, 5):
                path.write_bytes(b"")
        case 6:
            shutil.rmtree(output)
            output.write_text("a file where a directory belongs")
        case _:
            for path in dice.sample(files, 4):
                path.unlink()
                path.mkdir()
    return Planted(directory)


KINDS = (
    Kind("directory names", 4 * len(NAMES), _names),
    Kind("directory links", 16, _links),
    Kind("directory special", 60, _special),
    Kind("directory many", 16, _many),
    Kind("directory scraps", 9, _scraps),
    Kind("directory deep", 8, _deep),
    Kind("directory alike", 40, _alike),
)
