"""Forged and damaged archives, each made from a genuine one of a CPU; its hashes are repaired where a forger would."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.collectors.simulator.simulated import AscendOptions, SimConfig, simulate, write_both

MANIFEST = "evidence.json"
LATE, LOADER, COPIES = (f"recordings/{name}/" for name in ("host_late", "loader_sleeps", "copies"))
#: Kineto's own frame around everything, which the events in memory do not have.
_FRAME = "PyTorch Profiler (0)"


class Archive:
    """The members of an archive, in order; changed and written again with or without a manifest that fits."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}

    @property
    def manifest(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.files[MANIFEST])
        return told

    def say(self, told: Mapping[str, Any]) -> None:
        self.files[MANIFEST] = json.dumps(told).encode()

    def repair(self) -> None:
        """A manifest that lists what is there."""
        listed = {
            name: [len(data), hashlib.sha256(data).hexdigest()] for name, data in self.files.items() if name != MANIFEST
        }
        self.say({**self.manifest, "files": listed})

    def only(self, names: set[str]) -> None:
        """Leaves the recordings of these names, and nothing else that takes long."""
        told = self.manifest
        told["recordings"] = [each for each in told["recordings"] if each[0] in names]
        self.files = {
            name: data for name, data in self.files.items()
            if name == MANIFEST or (name.startswith("recordings/") and name.split("/")[1] in names)
        }  # fmt: skip
        self.say(told)
        self.repair()

    def truth(self, recording: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.files[f"{recording}truth.json"])
        return told

    def tell(self, recording: str, truth: Mapping[str, Any]) -> None:
        self.files[f"{recording}truth.json"] = json.dumps(truth).encode()

    def trace(self, recording: str) -> tuple[str, dict[str, Any]]:
        name = next(name for name in self.files if name.startswith(f"{recording}capture/"))
        return name, json.loads(gzip.decompress(self.files[name]))

    def events(self, recording: str, change: Callable[[dict[str, Any]], bool], both: bool = True) -> None:
        """Changes each event of a trace, or drops it where ``change`` says so; ``both``: in the other export, too."""
        name, trace = self.trace(recording)
        base = int(trace["baseTimeNanoseconds"])
        kept, gone = [], []
        second = []
        for event in trace["traceEvents"]:
            before = _seen(event, base)
            drop = event.get("ph") == "X" and change(event)
            (gone if drop else kept).append(event)
            if before is not None and event["name"] != _FRAME and not drop:
                second.append(_seen(event, base))
        self.files[name] = gzip.compress(json.dumps({**trace, "traceEvents": kept}).encode(), mtime=0)
        if both:
            self.files[f"{recording}second.json"] = json.dumps(second).encode()

    def write(self, path: Path) -> Path:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in self.files.items():
                archive.writestr(name, data)
        return path


def _seen(event: Mapping[str, Any], base: int) -> list[Any] | None:
    """An event as the profiler's memory holds it."""
    if event.get("ph") != "X":
        return None
    return [event["name"], base + round(event["ts"] * 1000), round(event["dur"] * 1000)]


# Every function gets a genuine archive, another genuine one of the same challenge, and where to write.
Made = Callable[[Path, Path, Path], Path]


def flipped(genuine: Path, _: Path, target: Path) -> Path:
    """One byte of a trace, a digit of a start, with the hash repaired."""
    archive = Archive(genuine)
    name, _trace = archive.trace(LATE)
    text = bytearray(gzip.decompress(archive.files[name]))
    places = [found.start(1) for found in re.finditer(rb'"name": "aten::mm"[^}]*?"ts": \d+\.\d\d(\d)', bytes(text))]
    at = random.Random(3).choice(places)
    text[at] = ord("0") + (text[at] - ord("0") + 1) % 10
    archive.files[name] = gzip.compress(bytes(text), mtime=0)
    archive.repair()
    return archive.write(target)


def longer(genuine: Path, _: Path, target: Path) -> Path:
    """The duration of one operator, with the hash repaired."""
    archive, done = Archive(genuine), []

    def change(event: dict[str, Any]) -> bool:
        if event["name"] == "aten::mm" and not done:
            event["dur"] *= 0.5
            done.append(event)
        return False

    archive.events(LATE, change, both=False)
    archive.repair()
    return archive.write(target)


def scaled(genuine: Path, _: Path, target: Path) -> Path:
    """All times of a recording last nine tenths, in both of its exports."""

    def change(event: dict[str, Any]) -> bool:
        event["dur"] *= 0.9
        return False

    archive = Archive(genuine)
    archive.events(LATE, change)
    archive.repair()
    return archive.write(target)


def removed(genuine: Path, _: Path, target: Path) -> Path:
    """One kernel, out of both exports."""
    archive, done = Archive(genuine), []

    def change(event: dict[str, Any]) -> bool:
        if event["name"] == "aten::clamp_min" and not done:
            done.append(event)
            return True
        return False

    archive.events(LATE, change)
    archive.repair()
    return archive.write(target)


def slept_more(genuine: Path, _: Path, target: Path) -> Path:
    """The truth says that every sleep took half as long again."""
    archive = Archive(genuine)
    truth = archive.truth(LATE)
    archive.tell(LATE, {**truth, "slept_ns": [ns * 3 // 2 for ns in truth["slept_ns"]]})
    archive.repair()
    return archive.write(target)


def other_word(genuine: Path, _: Path, target: Path) -> Path:
    """The manifest names another challenge than the one that the run had."""
    archive = Archive(genuine)
    archive.say({**archive.manifest, "challenge": "another"})
    return archive.write(target)


def without(genuine: Path, _: Path, target: Path) -> Path:
    """A file is missing."""
    archive = Archive(genuine)
    del archive.files[archive.trace(COPIES)[0]]
    return archive.write(target)


def with_more(genuine: Path, _: Path, target: Path) -> Path:
    """A file is extra."""
    archive = Archive(genuine)
    archive.files["recordings/host_late/capture/notes.txt"] = b"nothing to see"
    return archive.write(target)


def cut(genuine: Path, _: Path, target: Path) -> Path:
    """A transfer that ended early."""
    data = genuine.read_bytes()
    target.write_bytes(data[: len(data) * 2 // 3])
    return target


def leading_out(genuine: Path, _: Path, target: Path) -> Path:
    """A member that would be written beside the archive."""
    archive = Archive(genuine)
    archive.files["../../.profile"] = b"echo here"
    archive.repair()
    return archive.write(target)


def bomb(genuine: Path, _: Path, target: Path) -> Path:
    """A member of gigabytes in a few megabytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros, size, crc = bytes(1 << 20), 3000 << 20, 0
    out = io.BytesIO()
    for _ in range(size >> 20):
        out.write(packer.compress(zeros))
        crc = zlib.crc32(zeros, crc)
    out.write(packer.flush())
    archive = Archive(genuine)
    archive.files["recordings/host_late/capture/zeros.json"] = b"0"
    archive.write(target)
    _put_in(target, b"recordings/host_late/capture/zeros.json", out.getvalue(), size, crc)
    return target


def _put_in(target: Path, name: bytes, packed: bytes, size: int, crc: int) -> None:
    """Replaces the last member of an archive by packed bytes, with lengths and checksum that fit."""
    data = target.read_bytes()
    at = data.rindex(name, 0, data.index(b"PK\x01\x02")) - 30
    header = bytearray(data[at : at + 30])
    struct.pack_into("<3L", header, 14, crc, len(packed), size)
    central = data.index(b"PK\x01\x02", at)
    end = data.index(b"PK\x05\x06", central)
    entries = bytearray(data[central:end])
    entry = entries.rindex(b"PK\x01\x02")
    struct.pack_into("<3L", entries, entry + 16, crc, len(packed), size)
    tail = bytearray(data[end:])
    body = data[:at] + bytes(header) + name + packed
    struct.pack_into("<L", tail, 16, len(body))
    target.write_bytes(body + bytes(entries) + bytes(tail))


def claimed(genuine: Path, _: Path, target: Path) -> Path:
    """A CPU's archive, said to be an NPU's wherever it says so."""
    archive = Archive(genuine)
    archive.say({**archive.manifest, "backend": "npu", "device": "Ascend910B2"})
    for name in [name for name in archive.files if name.endswith("truth.json")]:
        home = name.removesuffix("truth.json")
        archive.tell(home, {**archive.truth(home), "backend": "npu"})
    archive.repair()
    return archive.write(target)


def exchanged(genuine: Path, other: Path, target: Path) -> Path:
    """A recording of another archive of the same challenge, with its truth."""
    archive, theirs = Archive(genuine), Archive(other)
    archive.files = {name: data for name, data in archive.files.items() if not name.startswith(LATE)}
    archive.files |= {name: data for name, data in theirs.files.items() if name.startswith(LATE)}
    archive.repair()
    return archive.write(target)


def disagreeing(genuine: Path, _: Path, target: Path) -> Path:
    """The second export of a recording tells another duration than its trace."""
    archive = Archive(genuine)
    second = json.loads(archive.files[f"{LATE}second.json"])
    at = next(place for place, (name, _, _) in enumerate(second) if name == "aten::mm")
    second[at][2] += 1
    archive.files[f"{LATE}second.json"] = json.dumps(second).encode()
    archive.repair()
    return archive.write(target)


def other_values(genuine: Path, _: Path, target: Path) -> Path:
    """A value of the numerics, off by half of itself."""
    archive = Archive(genuine)
    lines = [json.loads(line) for line in archive.files["numerics.jsonl"].splitlines()]
    case = next(line for line in lines if line["outcome"] == "run" and line["dtype"] == "float32")
    place = max(range(len(case["values"][0])), key=lambda at: abs(case["values"][0][at]))
    case["values"][0][place] *= 1.5
    archive.files["numerics.jsonl"] = "".join(json.dumps(line) + "\n" for line in lines).encode()
    archive.repair()
    return archive.write(target)


def simulated(genuine: Path, _: Path, target: Path) -> Path:
    """Our simulator as an NPU: its captures in place of the recordings, every truth and clock made to fit them."""
    archive = Archive(genuine)
    told = archive.manifest
    archive.files = {
        name: data for name, data in archive.files.items() if "/capture/" not in name and "second" not in name
    }
    for place, (name, _part) in enumerate(told["recordings"]):
        home = f"recordings/{name}/"
        truths = sorted(each for each in archive.files if each.startswith(f"{home}truth"))
        truth = json.loads(archive.files[truths[0]])
        for each in truths[1:]:
            del archive.files[each]
        begun, ended = truth["begun"], truth["ended"]
        steps = len(truth["steps"])
        with tempfile.TemporaryDirectory() as scratch:
            config = SimConfig(seed=place, ranks=1, steps=steps, layers=2, start_ns=begun["wall_ns"] + 1_000_000)
            job = simulate(config)
            write_both(job, Path(scratch), AscendOptions("Level2"))
            for path in sorted(Path(scratch).rglob("*")):
                if path.is_file():
                    data = path.read_bytes()
                    if path.name.startswith("profiler_info"):
                        data = re.sub(rb'("start_monotonic": )\d+', rb"\g<1>%d" % (begun["monotonic_ns"] + 1), data)
                    archive.files[f"{home}capture/{path.relative_to(scratch).as_posix()}"] = data
            marks = [span for span in job.ranks[0].spans if span.name.startswith("ProfilerStep")]
            pid = job.ranks[0].pid
        truth["steps"] = [[span.ts_ns, span.end_ns] for span in marks]
        archive.files[truths[0]] = json.dumps(
            {**truth, "backend": "npu", "pid": pid, "begun": begun, "ended": ended}
        ).encode()
    archive.say({**told, "backend": "npu", "device": "Ascend910B2", "versions": {"torch_npu": "2.7.1"}})
    archive.repair()
    return archive.write(target)


@dataclass(frozen=True)
class Forgery:
    """One archive, and the checks of which at least one has to refuse it; a kind of error if it is none at all."""

    made: Made
    checks: tuple[str, ...]
    error: str | None = None

    @property
    def what(self) -> str:
        return (self.made.__doc__ or "").strip().rstrip(".")


FORGERIES = (
    Forgery(flipped, ("exports",)),
    Forgery(longer, ("exports",)),
    Forgery(scaled, ("planted_span",)),
    Forgery(removed, ("repeated",)),
    Forgery(slept_more, ("planted",)),
    Forgery(other_word, ("planned",)),
    Forgery(without, ("files",)),
    Forgery(with_more, ("files",)),
    Forgery(cut, ("whole",)),
    Forgery(leading_out, ("whole",)),
    Forgery(bomb, (), "archive_bomb"),
    Forgery(claimed, ("backend",)),
    Forgery(exchanged, ("order",)),
    Forgery(disagreeing, ("exports",)),
    Forgery(other_values, ("numerics",)),
    Forgery(simulated, ("raw", "grid", "jitter", "busy_cores", "planted_span")),
)
