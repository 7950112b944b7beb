"""The profiler's own sums of a small rank: the same as ../../read_torch_npu_db.py says in SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.db.few.spans import All
from npulens.ingest.readers.ascend.rankdir import double_hash
from npulens.ingest.tables.arrays import NONE, Found, Rows, Unusual
from npulens.ingest.tables.json_text import as_json, double
from npulens.ingest.tables.steps import Ints

_MS, _US, _MB, _GB = 1_000_000, 1_000, 1_000_000, 1_000_000_000
_NOTHING = (None, "N/A", "NA", "", "INVALID_TYPE")
#: A longer name is not that of a group.
_LONG = 4096
_TIMES = ("transit", "wait", "synchronization", "idle")
_BANDWIDTH = (
    "transport_type", "transit_size", "transit_time", "bandwidth", "large_packet_ratio", "package_size", "count",
    "total_duration",
)  # fmt: skip

Row = Mapping[str, object]


@dataclass(frozen=True)
class Analysed:
    """The analysis of each operator of communication: its row, -1: none; and the times of each analysis."""

    of_operator: Ints
    times: Mapping[str, Ints]


def times(value: object, factor: int) -> int | None:
    """A time or a size in our unit, where 64 bits hold it."""
    if not isinstance(value, int | float):
        return None
    product = value * factor
    if not math.isfinite(product):
        return None
    whole = math.floor(abs(product))
    rounded = whole + (abs(product) - whole >= 0.5)
    signed = rounded if product >= 0 else -rounded
    return signed if -(2**63) <= signed < 2**63 else None


def make(made: All, steps: Sequence[tuple[str, str]]) -> Analysed:
    """Give comm_link and profiler_step, and arguments of operators; ``steps``: their columns, theirs and ours."""
    operators = made.operators
    names = {name for name in operators.group.list if name is not None and len(name) < _LONG}
    groups = {double_hash(name): name for name in names}
    if len(groups) < len(names):
        raise Unusual
    _links(made.found, made.raws["CommAnalyzerMatrix"].table.to_pylist(), groups)
    _steps(made.found, made.raws["StepTraceTime"].table.to_pylist(), steps)
    rows = made.raws["CommAnalyzerTime"].table.to_pylist()
    operator = _matched(made, rows, groups)
    unmatched = [
        row for row, of in zip(rows, operator, strict=True)
        if of < 0 and row["hccl_op_name"] is not None and not row["hccl_op_name"].startswith("Total")
    ]  # fmt: skip
    made.found.dropped.append(("comm", Message("analyses_operators_that_communication_op"), len(unmatched)))
    of_operator = np.full(len(operators.ids), -1, np.int64)
    for number, of in enumerate(operator):
        if of >= 0:
            of_operator[of] = number
    _bandwidths(made, rows, operator)
    found = {
        f"{name}_ns": np.array([_or_none(times(row[f"{name}_time"], _MS)) for row in rows], np.int64) for name in _TIMES
    }
    return Analysed(of_operator, found)


def _or_none(value: int | None) -> int:
    return NONE if value is None else value


def _links(found: Found, rows: Sequence[Row], groups: Mapping[str, str]) -> None:
    made = []
    for row in rows:
        bandwidth, op_name, transport = row["bandwidth"], row["op_name"], row["transport_type"]
        made.append({
            "step": row["step"], "scope": row["type"], "collective": row["hccl_op_name"],
            "group_name": groups.get(str(row["group_name"]), row["group_name"]),
            "op_name": None if op_name in _NOTHING else op_name, "src_rank": _small(row["src_rank"]),
            "dst_rank": _small(row["dst_rank"]), "transport": None if transport in _NOTHING else transport,
            "bytes": times(row["transit_size"], _MB), "transit_ns": times(row["transit_time"], _MS),
            "bandwidth_bytes_per_s": bandwidth * _GB if isinstance(bandwidth, float) else None,
        })  # fmt: skip
    found.tables["comm_link"] = [pa.Table.from_pylist(made, _LINK)]


_TEXT, _WHOLE = pa.string(), pa.int64()
_LINK = pa.schema([
    ("step", _TEXT), ("scope", _TEXT), ("collective", _TEXT), ("group_name", _TEXT), ("op_name", _TEXT),
    ("src_rank", _WHOLE), ("dst_rank", _WHOLE), ("transport", _TEXT), ("bytes", _WHOLE), ("transit_ns", _WHOLE),
    ("bandwidth_bytes_per_s", pa.float64()),
])  # fmt: skip


def _small(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**31 else None


def _steps(found: Found, rows: Sequence[Row], columns: Sequence[tuple[str, str]]) -> None:
    made = []
    for row in rows:
        number = re.search(r"[0-9]+\Z", str(row["step"] or ""))
        step = int(number[0]) if number and len(number[0]) < 4000 else None
        made.append({
            "step": step if step is not None and step < 2**63 else None,
            **{ours: times(row[theirs], _US) for theirs, ours in columns}, "source": "StepTraceTime",
        })  # fmt: skip
    shape = [("step", _WHOLE), *((ours, _WHOLE) for _, ours in columns), ("source", _TEXT)]
    found.tables["profiler_step"] = [pa.Table.from_pylist(made, pa.schema(shape))]


def _matched(made: All, rows: Sequence[Row], groups: Mapping[str, str]) -> list[int]:
    """To each analysis its operator: the same name and group, and where a name repeats, the nearest start; or -1.

    Of several analyses of an operator the first is its own.
    """
    operators = made.operators
    by_name: dict[str | None, list[tuple[int, str | None, int]]] = {}
    names, of_group, begins = operators.name.list, operators.group.list, operators.ts.tolist()
    for number in np.flatnonzero(operators.lasting).tolist():
        by_name.setdefault(names[number], []).append((begins[number], of_group[number], number))
    matched, taken = [], set()
    for row in rows:
        group, begin = groups.get(str(row["group_name"])), times(row["start_timestamp"], _US)
        called = row["hccl_op_name"]
        same_name = by_name.get(called, []) if isinstance(called, str) else []
        near = [
            (0 if begin is None else abs(begin - ts), number)
            for ts, of, number in same_name if group is None or of == group
        ]  # fmt: skip
        operator = min(near)[1] if near else -1
        matched.append(-1 if operator in taken else operator)
        taken.add(operator)
    return matched


def _bandwidths(made: All, rows: Sequence[Row], operator: Sequence[int]) -> None:
    """How an operator's bytes went, as its argument."""
    listed: Rows = made.raws["CommAnalyzerBandwidth"]
    by_key: dict[object, list[str]] = {}
    for row in listed.table.to_pylist():
        if row["hccl_op_name"] is not None:
            text = ",".join(f'"{name}":{_value(row[name])}' for name in _BANDWIDTH)
            by_key.setdefault((row["hccl_op_name"], row["group_name"], row["step"]), []).append(f"{{{text}}}")
    ids, args = [], []
    for row, of in zip(rows, operator, strict=True):
        sent = by_key.get((row["hccl_op_name"], row["group_name"], row["step"]))
        if of >= 0 and sent:
            ids.append(int(made.operators.ids[of]))
            args.append(f'{{"Communication Bandwidth Info":[{",".join(sent)}]}}')
    made.found.give("arg", {"span_id": pa.array(ids, pa.int64()), "args": pa.array(args, pa.string())})


def _value(value: object) -> str:
    """A cell as DuckDB writes it in JSON."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return as_json(value)
    return double(float(str(value)))
