"""A benchmark of ``npulens bench``: manifest.json with its figures, samples.json with every sample.

A benchmark is no trace: it has neither spans nor steps. Its figures go into ``summary``, one row each with all it says
as JSON. Its samples go into ``sample``, each at the moment its call began, so that a drift shows. Figures that their
own samples contradict are refused: one of the two files was changed, or belongs to another benchmark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, restored, stored, verbatim
from npulens.ingest.readers import Claim
from npulens.ingest.readers.bench.benchmark import Figure, Latency, Manifest, Samples, Versus, contradiction
from npulens.ingest.tables import schema
from npulens.ingest.tables.draft import Draft

TITLE = "benchmark of npulens"

NAME, SAMPLES = "manifest.json", "samples.json"
_HEAD = re.compile(rb'^\s*\{\s*"what"\s*:\s*"bench"')
#: Ours have up to some hundred kilobytes, and some ten megabytes.
_LARGEST = {NAME: 16 << 20, SAMPLES: 128 << 20}
_TRACE = "npulens collect"
_SUMMARY = pa.schema(
    [("source", pa.string()), ("name", pa.string()), ("category", pa.string()), ("count", pa.int64()),
     ("min_ns", pa.int64()), ("max_ns", pa.int64()), ("args", pa.string())]
)  # fmt: skip
_SAMPLE = pa.schema([("counter", pa.string()), ("series", pa.string()), ("ts_ns", pa.int64()), ("value", pa.float64())])
#: What is told of the device while it was measured -> its unit.
_TELEMETRY = {"clock_mhz": "MHz", "busy_share": "share", "temperature_c": "C", "power_w": "W"}


def sniff(path: Path) -> Claim | None:
    """A directory with a manifest that says so, or that manifest."""
    manifest = path / NAME if peek.at(path).is_dir else path
    if manifest.name != NAME or manifest.is_symlink() or not manifest.is_file():
        return None
    with manifest.open("rb") as stream:
        if not _HEAD.match(stream.read(256)):
            return None
    beside = manifest.with_name(SAMPLES)
    files = (manifest, beside) if beside.is_file() and not beside.is_symlink() else (manifest,)
    return Claim("bench", manifest.parent, files)


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft with figures and samples."""
    manifest = _manifest(next(path for path in claim.files if path.name == NAME))
    samples = _samples(next((path for path in claim.files if path.name == SAMPLES), None), draft)
    figures = list(_figures(manifest, draft))
    if not figures:
        raise IngestError("empty", Message("benchmark_ended_before_figure"), str(claim.root))
    for figure in figures:
        if wrong := contradiction(figure, samples):
            name = f"{figure.variant} {figure.dtype}"
            text = Message("benchmark_figure_not_trusted", {"name": name, "why": wrong})
            raise IngestError("contradiction", text, str(claim.root))
    if manifest.status != "complete":
        why = restored(manifest.reason, stored(manifest.said))
        draft.partial(None, verbatim(why) if why else Message("benchmark_did_not_end"))
    _write(figures, samples, manifest, draft)
    _facts(manifest, draft)
    for table in schema.tables():
        if table not in ("run", "rank", "coverage", "device_time", "checked", "summary", "sample"):
            draft.absent(table, Message("benchmark_holds_no_trace"), f"{_TRACE} {manifest.workload}")


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST[path.name]:
        raise IngestError(
            "too_large", Message("is_larger_than_mb", {"file": path.name, "n": _LARGEST[path.name] >> 20}), str(path)
        )
    return path.read_bytes()


def _manifest(path: Path) -> Manifest:
    try:
        return msgspec.json.decode(_bytes(path), type=Manifest)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise IngestError(
            "damaged", Message("benchmark_manifest_cannot_be_read", {"error": error}), str(path)
        ) from error


def _samples(path: Path | None, draft: Draft) -> dict[str, Samples]:
    """Every series by name; without the file the figures stand alone, and the run is partial."""
    if path is None:
        draft.partial(None, Message("benchmark_samples_missing"))
        return {}
    try:
        return msgspec.json.decode(_bytes(path), type=dict[str, Samples])
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        draft.partial(None, Message("file_cannot_be_read", {"file": "samples.json", "error": error}))
        return {}


def _figures(manifest: Manifest, draft: Draft) -> Iterator[Figure]:
    lost = 0
    for raw in manifest.figures:
        try:
            yield msgspec.json.decode(raw, type=Figure)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            lost += 1
    if lost:
        draft.drop("summary", Message("benchmark_figures_that_cannot"), lost)
        draft.partial(None, Message("benchmark_figures_cannot_be_read", {"n": lost}))


def _write(figures: list[Figure], samples: dict[str, Samples], manifest: Manifest, draft: Draft) -> None:
    draft.table("bench_figures", [_row(figure) for figure in figures], _SUMMARY)
    draft.provide("summary", "SELECT * FROM bench_figures")
    rows = pa.Table.from_batches([*_stamped(samples), *_told(manifest)], _SAMPLE)
    if not rows.num_rows:
        draft.absent("sample", Message("benchmark_samples_without_time"))
        return
    draft.table("bench_samples", rows)
    draft.provide("sample", "SELECT * FROM bench_samples")
    without = sum(len(each.ns) for each in samples.values() if not _timed(each))
    if without:
        draft.note("sample", Message("benchmark_warm_ups_without_time", {"n": without}))


def _row(figure: Figure) -> dict[str, object]:
    """One figure; what it says in full is in ``args``."""
    part = str(type(figure).__struct_config__.tag)
    count = figure.samples if isinstance(figure, Latency) else figure.pairs if isinstance(figure, Versus) else None
    low, high = (figure.min, figure.max) if isinstance(figure, Latency) else (None, None)
    return {
        "source": f"bench {part}", "name": figure.variant, "category": figure.dtype, "count": count, "min_ns": low,
        "max_ns": high, "args": msgspec.json.encode(figure).decode(),
    }  # fmt: skip


def _timed(series: Samples) -> bool:
    return series.at_ns is not None and len(series.at_ns) == len(series.ns) > 0


def _stamped(samples: dict[str, Samples]) -> Iterator[pa.RecordBatch]:
    """Each series as a counter of its name."""
    for name, series in samples.items():
        if _timed(series):
            count = len(series.ns)
            columns = [pa.array([name] * count), pa.array(["ns"] * count), pa.array(series.at_ns, pa.int64()),
                       pa.array(series.ns, pa.float64())]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=_SAMPLE)


def _told(manifest: Manifest) -> Iterator[pa.RecordBatch]:
    """The device's own words about its state, at the moments it was asked."""
    rows = [
        {"counter": name.rpartition("_")[0], "series": unit, "ts_ns": at, "value": float(value)}
        for each in manifest.telemetry
        if isinstance(at := each.get("at_ns"), int) and 0 <= at < 2**62
        for name, unit in _TELEMETRY.items()
        if isinstance(value := each.get(name), int | float) and abs(value) < 1e30
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=_SAMPLE)


def _facts(manifest: Manifest, draft: Draft) -> None:
    environment = manifest.environment
    name = manifest.device.get("name")
    draft.fact("backend", manifest.evidence)
    draft.fact("device_name", name[:200] if isinstance(name, str) else None)
    draft.fact("versions", json.dumps(_object(environment.get("versions"))))
    draft.fact("environment", json.dumps(_object(environment.get("variables"))))
    told: dict[str, Any] = {
        name: getattr(manifest, name)
        for name in ("workload", "shape", "sizes", "evidence", "status", "reason", "made_at", "method", "device",
                     "backend", "command")
    }  # fmt: skip
    rest = {key: value for key, value in environment.items() if key not in ("versions", "variables")}
    draft.fact("settings", json.dumps({**told, "environment": rest}, ensure_ascii=False))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
