"""What several sources tell of one request, in one row.

They are joined by the request's id, else by the order in which requests were sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npulens.ingest.tables.concatenate import arrow

Row = dict[str, Any]

#: Sources in the order in which they are believed; what a client says of lengths comes after what the server says.
_ORDER = ("otlp", "sglang", "msserviceprofiler", "ascend_trace", "client", "aiperf", "bench")
_CLIENTS = frozenset(("client", "aiperf", "bench"))
#: Stamps of a request, by whose clock they are.
_OF_CLIENT = ("send_ts_ns", "client_first_ts_ns", "client_end_ts_ns")
_OF_SERVER = ("arrival_ts_ns", "queued_ts_ns", "scheduled_ts_ns", "first_token_ts_ns", "last_token_ts_ns", "end_ts_ns")
#: Letters that a server may put behind an id, after a dash.
_BEHIND = 8
#: Share of stamps that may not come before what they follow, for two clocks to be one.
_SAME = 0.9
#: Two stamps of one clock may cross by so much: they are taken in different processes.
_CROSS_NS = 1_000_000


@dataclass(frozen=True)
class Told:
    """The tables of one source, with stamps as they were recorded."""

    source: str
    clock: str  # 'unix', 'monotonic' or 'none'
    tables: Mapping[str, pa.Table]

    def of_client(self) -> bool:
        return self.source in _CLIENTS


@dataclass(frozen=True)
class Pairing:
    """How a client's clock was put on its server's."""

    source: str
    target: str
    pairs: int
    offset_ns: int | None
    low_ns: int | None
    median_ns: int | None
    high_ns: int | None
    how: str


@dataclass
class Merged:
    """Requests in order of time; ``keys`` says for each source which one each of its rows has become."""

    rows: list[Row] = field(default_factory=list)
    keys: list[NDArray[np.int64]] = field(default_factory=list)
    shifts: list[int] = field(default_factory=list)  # what is added to the stamps of each source
    pairings: list[Pairing] = field(default_factory=list)


def merge(told: Sequence[Told]) -> Merged:
    """All requests, each once."""
    order = sorted(range(len(told)), key=lambda at: (_rank(told[at].source), at))
    rows: list[Row] = []
    homes: dict[int, list[int]] = {}
    shifts = dict.fromkeys(range(len(told)), 0)
    pairings = []
    for at in order:
        own = told[at].tables["request"].to_pylist()
        found = _matched(own, rows, told[at].source)
        if told[at].of_client():
            pairing = _clocks(told[at], own, rows, found)
            if pairing is not None:
                pairings.append(pairing)
                shifts[at] = pairing.offset_ns or 0
        homes[at] = []
        for row, home in zip(own, found, strict=True):
            _move(row, shifts[at])
            if home is None:
                homes[at].append(len(rows))
                rows.append(row)
            else:
                homes[at].append(home)
                _fill(rows[home], row)
    for row in rows:
        _bounds(row)
    ranked = sorted(range(len(rows)), key=lambda one: (rows[one]["ts_ns"] or 0, str(rows[one]["request_id"])))
    place = np.zeros(len(rows), np.int64)
    place[ranked] = np.arange(len(rows))
    for number, one in enumerate(ranked):
        rows[one]["request"] = number
    keys = [place[np.array(homes[at], np.int64)] if homes[at] else np.zeros(0, np.int64) for at in range(len(told))]
    return Merged([rows[one] for one in ranked], keys, [shifts[at] for at in range(len(told))], pairings)


def table(rows: Sequence[Row], origin: int) -> pa.Table:
    """The requests as they are stored."""
    stamps = [name for name in arrow("request").names if name == "ts_ns" or name.endswith("_ts_ns")]
    moved = [{**row, **{name: row[name] - origin for name in stamps if row[name] is not None}} for row in rows]
    return pa.Table.from_pylist(moved, schema=arrow("request"))


def _rank(source: str) -> int:
    return _ORDER.index(source) if source in _ORDER else len(_ORDER)


def _matched(own: Sequence[Row], rows: Sequence[Row], source: str) -> list[int | None]:
    """For each row the request that it is of, if there is one; none gets two rows of one file."""
    by_id: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        by_id[row["request_id"]].append(at)
    short: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        head, dash, tail = row["request_id"].rpartition("-")
        if dash and len(tail) == _BEHIND:
            short[head].append(at)
    taken = set[int]()
    found: list[int | None] = []
    for row in own:
        name = row["request_id"]
        near = [at for at in by_id.get(name) or short.get(name) or () if at not in taken and _fits(rows[at], row)]
        best = min(near, key=lambda at: abs((rows[at]["ts_ns"] or 0) - (row["ts_ns"] or 0)), default=None)
        if best is not None:
            taken.add(best)
        found.append(best)
    if source == "bench" and not taken and rows:
        return _in_order(own, rows)
    return found


def _fits(row: Row, other: Row) -> bool:
    """Whether nothing speaks against two rows being of one request."""
    return all(row[name] is None or other[name] is None or row[name] == other[name] for name in ("engine", "trace_id"))


def _in_order(own: Sequence[Row], rows: Sequence[Row]) -> list[int | None]:
    """A benchmark keeps no ids: its n-th request is the n-th of the server, if prompts are as long."""
    ranked = sorted(range(len(rows)), key=lambda at: rows[at]["ts_ns"] or 0)
    sent = sorted(range(len(own)), key=lambda at: own[at]["ts_ns"] or 0)
    lengths = [rows[at]["prompt_tokens"] for at in ranked]
    mine = [own[at]["prompt_tokens"] for at in sent]
    found: list[int | None] = [None] * len(own)
    if len(mine) <= len(lengths) and None not in mine and lengths[len(lengths) - len(mine) :] == mine:
        for at, home in zip(sent, ranked[len(ranked) - len(mine) :], strict=True):
            found[at] = home
    return found


def _clocks(told: Told, own: Sequence[Row], rows: Sequence[Row], found: Sequence[int | None]) -> Pairing | None:
    """What is added to a client's stamps: nothing where causality allows it, else the middle of what it allows.

    A request cannot arrive before it is sent, and its first token cannot reach the client before the server has it.
    """
    pairs = [(row, rows[home]) for row, home in zip(own, found, strict=True) if home is not None]
    sent = _differences(pairs, "send_ts_ns", "arrival_ts_ns")
    came = _differences(pairs, "client_first_ts_ns", "first_token_ts_ns")
    target = "otlp" if any(server["source"] == "otlp" for _, server in pairs) else "server"
    if not len(sent):
        return None
    least, most = int(came.max()) if len(came) else None, int(sent.min())
    fits = np.concatenate([sent >= -_CROSS_NS, came <= _CROSS_NS])  # a clock that was set right jumps for a few of them
    if told.clock == "unix" and fits.mean() >= _SAME:
        return Pairing(told.source, target, len(pairs), 0, most, int(np.median(sent)), int(sent.max()), "unix")
    if least is None:
        return Pairing(told.source, target, len(pairs), most, None, None, most, "causality")
    return Pairing(told.source, target, len(pairs), (least + most) // 2, min(least, most), None, max(least, most),
                   "causality")  # fmt: skip


def _differences(pairs: Sequence[tuple[Row, Row]], of_client: str, of_server: str) -> NDArray[np.int64]:
    """By how much the server's stamp comes after the client's."""
    both = [(row[of_client], server[of_server]) for row, server in pairs]
    return np.array([b - a for a, b in both if a is not None and b is not None], np.int64)


def _move(row: Row, by: int) -> None:
    if by:
        for name in ("ts_ns", *_OF_CLIENT):
            if row[name] is not None:
                row[name] += by


def _fill(row: Row, other: Row) -> None:
    """What the first source leaves open; where clients and servers differ, the server's word stands."""
    sources = dict.fromkeys([*row["source"].split(", "), other["source"]])
    for name, value in other.items():
        if row.get(name) is None:
            row[name] = value
    row["source"] = ", ".join(sorted(sources, key=_rank))


def _bounds(row: Row) -> None:
    """From the first to the last moment that anything tells of."""
    known = [row[name] for name in (*_OF_CLIENT, *_OF_SERVER, "ts_ns") if row[name] is not None]
    if row["ts_ns"] is not None and row["dur_ns"] is not None:
        known.append(row["ts_ns"] + row["dur_ns"])
    row["ts_ns"] = min(known, default=None)
    row["dur_ns"] = max(known) - row["ts_ns"] if known else None
