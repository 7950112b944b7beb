"""What the first and last bytes of a file say: whether Kineto wrote it, which rank it is, who its peers are.

A directory can hold thousands of files and traces can be large. So nothing here looks at more than 64 KiB of JSON from
either end. The end of a large compressed file is out of reach and stays unread.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npulens.ingest.readers import Facts

PEEK = 64 << 10
#: How far a compressed file is unpacked for its end: packed and unpacked bytes, some hundredths of a second.
NEAR, REACH = 1 << 20, 16 << 20
GZIP = b"\x1f\x8b"
#: What may stand before the first brace.
BLANK = b"\xef\xbb\xbf \t\r\n"
#: Stamps below this many ns since 1970 (year 2001) are not wall clock, nor those above (year 2099).
UNIX_NS = (10**18, 4_100_000_000 * 10**9)

_KEYS = (b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"', b'"baseTimeNanoseconds"')
_CATEGORY = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|Operator|user_annotation|gpu_user_annotation|python_function|Python|cuda_runtime|cuda_driver'
    rb"|kernel|Kernel|Runtime|gpu_memcpy|Memcpy|gpu_memset|Memset|ac2g|async_cpu_to_gpu|fwdbwd|cpu_instant_event"
    rb'|mtia_\w+|xpu_\w+|privateuse1_\w+|npu_\w+|collective_comm|hccl)"'
)
#: So many events that name no category of torch.profiler, and nothing else of it, are another program's.
_MANY = 20
_ANY_CATEGORY = re.compile(rb'"cat"\s*:\s*"')
#: A trace of one operator's pipes, which its own reader reads.
_OPERATOR = b'"profilingType"'
_TEXT_STAMP = re.compile(rb'"ts"\s*:\s*"')
#: What a bare list of events must hold beside a category, and what no trace of torch.profiler holds.
_TORCH = re.compile(rb'(?i)"(?:external id|correlation|ev idx|python id|record function id)"|"name"\s*:\s*"aten::')
_ASCEND = re.compile(rb'Ascend Hardware|HostToDevice|"async_(?:npu|task_queue)"')
_FIRST_STAMP = re.compile(r'"ts"\s*:\s*(\d{1,19})(?:\.(\d+))?')
_BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d{1,19})')
_RANK_IN_NAME = re.compile(r"(?i)(?<![a-z0-9])(?<!local_)(?<!local-)rank[-_]?(\d{1,6})(?![0-9])")
_WORKER_IN_NAME = re.compile(r"(?i)^worker(\d{1,6})\.")


def peek(path: Path) -> tuple[bytes, bytes]:
    """The first and the last JSON bytes of a file, the last only if they are near. Nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(PEEK)
            if head.startswith(GZIP):
                return _unpacked(head + file.read(NEAR))
            if len(head) < PEEK:
                return head, b""
            file.seek(max(PEEK, path.stat().st_size - PEEK))
            return head, file.read(PEEK)
    except OSError:
        return b"", b""


def _unpacked(raw: bytes) -> tuple[bytes, bytes]:
    """First and last bytes of a gzip member; no last ones if it does not end within reach."""
    decoder, tail = zlib.decompressobj(wbits=31), b""
    try:
        head = decoder.decompress(raw, PEEK)
        if not is_kineto(head):
            return head, b""
        for _ in range(REACH // PEEK):
            if decoder.eof or not decoder.unconsumed_tail:
                break
            tail = (tail + decoder.decompress(decoder.unconsumed_tail, PEEK))[-PEEK:]
        return head, tail if decoder.eof else b""
    except zlib.error:
        return b"", b""


def is_kineto(head: bytes) -> bool:
    """Whether a file that starts like this holds trace events with Kineto's header keys or categories.

    The first versions (2020) wrote a bare list of events, and so do scripts that keep nothing else. Ascend's
    trace_view.json shares some categories but is a bare list with stamps written as text.
    """
    text = head.lstrip(BLANK)
    if text.startswith(b"["):
        named = _CATEGORY.search(text) is not None and _TORCH.search(text) is not None
        return named and _TEXT_STAMP.search(text) is None and _ASCEND.search(text) is None
    if not text.startswith(b"{") or _OPERATOR in text:
        return False
    if b'"traceEvents"' not in text:  # a long header: the metadata of a large job before the first event
        return _KEYS[0] in text and any(key in text for key in _KEYS[1:])
    if any(key in text for key in _KEYS[1:]):
        return True
    known = _CATEGORY.search(text) is not None
    if _KEYS[0] in text:  # others write a version, too: then their categories tell
        return known or _TORCH.search(text) is not None or len(_ANY_CATEGORY.findall(text)) < _MANY
    return known and _TEXT_STAMP.search(text) is None


def facts(path: Path, head: bytes, tail: bytes) -> Facts:
    """Rank, world, groups and begin, as far as they lie within reach."""
    pieces = [piece.decode("utf-8", "replace") for piece in (head, tail)]
    job: Mapping[str, Any] = next((found for piece in pieces if (found := _distributed(piece))), {})
    rank, source = whole(job.get("rank")), "metadata"
    if rank is None:
        rank, source = rank_in_name(path.name), "file name"
    return Facts(
        rank=rank,
        rank_source=None if rank is None else source,
        world_size=whole(job.get("world_size")),
        groups=tuple(sorted({f"{g['pg_name']} {ranks_of(g)}" for g in groups(job) if ranks_of(g)})),
        begin_ns=_begin(pieces),
    )


def rank_in_name(name: str) -> int | None:
    """The rank a file name tells, if it tells exactly one. A worker counts only as TensorBoard's plain ``worker0.``."""
    for pattern in (_RANK_IN_NAME, _WORKER_IN_NAME):
        found = {int(digits) for digits in pattern.findall(name)}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def groups(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The process groups of distributedInfo that have a name."""
    listed = job.get("pg_config")
    if isinstance(listed, Mapping):
        listed = list(listed.values())
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return []
    return [dict(group) for group in listed if isinstance(group, Mapping) and group.get("pg_name") is not None]


def on_host(job: Mapping[str, Any]) -> bool:
    """Whether all of the job's groups communicate on the host: Gloo copies what lies on a device there and back."""
    told = [job.get("backend"), *(group.get("backend_config") for group in groups(job))]
    said = [str(text).lower() for text in told if text is not None]
    return bool(said) and all({part.rpartition(":")[2] for part in text.split(",")} == {"gloo"} for text in said)


def ranks_of(group: Mapping[str, Any]) -> list[int] | None:
    """The global ranks of a process group, written as a list or as the text of one. None if not told in full."""
    ranks = group.get("ranks")
    if isinstance(ranks, str):
        try:
            ranks = json.loads(ranks)
        except (ValueError, RecursionError):
            return None
    if not isinstance(ranks, list) or not ranks or any(whole(rank) is None for rank in ranks):
        return None
    return [int(rank) for rank in ranks]


def whole(value: object) -> int | None:
    """A value as a whole, non-negative number that fits 31 bits, or None."""
    try:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else -1
    except ValueError:
        return None
    return number if 0 <= number < 2**31 else None


def is_unix(ns: int) -> bool:
    """Whether a stamp can be wall clock."""
    return UNIX_NS[0] <= ns < UNIX_NS[1]


def _distributed(text: str) -> Mapping[str, Any]:
    """distributedInfo; from one that the window cuts off, the two numbers that matter."""
    start = re.search(r'"distributedInfo"\s*:\s*(?=\{)', text)
    if start is None:
        return {}
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start.end())
        return found if isinstance(found, dict) else {}
    except (ValueError, RecursionError):
        rest = text[start.end() :]
        numbers = {key: re.search(rf'"{key}"\s*:\s*"?(\d{{1,9}})', rest) for key in ("rank", "world_size")}
        return {key: match.group(1) for key, match in numbers.items() if match}


def _begin(pieces: Sequence[str]) -> int | None:
    """The first stamp of the file as wall clock, if head or tail tell how to read it."""
    first = _FIRST_STAMP.search(pieces[0])
    if first is None:
        return None
    ns = int(first.group(1)) * 1000 + int(((first.group(2) or "") + "000")[:3])
    if not is_unix(ns):
        base = next((match for piece in pieces if (match := _BASE.search(piece))), None)
        ns += int(base.group(1)) if base else 0
    return ns if is_unix(ns) else None
