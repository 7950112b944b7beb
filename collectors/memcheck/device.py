"""A device's own tool: called where it is there, and its report read.

compute-sanitizer (CUDA) and msSanitizer (Ascend) print a block of lines for each access. Both forms are read as their
makers' documentation shows them; nothing here has seen a report that was made on a device.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from npulens.collectors.memcheck.finding import Finding, Report
from npulens.collectors.workloads.workload import NotHere

CUDA, ASCEND = "compute-sanitizer", "mssanitizer"
#: A report is read up to so many bytes.
MOST = 256 * 2**20

_CUDA = re.compile(r"^=========\s?(.*)$")
_CUDA_HEAD = re.compile(r"Invalid __(\w+)__ (read|write|atomic) of size (\d+)")
_CUDA_AT = re.compile(r"\s+at (?:(?P<pc>0x[0-9a-f]+) in )?(?P<rest>.+)$")
#: Three orders: name+0x10 in file:6, name:0x10 in file:6, and file:6:name.
_CUDA_NAME = re.compile(r"^(?P<name>.+?)[:+]?(?:0x[0-9a-f]+)?(?: in (?P<file>\S.*):(?P<line>\d+))?$")
_CUDA_OLD = re.compile(r"^(?P<file>(?:[A-Za-z]:)?[^:]+):(?P<line>\d+):(?P<name>.+)$")
_CUDA_BY = re.compile(r"\s+by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_CUDA_ADDRESS = re.compile(r"\s+(?:Address|Access (?:to|at)) (0x[0-9a-f]+) is (out of bounds|misaligned)")
_ASCEND = re.compile(r"^={3,6}\s?(.*)$")
_ASCEND_HEAD = re.compile(
    r"(?:ERROR|WARNN?ING)\s*:\s*(?:illeg[ae]l (read|write)|(out of bounds)|(misaligned) access|uninitialized (read))"
    r" of size (\d+)"
)
_ASCEND_AT = re.compile(r"\s*at (0x[0-9a-f,]+) on (\w+)(?: when (reading|writing) data)?(?: in \"?(.+?)\"?)?\s*$")
_ASCEND_BLOCK = re.compile(r"\s*in block (\w+)\((\d+)\)")
_ASCEND_FRAME = re.compile(r"\s*#\d+\s+(\S.*):(\d+):(\d+)\s*$")
_ASCEND_CODE = re.compile(r"\s*code in (?!pc current)(\S.*):(\d+)(?: \(serialNo: ?\d+\))?\s*$")
#: What a frame of the tool's or the language's own is called.
_THEIRS = re.compile(r"tikcpp|tikcfw|/asc/|ASCEND_HOME_PATH|kernel_operator_|site-packages")


def read(path: Path) -> Report:
    """The report of either tool; which one is told by the file."""
    if path.stat().st_size > MOST:
        raise ValueError(f"{path} is larger than {MOST >> 20} MiB: no report is")
    return parsed(path.read_text(encoding="utf-8", errors="replace"), str(path))


def parsed(text: str, whose: str) -> Report:
    """The findings in what a tool printed, in their order; the same place of the source is one finding."""
    lines = text.splitlines()
    if any("COMPUTE-SANITIZER" in line or "CUDA-MEMCHECK" in line or _CUDA_HEAD.search(line) for line in lines):
        return Report(tuple(_together(_cuda(lines))), how=CUDA)
    if any("[mssanitizer]" in line or _ASCEND_HEAD.search(line) for line in lines):
        return Report(tuple(_together(_ascend(lines))), how=ASCEND)
    raise ValueError(f"{whose} is no report of compute-sanitizer or msSanitizer")


def _together(found: Iterator[Finding]) -> Iterator[Finding]:
    """One finding a place: its accesses are counted, and the first one is told."""
    kept: dict[tuple[object, ...], Finding] = {}
    for each in found:
        key = (each.kind, each.access, each.kernel, each.file, each.line)
        kept[key] = replace(kept[key], lanes=(kept[key].lanes or 0) + 1) if key in kept else each
    yield from kept.values()


def _blocks(lines: Sequence[str], begin: re.Pattern[str], head: re.Pattern[str]) -> Iterator[list[str]]:
    """The lines that belong together, without the signs before them: from one head to the next, or to an empty one."""
    block: list[str] = []
    for line in lines:
        found = begin.match(line.strip("\r"))
        text = found[1] if found else ""
        if found and head.search(text):
            if block:
                yield block
            block = [text]
        elif block and (not text.strip() or "SUMMARY" in text):
            yield block
            block = []
        elif block:
            block.append(text)
    if block:
        yield block


def _cuda(lines: Sequence[str]) -> Iterator[Finding]:
    for block in _blocks(lines, _CUDA, _CUDA_HEAD):
        head = _CUDA_HEAD.search(block[0])
        assert head is not None
        access = {"read": "load", "write": "store", "atomic": "atomic"}[head[2]]
        kernel, file, line = "?", None, None
        kind, thread, place = "other", None, None
        for text in block[1:]:
            if (found := _CUDA_AT.match(text)) and kernel == "?":
                kernel, file, line = _cuda_place(found["rest"].strip())
            elif found := _CUDA_BY.match(text):
                thread, place = tuple(map(int, found.groups()[:3])), tuple(map(int, found.groups()[3:]))
            elif found := _CUDA_ADDRESS.match(text):
                kind = "outside" if found[2] == "out of bounds" else "unaligned"
        yield Finding(
            kind, access, kernel, file, line, element_bytes=int(head[3]), lanes=1, program=place, lane=thread,
            text="\n".join(each.strip() for each in block[:5] if not each.strip().startswith(("Saved", "Host"))),
        )  # fmt: skip


def _cuda_place(rest: str) -> tuple[str, str | None, int | None]:
    old = _CUDA_OLD.match(rest)
    if old:
        return old["name"], old["file"], int(old["line"])
    found = _CUDA_NAME.match(rest)
    if found is None:
        return rest, None, None
    return found["name"], found["file"], int(found["line"]) if found["line"] else None


def _ascend(lines: Sequence[str]) -> Iterator[Finding]:
    for block in _blocks(lines, _ASCEND, _ASCEND_HEAD):
        head = _ASCEND_HEAD.search(block[0])
        assert head is not None
        kind = "outside" if head[1] else "unaligned" if head[3] else "other"
        access = {"read": "load", "write": "store"}.get(head[1] or head[4] or "")
        kernel, core, frames = "?", None, list[tuple[str, int]]()
        for text in block[1:]:
            if found := _ASCEND_AT.match(text):
                kernel = found[4] or kernel
                access = access or {"reading": "load", "writing": "store"}.get(found[3] or "")
            elif found := _ASCEND_BLOCK.match(text):
                core = (int(found[2]),)
            elif found := _ASCEND_FRAME.match(text) or _ASCEND_CODE.match(text):
                frames.append((found[1], int(found[2])))
        own = [each for each in frames if not _THEIRS.search(each[0])] or frames
        file, line = own[0] if own else (None, None)
        yield Finding(
            kind, access, kernel, file, line, called_from=tuple(f"{name}:{place}" for name, place in own[1:]),
            element_bytes=int(head[5]), lanes=1, program=core,
            text="\n".join(each.strip() for each in block[:3]),
        )  # fmt: skip


def ran(target: str, arguments: Sequence[str]) -> Report:
    """Runs a script under the tool of the device that is here, and reads what it says."""
    tool = next((name for name in (CUDA, ASCEND) if shutil.which(name)), None)
    if tool is None:
        raise NotHere("neither compute-sanitizer (CUDA toolkit) nor mssanitizer (CANN) is on the PATH")
    path, _, name = target.rpartition(":") if target.rpartition(":")[2].isidentifier() else (target, "", "")
    if name and path:
        raise ValueError(f"{tool} runs a script: say {path} instead of {target}")
    if not Path(target).is_file():
        raise ValueError(f"there is no file {target}")
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.txt"
        job = [sys.executable, target, *arguments]
        if tool == CUDA:
            done = subprocess.run([tool, "--tool", "memcheck", "--log-file", str(report), *job], stdout=sys.stderr)
            text = report.read_text(encoding="utf-8", errors="replace") if report.exists() else ""
        else:
            done = subprocess.run(
                [tool, "--tool=memcheck", "--", *job], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            text = done.stdout.decode("utf-8", errors="replace")
        if not text.strip():
            raise ValueError(f"{tool} ended with status {done.returncode} and reported nothing")
    return parsed(text, f"what {tool} printed")
