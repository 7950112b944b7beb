"""communication.json and communication_matrix.json: the profiler's own analysis of its communication operators.

Sizes are in MB of 10^6 bytes here, unlike in the memory files; times are decimal ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.tables.draft import Draft

_MAX_BYTES = 1 << 30
_US, _MS, _MB, _GB = 1000, 1_000_000, 1_000_000, 1_000_000_000
_TIMES = {
    "transit_ns": "Transit Time(ms)",
    "wait_ns": "Wait Time(ms)",
    "synchronization_ns": "Synchronization Time(ms)",
    "idle_ns": "Idle Time(ms)",
    "elapsed_ns": "Elapse Time(ms)",
}
_ANALYSED = pa.schema(
    [
        ("step", pa.string()), ("scope", pa.string()), ("name", pa.string()), ("hash", pa.string()),
        ("start_ns", pa.int64()), *((name, pa.int64()) for name in _TIMES), ("bandwidth", pa.string()),
    ]
)  # fmt: skip
_MATRIX = pa.schema(
    [
        ("step", pa.string()), ("scope", pa.string()), ("collective", pa.string()), ("group_name", pa.string()),
        ("op_name", pa.string()), ("src_rank", pa.int32()), ("dst_rank", pa.int32()), ("transport", pa.string()),
        ("bytes", pa.int64()), ("transit_ns", pa.int64()), ("bandwidth_bytes_per_s", pa.float64()),
    ]
)  # fmt: skip

#: Text that is not UTF-8 and numbers beyond what Decimal takes come as errors of their own.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, ArithmeticError, RecursionError)
_Raws = dict[str, msgspec.Raw]
_Bad = Callable[[Message], None]


class _Operator(msgspec.Struct):
    times: dict[str, Any] = msgspec.field(name="Communication Time Info", default_factory=dict)
    bandwidth: msgspec.Raw = msgspec.field(name="Communication Bandwidth Info", default_factory=msgspec.Raw)


def read_operators(path: Path | None, draft: Draft) -> None:
    """Make the view ``analysed``: one row per operator of communication.json."""
    decoder = msgspec.json.Decoder(_Operator, float_hook=Decimal)
    rows = []

    def bad(reason: Message) -> None:
        draft.drop("comm", reason)

    for step, scope, key, raw in _entries(path, draft, "comm", bad):
        name, _, group = key.rpartition("@")
        if key.startswith("Total"):
            continue
        try:
            told = decoder.decode(raw)
        except _UNREADABLE:
            bad(Message("operator_communication_json_that_is"))
            continue
        bandwidth = bytes(told.bandwidth).decode("utf-8", "replace")
        rows.append(
            {"step": step, "scope": scope, "name": name or key, "hash": group if name else None,
             "start_ns": _scaled(told.times.get("Start Timestamp(us)"), _US), "bandwidth": bandwidth or None}
            | {ours: _scaled(told.times.get(theirs), _MS) for ours, theirs in _TIMES.items()}
        )  # fmt: skip
    draft.table("analysed", rows, _ANALYSED)


def read_matrix(path: Path | None, draft: Draft, groups: Mapping[str, str]) -> None:
    """Make the view ``matrix`` of communication_matrix.json. ``groups``: hash of a group -> its name."""
    decoder = msgspec.json.Decoder(dict[str, dict[str, Any]], float_hook=Decimal)
    rows = []

    def bad(reason: Message) -> None:
        draft.drop("comm_link", reason)

    for step, scope, key, raw in _entries(path, draft, "comm_link", bad):
        name, _, group = key.rpartition("@")
        try:
            links = decoder.decode(raw)
        except _UNREADABLE:
            bad(Message("entry_communication_matrix_json_that"))
            continue
        for pair, told in links.items():
            src, _, dst = pair.partition("-")
            bandwidth = _decimal(told.get("Bandwidth(GB/s)"))
            rows.append(
                {"step": step, "scope": scope, "collective": name or key,
                 "group_name": groups.get(group, group) if name else None,
                 "op_name": _text(told.get("Op Name")), "src_rank": _rank(src), "dst_rank": _rank(dst),
                 "transport": _text(told.get("Transport Type")), "bytes": _scaled(told.get("Transit Size(MB)"), _MB),
                 "transit_ns": _scaled(told.get("Transit Time(ms)"), _MS),
                 "bandwidth_bytes_per_s": None if bandwidth is None else float(bandwidth * _GB)}
            )  # fmt: skip
    draft.table("matrix", rows, _MATRIX)


def _entries(path: Path | None, draft: Draft, table: str, bad: _Bad) -> Iterator[tuple[str, str, str, msgspec.Raw]]:
    """Step, scope, key and value of every entry; what is damaged loses itself alone where JSON allows it."""
    if path is None:
        return
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            return draft.partial(table, Message("is_larger_than_mb", {"file": path.name, "n": _MAX_BYTES >> 20}))
        steps = msgspec.json.decode(path.read_bytes(), type=_Raws)
        draft.advance(size)
    except (*_UNREADABLE, OSError) as error:
        return draft.partial(table, Message("file_cannot_be_read", {"file": path.name, "error": error}))
    for step, raw_scopes in steps.items():
        try:
            scopes = msgspec.json.decode(raw_scopes, type=_Raws)
            for scope, raw_entries in scopes.items():
                for key, raw in msgspec.json.decode(raw_entries, type=_Raws).items():
                    yield step, scope, key, raw
        except _UNREADABLE:
            bad(Message("part_that_is_not_understood", {"file": path.name}))


def _decimal(value: object) -> Decimal | None:
    try:
        number = Decimal(value) if isinstance(value, int | str | Decimal) and not isinstance(value, bool) else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() and abs(number) < 10**18 else None


def _scaled(value: object, factor: int) -> int | None:
    """A decimal number in units of 1/factor, rounded half to even, that fits 64 bits."""
    number = _decimal(value)
    if number is None:
        return None
    whole = int((number * factor).to_integral_value(ROUND_HALF_EVEN))
    return whole if abs(whole) <= 4 * 10**18 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "N/A") else None


def _rank(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None
