"""The small JSON files of a rank directory, and the profiler's analysis of its communication."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.hostile.planted import Kind, Planted, damaged
from tests.hostile.trace_view import SAMPLE, rank
from tests.hostile.values import INVALID, VALID
from tests.text_export import KERNEL, L1

OUTPUT = "ASCEND_PROFILER_OUTPUT"
NAMES = ("profiler_info_0.json", "profiler_metadata.json", f"{OUTPUT}/communication.json",
         f"{OUTPUT}/communication_matrix.json")  # fmt: skip
Steps = tuple[str | int, ...]


@cache
def sample(name: str) -> str:
    return (SAMPLE / name).read_text("utf-8")


def places(value: object, steps: Steps = ()) -> Iterator[Steps]:
    """Every place in a document."""
    yield steps
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*steps, key))


def put(value: object, steps: Steps, new: object) -> object:
    """The document with something else in one place."""
    if not steps:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
    changed[steps[0]] = put(changed[steps[0]], steps[1:], new)  # type: ignore[index]
    return changed


def lay(directory: Path, files: dict[str, bytes]) -> Path:
    root = rank(directory)
    (root / OUTPUT).mkdir(parents=True)
    (root / OUTPUT / "kernel_details.csv").write_text(f"{L1}\n{KERNEL}\n")
    for name, content in files.items():
        (root / name).write_bytes(content)
    return root


def _value(name: str, directory: Path, dice: random.Random, number: int) -> Planted:
    """One place of the file holds something else; the kernel beside it is there all the same."""
    document = json.loads(sample(name))
    where = dice.choice(list(places(document)))
    told = json.dumps(put(document, where, "@planted@")).replace('"@planted@"', (*VALID, *INVALID)[number % 100])
    return Planted(lay(directory, {name: told.encode("utf-8", "surrogatepass")}), rows={"kernel": 1, "span": 1})


def _key(directory: Path, dice: random.Random, number: int) -> Planted:
    """Keys that are markup, paths, numbers, endless, or there twice."""
    name = NAMES[number % len(NAMES)]
    raw = sample(name)
    old = dice.choice([word for word in raw.split('"')[1::2] if word])
    keys = ("", " ", "é", "<img>", "../..", "\\u0000", "\\ud800", "x" * 100_000, "step" + "9" * 40, "step", "step-1",
            "a@" + "9" * 40, "a@-1", "@", "hcom_allReduce__1_2_3_4@12", "99999999999-1", "0-99999999999", "0-", "-",
            "Total Op Info", "collective", "p2p", "global_ranks", "__class__")  # fmt: skip
    new = keys[number // len(NAMES) % len(keys)]
    raw = raw.replace(f'"{old}"', f'"{new}"', dice.choice((1, -1)))
    if number % 3 == 0:
        raw = raw.rstrip()[:-1] + "," + raw.lstrip()[1:]  # every key twice
    return Planted(lay(directory, {name: raw.encode()}), rows={"kernel": 1, "span": 1})


def _whole(directory: Path, dice: random.Random, number: int) -> Planted:
    """The file as a whole is something else."""
    name = NAMES[number % len(NAMES)]
    raw = sample(name)
    ranks = ",".join(map(str, range(1_000_000)))
    wholes = (
        b"", b" ", b"{", b"{}", b"[]", b"null", b"1", b'"x"', b"\0" * 100, raw.encode("utf-16"),
        b"\xef\xbb\xbf" + raw.encode(), raw.encode() + raw.encode(), raw.encode()[:-1], b"[" * 100_000,
        b'{"a":' * 100_000, b"\x1f\x8b\x08" + b"\0" * 50, b"\xff" * 1000, b"{" + b'"a":1,' * 300_000 + b'"a":1}',
        f'{{"parallel_group_info": {{"g": {{"group_name": "dp", "global_ranks": [{ranks}]}}}}}}'.encode(),
        f'{{"distributed_args": {{"world_size": {"9" * 18}}}, "rank_id": {"9" * 18}}}'.encode(),
        json.dumps({"parallel_group_info": {f"group {i}": {"global_ranks": [i]} for i in range(50_000)}}).encode(),
        json.dumps({f"step{i}": {"p2p": {}, "collective": {}} for i in range(100_000)}).encode(),
        ('{"step1":{"collective":{' + ",".join(f'"hcom_a__1_{i}_1@{i}":{{}}' for i in range(100_000)) + "}}}").encode(),
        b"x" * (5 << 20), b'{"a":"' + b"x" * (70 << 20) + b'"}',
    )  # fmt: skip
    content = wholes[number // len(NAMES) % len(wholes)]
    return Planted(lay(directory, {name: content}), rows={"kernel": 1, "span": 1})


def _flip(directory: Path, dice: random.Random, number: int) -> Planted:
    files = {name: damaged(sample(name).encode(), dice) for name in NAMES if dice.random() < 0.6}
    return Planted(lay(directory, files), rows={"kernel": 1, "span": 1})


def _info(directory: Path, dice: random.Random, number: int) -> Planted:
    return _value(NAMES[0], directory, dice, number)


def _metadata(directory: Path, dice: random.Random, number: int) -> Planted:
    return _value(NAMES[1], directory, dice, number)


def _communication(directory: Path, dice: random.Random, number: int) -> Planted:
    return _value(NAMES[2 + number % 2], directory, dice, number)


KINDS = (
    Kind("profiler_info value", 60, _info),
    Kind("profiler_metadata value", 60, _metadata),
    Kind("communication value", 80, _communication),
    Kind("side file key", 60, _key),
    Kind("side file whole", 100, _whole),
    Kind("side file flip", 40, _flip),
)
