"""Traces of torch.profiler: what may stand in an event, around the events and behind them."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.hostile.planted import Kind, Planted, damaged
from tests.hostile.values import INVALID, VALID

SAMPLE = next((Path(__file__).resolve().parents[2] / "sample_traces" / "kineto").glob("*.json.gz"))
HEADER = '"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "X"}]'
FIELDS = ("ph", "ts", "dur", "name", "cat", "pid", "tid", "id", "args", "s", "bp",
          "args.stream", "args.correlation", "args.External id", "args.Input Dims", "args.bytes", "args.device",
          "args.Collective name", "args.grid", "args.Bytes", "args.Addr", "args.name", "args.sort_index",
          "args.Call stack", "args.Python id", "args.Process Group Ranks")  # fmt: skip
PLANTS = [(field, value) for field in FIELDS for value in (*VALID, *INVALID)]


def event(ts: float | str, name: str = "op", cat: str = "cpu_op", tid: object = 1, dur: float = 1) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, "args": {}}


def trace(directory: Path, events: Sequence[str], header: str = HEADER, name: str = "t.pt.trace.json") -> Path:
    path = directory / name
    text = f'{{{header}, "traceEvents": [\n' + ",\n".join(events) + "\n]}"
    path.write_text(text, "utf-8", "surrogatepass")
    return path


def good(count: int = 20) -> list[str]:
    """Spans of which nothing is wrong."""
    return [json.dumps(event(1000 + 10 * i, f"op {i}")) for i in range(count)]


def planted_event(field: str, value: str, kind: str = "kernel") -> str:
    """An event of which one value is this text."""
    whole = {"ph": "X", "cat": kind, "name": "k", "pid": 0, "tid": 7, "ts": 1005, "dur": 2, "id": 3}
    inner: dict[str, object] = {"stream": 7, "correlation": 3, "device": 0, "External id": 5}
    top, _, key = field.partition(".")
    parts = [f'"{name}": {json.dumps(told)}' for name, told in whole.items() if name != top]
    args = [f'"{name}": {json.dumps(told)}' for name, told in inner.items() if name != key]
    if top == "args":
        whole_args = ", ".join([*args, f"{json.dumps(key)}: {value}"])
        parts.append(f'"args": {{{whole_args}}}' if key else f'"args": {value}')
    else:
        parts += [f'"{field}": {value}', f'"args": {{{", ".join(args)}}}']
    return "{" + ", ".join(parts) + "}"


def _values(directory: Path, dice: random.Random, number: int) -> Planted:
    """Eight planted events among twenty good ones: invalid text costs its own event, and none goes uncounted."""
    chosen = [PLANTS[(number * 8 + i) * 7919 % len(PLANTS)] for i in range(8)]
    kinds = ("kernel", "cpu_op", "gpu_memcpy", "user_annotation", "python_function", "cuda_runtime")
    events = [*good(), *(planted_event(*one, dice.choice(kinds)) for one in chosen)]
    dice.shuffle(events)
    spans = all(field != "ph" for field, _ in chosen)  # another ph is another table
    return Planted(trace(directory, events), met={"span": 28} if spans else {}, status=("complete", "partial"))


@cache
def _sample() -> bytes:
    return gzip.decompress(SAMPLE.read_bytes())


def _cut(directory: Path, dice: random.Random, number: int) -> Planted:
    """Cut anywhere: what was whole before the cut is there, and it is said to be partial."""
    events = good(300)
    path = trace(directory, events)
    data = path.read_bytes()
    ends = []
    at = data.index(b"[\n") + 2
    for one in events:
        at += len(one.encode()) + 2
        ends.append(at - 2)
    cut = dice.randrange(ends[0], len(data) - 1)
    path.write_bytes(data[:cut])
    return Planted(path, rows={"span": sum(end <= cut for end in ends)}, status=("partial",))


def _flip(directory: Path, dice: random.Random, number: int) -> Planted:
    path = directory / "t.pt.trace.json"
    path.write_bytes(damaged(_sample(), dice))
    return Planted(path)


def _deep(directory: Path, dice: random.Random, number: int) -> Planted:
    depth = (10, 63, 64, 65, 500, 5_000, 100_000, 1_000_000)[number % 8]
    opened, closed = ("[", "]") if number % 16 < 8 else ('{"a":', "}")
    value = opened * depth + "1" + (closed * depth if number % 3 else "")
    where = number // 16 % 4
    if where == 0:
        return Planted(trace(directory, [*good(), planted_event("args.grid", value), *good()]))
    if where == 1:
        return Planted(trace(directory, good(), f'{HEADER}, "deep": {value}'))
    path = directory / "t.pt.trace.json"
    path.write_text(value if where == 2 else f'{{{HEADER}, "traceEvents": {value}')
    return Planted(path)


def _giant(directory: Path, dice: random.Random, number: int) -> Planted:
    size = (1 << 10, 1 << 16, (4 << 20) - 200, (4 << 20) + 200, 30 << 20)[number % 5]
    match number // 5:
        case 0:
            odd = planted_event("name", '"' + "n" * size + '"')
        case 1:
            odd = planted_event("ts", "1" * size)
        case 2:
            odd = planted_event("args." + "k" * size, "1")
        case 3:
            odd = planted_event("args.grid", "[" + "1," * (size // 2) + "1]")
        case 4:
            odd = planted_event("args", "{" + ",".join(f'"{i}":0' for i in range(size // 10)) + "}")
        case 5:
            odd = planted_event("name", '"' + "\\u0041" * (size // 6) + '"')
        case 6:
            odd = planted_event("name", '"' + "\\" * (size // 2 * 2) + '"')
        case _:
            return Planted(trace(directory, good(), f'{HEADER}, "x": "{"y" * size}"'), rows={"span": 20})
    return Planted(trace(directory, [*good(), odd]), met={"span": 21})


EDGES = (0, 1, -1, 2**31, 2**32, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**62), -(2**63), -(2**63) + 1,
         4 * 10**18, 10**18, 10**15, -(10**15))  # ns  # fmt: skip


def _us(ns: int) -> str:
    return f"{'-' * (ns < 0)}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _stamps(directory: Path, dice: random.Random, number: int) -> Planted:
    """Starts and lengths at the edges of 64 bits, alone and together, with a base time there too."""
    edges = [EDGES[number % len(EDGES)], *(dice.choice(EDGES) for _ in range(dice.randrange(4)))]
    events = [
        json.dumps(event("@", f"op {i}", dice.choice(("cpu_op", "kernel")))).replace('"@"', _us(ts)).replace(
            '"dur": 1', f'"dur": {_us(dice.choice(EDGES))}')
        for i, ts in enumerate(edges)
    ]  # fmt: skip
    base = f', "baseTimeNanoseconds": {dice.choice(EDGES)}' if number % 2 else ""
    ordinary = good(dice.choice((0, 1, 20)))
    dice.shuffle(ordinary)
    return Planted(trace(directory, [*ordinary, *events], HEADER + base), met={})


def _many(directory: Path, dice: random.Random, number: int) -> Planted:
    """A thread, a name, a process or a category of its own for every event."""
    count = (1_000, 10_000, 100_000, 300_000)[number % 4]
    what = ("tid", "name", "pid", "cat", "args")[number // 4]
    events = []
    for i in range(count):
        told = f'"{i}"' if what in ("name", "cat") else f'{{"key {i}": {i}}}' if what == "args" else str(i)
        rest = {"cat": '"cpu_op"', "name": '"op"', "pid": "7", "tid": "1", "args": "{}"} | {what: told}
        events.append("{" + ", ".join(f'"{k}": {v}' for k, v in rest.items()) + f', "ph": "X", "ts": {i}, "dur": 1}}')
    return Planted(trace(directory, events), rows={"span": count}, status=("complete", "partial"))


def _flows(directory: Path, dice: random.Random, number: int) -> Planted:
    """Arrows that cross, come back, share an id, have no end, or begin after they end."""
    ids = dice.choice((["1"], ["1", '"1"', "1.0"], [str(i) for i in range(50)], ["9" * 30, "null", "[]", '"é"']))
    events = good()
    for i in range(dice.choice((1, 40, 2000))):
        ph, cat = dice.choice(("s", "t", "f", "s", "f")), dice.choice(("ac2g", "fwdbwd", "async_cpu_to_gpu", "x"))
        ts, tid = dice.randrange(900, 1300), dice.choice((1, 7, 99))
        events.append(f'{{"ph":"{ph}","cat":"{cat}","name":"{cat}","id":{dice.choice(ids)},"pid":{dice.choice((0, 7))},'
                      f'"tid":{tid},"ts":{ts},"bp":"e"}}')  # fmt: skip
        if i % 3 == 0:
            events.append(json.dumps({"ph": "X", "cat": dice.choice(("kernel", "cuda_runtime")), "name": "k", "pid": 0,
                                      "tid": tid, "ts": ts, "dur": dice.randrange(90),
                                      "args": {"correlation": dice.choice((1, 1, i)), "stream": tid}}))  # fmt: skip
    spans = sum('"X"' in one for one in events)
    return Planted(trace(directory, events), rows={"span": spans})


def _edges(directory: Path, dice: random.Random, number: int) -> Planted:
    """Begins and ends that do not match: each span takes two of them, each one left over is counted."""
    events, at = [], 1000
    bias = dice.choice((0.1, 0.5, 0.9))
    for i in range(dice.choice((2, 30, 3000))):
        at += dice.choice((0, 0, 1, 5, -3))
        ph = "B" if dice.random() < bias else "E"
        tid = dice.choice((1, 1, 2))
        events.append(f'{{"ph":"{ph}","cat":"cpu_op","name":"n{i % 3}","pid":7,"tid":{tid},"ts":{at}}}')
    return Planted(trace(directory, [*good(), *events]), status=("complete", "partial"))


def _header(directory: Path, dice: random.Random, number: int) -> Planted:
    keys = ("schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "displayTimeUnit",
            "traceName", "with_flops", "host_name", "trace_id", "record_shapes", "profile_memory")  # fmt: skip
    job = {"rank": 0, "world_size": 2, "backend": "nccl", "pg_config": [{"pg_name": "0", "ranks": [0, 1]}],
           "pg_count": 1, "nccl_version": "2"}  # fmt: skip
    value = VALID[number % len(VALID)]
    key = dice.choice(keys)
    told = {"schemaVersion": "1", "deviceProperties": "[]"} | {key: value}
    if number % 2:
        parts = {name: json.dumps(part) for name, part in job.items()} | {dice.choice(list(job)): value}
        told["distributedInfo"] = "{" + ",".join(f'"{name}":{part}' for name, part in parts.items()) + "}"
    if number % 3 == 0:
        told["deviceProperties"] = f'[{{"id":{value},"name":{value},"totalGlobalMem":{value}}}, {value}]'
    header = ", ".join(f'"{name}": {part}' for name, part in told.items())
    return Planted(trace(directory, good(), header), rows={"span": 20})


def _gzip(directory: Path, dice: random.Random, number: int) -> Planted:
    path = trace(directory, good(2000))
    packed = gzip.compress(path.read_bytes(), mtime=0)
    path.unlink()
    path = directory / "t.pt.trace.json.gz"
    half = gzip.decompress(packed)
    match number % 8:
        case 0:
            packed = packed[: dice.randrange(1, len(packed))]
        case 1 | 2:
            packed = damaged(packed, dice)
        case 3:
            packed = gzip.compress(half[:5000]) + gzip.compress(half[5000:])
        case 4:
            packed += dice.randbytes(100)
        case 5:
            packed = gzip.compress(half[:-3] + b"," + b" " * (300 << 20), 9, mtime=0) if number < 16 else packed + b"\0"
        case 6:
            packed = gzip.compress(packed)
        case _:
            packed = packed[:-8] + zlib.crc32(b"wrong").to_bytes(4, "little") + packed[-4:]
    path.write_bytes(packed)
    return Planted(path)


KINDS = (
    Kind("kineto value", 260, _values),
    Kind("kineto cut", 120, _cut),
    Kind("kineto flip", 120, _flip),
    Kind("kineto deep", 64, _deep),
    Kind("kineto giant", 40, _giant),
    Kind("kineto stamps", 80, _stamps),
    Kind("kineto many", 20, _many),
    Kind("kineto flows", 40, _flows),
    Kind("kineto begin and end", 40, _edges),
    Kind("kineto header", 80, _header),
    Kind("kineto gzip", 48, _gzip),
)
