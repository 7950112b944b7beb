"""Numbers of a benchmark for the history: what can be compared night after night.

Of latencies only steady ones of variants that are right; of comparisons the ratio, and the control as the noise of the
baseline's latency; of throughput the time a step, so that lower is better everywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from npulens.ingest.store.history import AA

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
