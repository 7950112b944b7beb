"""The work of operators beside the tables that TraceLens wrote for the same traces.

A row is equal where operations and bytes both are: GFLOPS and MB of its tables are exact, so nothing is rounded. The
operations of a row may be ours with or without what is no work of the matrix units: TraceLens counts the bias of addmm
and leaves out that of convolutions.
"""

from __future__ import annotations

import ast
import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from npulens.analysis.work.call import Call, Unmodelled, arguments, values
from npulens.analysis.work.families import Work
from npulens.analysis.work.models import work

NAMES = ("GEMM.csv", "unified_perf_summary.csv")
GIGA, MEBI = 10**9, 2**20


@dataclass(frozen=True)
class Row:
    """One row of a table, and what npulens says of the same call."""

    file: Path
    name: str
    category: str
    shapes: str
    types: str
    given: str
    flops: int | None
    bytes: int | None
    ours: Work

    @property
    def flops_equal(self) -> bool:
        return self.flops in (self.ours.flops, self.ours.matrix)

    @property
    def bytes_equal(self) -> bool:
        return self.bytes == self.ours.bytes


def tables(place: Path) -> list[Path]:
    """Every table of rows with operations and bytes below a directory."""
    return sorted(path for name in NAMES for path in place.rglob(name))


def rows(path: Path) -> Iterator[Row]:
    """The rows of a table for which TraceLens has a model."""
    csv.field_size_limit(sys.maxsize)
    ending = "_first" if path.name == "GEMM.csv" else ""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["GFLOPS" + ending]:
                columns = (row[key + ending] for key in ("Input Dims", "Input type", "Concrete Inputs"))
                shapes, types, given = map(_json, columns)
                yield Row(
                    path, row["name"], row.get("op category", "GEMM"), shapes, types, given,
                    _exact(row["GFLOPS" + ending], GIGA), _exact(row["Data Moved (MB)" + ending], MEBI),
                    modelled(row["name"], shapes, types, given, row.get("kernel_details_summary", "")),
                )  # fmt: skip


def modelled(name: str, shapes: str, types: str, given: str, kernel: str = "") -> Work:
    """What npulens says of a call that Kineto wrote."""
    try:
        return work(Call(name, arguments(shapes, types, None, kernel), values(given)))
    except Unmodelled as refused:
        return Work("unknown", None, None, None, reason=refused.reason)


def _json(text: str) -> str:
    """Lists and tuples as Python prints them, as Kineto writes them."""
    return json.dumps(ast.literal_eval(text))


def _exact(text: str, unit: int) -> int | None:
    """A whole number that was divided by a unit; None where the cell is empty."""
    return round(Fraction(text) * unit) if text else None
