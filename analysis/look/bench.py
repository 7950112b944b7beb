"""A benchmark of a run: its figures part by part, and the samples behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

Figure = Mapping[str, Any]
#: Points of one distribution: more are not seen.
_POINTS = 400
#: Of a distribution this part of the points goes to the slowest hundredth, where the percentiles that matter lie.
_TAIL = 0.99


@dataclass(frozen=True)
class Bench:
    """What was measured and on what; ``figures`` in the order they were made."""

    about: Mapping[str, Any]
    device: str | None
    versions: Mapping[str, Any]
    variables: Mapping[str, Any]
    figures: tuple[Figure, ...]

    def part(self, name: str) -> tuple[Figure, ...]:
        """The figures of one part: numerics, latency, versus, throughput, batch, together, sweep."""
        return tuple(figure for figure in self.figures if figure["part"] == name)


def bench(con: duckdb.DuckDBPyConnection) -> Bench | None:
    """The benchmark that a run is; None for a trace."""
    rows = con.execute("SELECT args FROM summary WHERE starts_with(source, 'bench ')").fetchall()
    if not rows:
        return None
    settings, device, versions, variables = con.execute(
        "SELECT settings, device_name, versions, environment FROM rank ORDER BY rank LIMIT 1"
    ).fetchall()[0]
    return Bench(
        _object(settings), device, _object(versions), _object(variables), tuple(json.loads(row[0]) for row in rows)
    )


def _object(text: str | None) -> dict[str, Any]:
    found = json.loads(text or "{}")
    return found if isinstance(found, dict) else {}


def distribution(con: duckdb.DuckDBPyConnection, series: Sequence[str], since: Sequence[int]) -> pd.DataFrame:
    """series, share, ns: of each series the share of its calls that took at most so long.

    ``since`` is the first call of each that counts. Every point is a call that was measured. Where there are too many
    to draw, it is every so-many-th of them, and of the slowest hundredth as many again.
    """
    return con.execute(
        "WITH asked AS (SELECT unnest($series) AS counter, unnest($since) AS since), "
        "placed AS (SELECT counter, value, row_number() OVER (PARTITION BY counter ORDER BY ts_ns) - 1 AS place "
        "FROM sample WHERE series = 'ns'), "
        "ordered AS (SELECT counter, value, row_number() OVER (PARTITION BY counter ORDER BY value) AS nth, "
        "count(*) OVER (PARTITION BY counter) AS n FROM placed JOIN asked USING (counter) WHERE place >= since) "
        "SELECT counter AS series, nth / n AS share, value AS ns FROM ordered "
        "WHERE nth IN (1, n) OR nth % greatest(1, n // $points) = 0 "
        "OR (nth > $tail * n AND nth % greatest(1, (n - $tail * n)::BIGINT // $points) = 0) ORDER BY counter, nth",
        {"series": list(series), "since": list(since), "points": _POINTS, "tail": _TAIL},
    ).df()


def course(con: duckdb.DuckDBPyConnection, series: str) -> pd.DataFrame:
    """place, ns: the calls of a series in their order, of every slice of them the fastest and the slowest."""
    return con.execute(
        "WITH placed AS (SELECT value AS ns, row_number() OVER (ORDER BY ts_ns) - 1 AS place, count(*) OVER () AS n "
        "FROM sample WHERE series = 'ns' AND counter = $series), "
        "kept AS (SELECT unnest([arg_min(place, ns), arg_max(place, ns)]) AS place FROM placed "
        "GROUP BY place * $points // n) "
        "SELECT DISTINCT place, ns FROM placed SEMI JOIN kept USING (place) ORDER BY place",
        {"series": series, "points": _POINTS},
    ).df()


def headline(found: Bench) -> Figure | None:
    """What a benchmark is mostly asked for: the fastest variant that is believed to differ from the baseline."""
    believed = [each for each in found.part("versus") if not each["control"] and not each.get("withheld")]
    different = [each for each in believed if each["said"] == "different"]
    return min(different or believed, key=lambda each: float(each["ratio"]), default=None)
