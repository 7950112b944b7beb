"""From a stored run to points of the history: what it is, what was measured, and the conditions it ran under.

Every run of a store is followed once, when it is loaded or by `catch_up`; loading it again changes nothing. A run that
lost events is kept and never usable. Names of the job come from the description (manifest.json) that `npulens collect`
leaves beside a capture. Without one they come from the run's label, and then runs of one label only are compared.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import history, runs
from npulens.ingest.store.history import AA, Identity, Point

#: Its name, its unit, which way is better, its value.
Figure = tuple[str, str, Literal["lower", "higher"], float]
_PERCENTILES = {0.5: "p50_ns", 0.99: "p99_ns"}


def metrics(con: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str, float]]:
    """Name, unit and value; nothing for a run that is no benchmark. Of all of them lower is better."""
    rows = con.execute("SELECT args FROM summary WHERE starts_with(source, 'bench ') ORDER BY source, args").fetchall()
    for (args,) in rows:
        yield from _of(json.loads(args))


def _of(figure: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    case = f"{figure['variant']} {figure['dtype']}"
    if figure["part"] == "latency" and figure["counts"] and figure["numerics"]:
        for each in figure["quantiles"]:
            if each["level"] in _PERCENTILES and each["high"] is not None:
                yield f"{figure['series']} {_PERCENTILES[each['level']]}", "ns", float(each["value"])
    elif figure["part"] == "versus" and figure["control"]:
        yield f"{case} hot host p50_ns{AA}", "log-ratio", math.log(figure["ratio"])
    elif figure["part"] == "versus" and not figure["withheld"]:
        yield f"{figure['variant']} / {figure['base']} {figure['dtype']} ratio", "ratio", float(figure["ratio"])
    elif figure["part"] == "throughput" and figure["per_second"] > 0:
        yield f"{case} step_ns in a queue of {figure['in_flight']}", "ns", 1e9 / figure["per_second"]


#: Columns of device_time -> metric. Of each, the median over steps and ranks: one slow step is no change of a job.
_PER_STEP = {
    "dur_ns": "step_ns", "computing_ns": "computing_ns", "communication_ns": "communication_ns",
    "communication_not_overlapped_ns": "communication_not_overlapped_ns", "only_waiting_ns": "only_waiting_ns",
    "copy_not_overlapped_ns": "copy_not_overlapped_ns", "idle_ns": "idle_ns", "kernels": "kernel_count",
    "collectives": "collective_count", "copies": "copy_count",
}  # fmt: skip
#: What the manifest of a collection calls the parts of a configuration.
_CONFIGURED = ("variant", "dtype", "batch", "backend", "settings", "configuration")
#: Of a profiler's own settings, those that cost time; others hold names and times that differ from night to night.
_PROFILED = (
    "common_config", "experimental_config", "record_shapes", "with_stack", "with_modules", "profile_memory",
    "with_flops",
)  # fmt: skip
_STEPLESS = "capture_"
#: Shapes that are read at once.
_AT_ONCE = 10_000
_COUNTED = re.compile(r"( \(\d+\))?$")


def catch_up(where: Path) -> int:
    """Bring every run of the store into the history that is not there yet; how many came."""
    known = history.followed(where)
    return sum(record(where, run) for run in runs.runs(where) if run.run_id not in known)


def after_load(where: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Follow the runs of a load. A history that cannot be written is told where it is read: the load is not lost."""
    with suppress(IngestError, duckdb.Error):
        known = history.followed(where)
        for run_id in {entry["run_id"] for entry in entries} - known - {None}:
            record(where, runs.resolve(where, run_id))


def record(
    where: Path, run: runs.RunInfo, identity: Identity | None = None, night: str | None = None,
    covariates: Mapping[str, str] | None = None,
) -> bool:  # fmt: skip
    """Put the numbers of a run into the history, under an identity that the caller knows better or its own.

    False for a run that cannot be opened: it is of an older version, or was deleted meanwhile.
    """
    found = numbers(where, run, identity, night, covariates)
    if found is not None:
        history.replace_run(where, run.run_id, *found)
    return found is not None


def numbers(
    where: Path, run: runs.RunInfo, identity: Identity | None = None, night: str | None = None,
    covariates: Mapping[str, str] | None = None, figures: Iterable[Figure] | None = None,
) -> tuple[Identity, list[Point]] | None:  # fmt: skip
    """What `record` keeps, or ``figures`` that were measured elsewhere; None for a run that cannot be opened."""
    try:
        con = runs.open_run(where, run.run_id, threads=1)  # a second one holds as much again, and is no faster here
    except IngestError as error:
        if error.kind in ("old_run", "unknown_run", "damaged_run"):
            return None
        raise
    with con:
        told = _mapping(runs.manifest(where, run.run_id).get("collected"))
        ranks = [dict(zip(_RANK, row, strict=True)) for row in con.execute(_OF_RANKS).fetchall()]
        identity = identity or _identity(con, run, ranks, told)
        said = _covariates(con, ranks, told) | dict(covariates or {})
        at_ns = _at(con, run)
        night = night or datetime.fromtimestamp(at_ns / 1e9, UTC).date().isoformat()
        reason = None if run.baseline else run.reason or Message("it_holds_no_events")
        points = [
            Point(identity.key, name, unit, better, value, at_ns, night, run.run_id, run.baseline, said, reason)
            for name, unit, better, value in figures or ((*each[:2], "lower", each[2]) for each in _metrics(con))
        ]
    return identity, points


_RANK = ("rank", "device_name", "backend", "host", "profiler_level", "settings", "versions", "environment")
_OF_RANKS = f"SELECT {', '.join(_RANK)} FROM rank ORDER BY rank"


def _at(con: duckdb.DuckDBPyConnection, run: runs.RunInfo) -> int:
    """When it ran; when it was loaded where the capture's clock has no known zero."""
    rows = con.execute("SELECT clock FROM run").fetchall()
    if rows and rows[0][0] == "unix":
        return run.origin_ns
    return int(datetime.fromisoformat(run.loaded_at).timestamp()) * 10**9


def _metrics(con: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str, float]]:
    """Name, unit and value of everything the run measured; of whole captures where no steps were recorded."""
    stepped = bool(con.execute("SELECT 1 FROM device_time WHERE step IS NOT NULL LIMIT 1").fetchall())
    asked = ", ".join(f"median({column})" for column in _PER_STEP)
    within = "IS NOT NULL" if stepped else "IS NULL"
    (values,) = con.execute(f"SELECT {asked} FROM device_time WHERE step {within}").fetchall()
    for name, value in zip(_PER_STEP.values(), values, strict=True):
        if value is not None:
            yield ("" if stepped else _STEPLESS) + name, "ns" if name.endswith("_ns") else "count", float(value)
    ((most,),) = con.execute("SELECT max(reserved_bytes) FROM memory_sample").fetchall()
    if most is not None:
        yield "memory_reserved_peak_bytes", "bytes", float(most)
    yield from metrics(con)


def _identity(
    con: duckdb.DuckDBPyConnection, run: runs.RunInfo, ranks: list[dict[str, Any]], told: Mapping[str, Any]
) -> Identity:
    devices = [each["device_name"] or each["backend"] or "" for each in ranks]
    world = run.world_size or len(ranks) + len(run.missing_ranks or ())
    profiled = [{k: v for k, v in _object(each["settings"]).items() if k in _PROFILED} for each in ranks]
    levels = sorted({each["profiler_level"] for each in ranks} - {None})
    rest = {
        "told": {name: told[name] for name in _CONFIGURED if name in told}, "command": _arguments(told),
        "profiled": sorted({json.dumps(each, sort_keys=True) for each in profiled}), "ranks": run.ranks,
        "formats": run.formats, "redacted": run.redacted,
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True, default=str).encode()).hexdigest()[:8]
    cpu = _mapping(_mapping(told.get("environment")).get("cpu"))
    return Identity(
        workload=_workload(run, told),
        configuration=" · ".join([f"{world} rank{'s' * (world > 1)}", *levels, digest]),
        shapes=_as_text(told.get("shape") or told.get("shapes") or _shapes(con)),
        hardware=f"{world} x {' + '.join(sorted(set(devices)))}" if any(devices) else "",
        host=" · ".join(str(cpu[name]) for name in ("model", "cores") if cpu.get(name)),
    )


def _shapes(con: duckdb.DuckDBPyConnection) -> str:
    """A digest of what the matrices and convolutions of a job multiply: those that a change of its kernels keeps."""
    rows = con.execute(
        "SELECT input_shapes FROM kernel WHERE regexp_matches(op_type, '(?i)matmul|conv') "
        "AND input_shapes <> '' UNION SELECT input_shapes FROM host_op WHERE input_shapes <> '' "
        "AND span_id IN (SELECT span_id FROM span WHERE starts_with(name, 'aten::') "
        "AND regexp_matches(name, '^aten::(conv|mm|bmm|addmm|linear|matmul)')) ORDER BY 1"
    )
    found, digest = 0, hashlib.sha256()
    while some := rows.fetchmany(_AT_ONCE):  # a job whose shapes hardly repeat has a million
        digest.update((b", " if found else b"[") + json.dumps(some)[1:-1].encode())
        found += len(some)
    digest.update(b"]")
    return f"{found} of products · {digest.hexdigest()[:8]}" if found else ""


def workload(where: Path, run: runs.RunInfo) -> str:
    """What the job of a run is called; a run that nothing names is a workload of its own."""
    return _workload(run, _mapping(runs.manifest(where, run.run_id).get("collected"))) or run.run_id


def _workload(run: runs.RunInfo, told: Mapping[str, Any]) -> str:
    """What a job is called: as its collector says, its script, or the label without the count of namesakes."""
    named = told.get("workload")
    if isinstance(named, str) and named:
        return named
    command = _command(told)
    scripts = [Path(word).name for word in command if word.endswith((".py", ".sh"))]
    return (scripts or [_COUNTED.sub("", run.label or "")])[0]


def _command(told: Mapping[str, Any]) -> list[str]:
    command = told.get("command")
    return [str(word) for word in command] if isinstance(command, list) else []


def _arguments(told: Mapping[str, Any]) -> list[str]:
    """The command without the places that differ from night to night."""
    return [Path(word).name if "/" in word else word for word in _command(told)]


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {inner}" for name, inner in sorted(value.items()))
    return value if isinstance(value, str) else json.dumps(value)


def _covariates(
    con: duckdb.DuckDBPyConnection, ranks: list[dict[str, Any]], told: Mapping[str, Any]
) -> dict[str, str]:
    """The conditions: versions, settings, hosts and clocks, of all ranks together."""
    found: dict[str, set[str]] = {}
    for rank in ranks:
        found.setdefault("host", set()).add(rank["host"] or "")
        for column, prefix in (("versions", ""), ("environment", "env ")):
            for name, value in _object(rank[column]).items():
                found.setdefault(prefix + str(name).removesuffix("_version"), set()).add(_as_text(value))
    environment = _mapping(told.get("environment"))
    for name in ("cann", "driver", "commit", "python", "platform"):
        found.setdefault(name, set()).add(str(environment.get(name) or ""))
    for prefix, key in (("", "versions"), ("env ", "variables"), ("cpu ", "cpu")):
        for name, value in _mapping(environment.get(key)).items():
            if name != "load":  # of the moment: it differs always and explains little
                found.setdefault(prefix + str(name), set()).add(_as_text(value) if value else "")
    ((clock,),) = con.execute("SELECT median(value) FROM sample WHERE counter = 'AI Core Freq'").fetchall()
    if clock is not None:
        found["AI Core MHz"] = {f"{clock:g}"}
    return {name: " | ".join(sorted(values - {""})) for name, values in found.items() if values - {""}}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _object(text: str | None) -> dict[str, Any]:
    """The JSON object of a column; what a capture wrote that is none says nothing."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
