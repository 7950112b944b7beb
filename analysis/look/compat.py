"""Operators of PyTorch's that a run called, by name, and which others each of them called."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from npulens.analysis.compat.answers import Seen
from npulens.analysis.compat.registry import Registry, UnknownRelease

#: Of no device: profilers, autograd's own marks, and communication, whose library is another.
_NOT_OPERATORS = ("autograd", "profiler", "c10d", "_c10d_functional", "_c10d_functional_autograd", "nccl", "hccl")
_NAME = r"\w+::\w+(\.\w+)?"


@dataclass(frozen=True)
class Called:
    """What a run's host recorded, and the releases that its ranks name."""

    seen: tuple[Seen, ...]
    torch_npu: str | None
    torch: str | None


def called(con: duckdb.DuckDBPyConnection) -> Called:
    """Every operator by name; a call is the program's own where no operator lies directly around it."""
    rows = con.execute(
        "WITH op AS (SELECT span_id, parent_id, name FROM span "
        "WHERE kind = 'cpu_op' AND regexp_full_match(name, ?) AND NOT list_contains(?, split_part(name, '::', 1))) "
        "SELECT op.name, above.name, count(*) FROM op LEFT JOIN op AS above ON op.parent_id = above.span_id "
        "GROUP BY ALL ORDER BY ALL", [_NAME, list(_NOT_OPERATORS)],
    ).fetchall()  # fmt: skip
    outer: dict[str, int] = {}
    parts: dict[str, list[str]] = {}
    for name, above, count in rows:
        outer[name] = outer.get(name, 0) + (count if above is None else 0)
        if above is not None:
            parts.setdefault(above, []).append(name)
    seen = tuple(Seen(name, count, parts=tuple(parts.get(name, ()))) for name, count in outer.items())
    versions = _versions(con)
    return Called(seen, versions.get("torch_npu_version"), versions.get("torch_version"))


def _versions(con: duckdb.DuckDBPyConnection) -> Mapping[str, str]:
    """What the first rank that says so runs with."""
    for (told,) in con.execute("SELECT versions FROM rank WHERE versions IS NOT NULL ORDER BY rank").fetchall():
        try:
            found = json.loads(told)
        except ValueError:
            continue
        if isinstance(found, dict):
            return {str(name): str(value) for name, value in found.items()}
    return {}


def nearest(found: Called, known: Registry) -> str:
    """The release that a run names, else the newest for its torch, else the newest of all."""
    for asked in (found.torch_npu, re.sub(r"[+a-z].*$", "", found.torch or "")):
        if asked:
            try:
                return known.releases[known.place(asked)].torch_npu
            except UnknownRelease as error:
                if error.near is not None:
                    return error.near
    return known.releases[-1].torch_npu
