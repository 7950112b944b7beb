"""Checked by the file itself: what the profiler summed, beside the same sums over the spans that were stored.

A profiler that writes its own split gives a free check of everything that reading decided. That is what counts as
computing, and what as communication. Each of its sums is compared with the sums that one of the rules in use gives. The
first rule of a quantity is the one that this program goes by. Where it is off by more than a hundredth, that is said.
With it stands the rule that does reproduce the file, or that none does.

Pieces of a union belong, whole, to the step in which they start, as the profiler counts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message, joined
from npulens.ingest.tables.held import Bools, among, bools, ints
from npulens.ingest.tables.in_order import Spans, in_order
from npulens.ingest.tables.steps import Ints

#: A sum that is off by more than this share of the file's, and by more than this time, is said.
OFF_SHARE, OFF_NS = 0.01, 10_000
_BATCH, _NOTHING = 20_480, np.iinfo(np.int64).min

COMPUTING, COMMUNICATION, KERNELS, OPERATORS = "computing", "communication", "kernels", "operators"
#: Rules of each quantity, the first of them our own: name -> spans, and whether overlaps count once.
_RULES: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    COMPUTING: {
        "kernels": ("kind IN ('kernel', 'memset')", True),
        "kernels-AI CPU": (
            "kind IN ('kernel', 'memset') AND span_id NOT IN (SELECT span_id FROM {kernel} WHERE core = 'AI_CPU')", True
        ),
    },
    COMMUNICATION: {
        "operators": ("kind = 'comm_op'", True),
        "tasks": (
            "kind = 'comm_task' AND span_id IN (SELECT span_id FROM {comm} WHERE by_stream IS NOT TRUE)", True
        ),
    },
    KERNELS: {
        "kernels": ("kind IN ('kernel', 'memset')", False),
        "kernels+operators": ("kind IN ('kernel', 'memset', 'comm_op')", False),
    },
    OPERATORS: {"operators": ("kind = 'comm_op'", False)},
}  # fmt: skip

#: The same rules where the tables are held in memory.
_HELD: Mapping[tuple[str, str], Callable[[Mapping[str, pa.Table]], Bools]] = {
    (COMPUTING, "kernels"): lambda tables: among(tables["span"]["kind"], "kernel", "memset"),
    (COMPUTING, "kernels-AI CPU"): lambda tables: (
        among(tables["span"]["kind"], "kernel", "memset")
        & ~_of(tables, "kernel", among(tables["kernel"]["core"], "AI_CPU"))
    ),
    (COMMUNICATION, "operators"): lambda tables: among(tables["span"]["kind"], "comm_op"),
    (COMMUNICATION, "tasks"): lambda tables: (
        among(tables["span"]["kind"], "comm_task") & _of(tables, "comm", ~bools(tables["comm"]["by_stream"]))
    ),
    (KERNELS, "kernels"): lambda tables: among(tables["span"]["kind"], "kernel", "memset"),
    (KERNELS, "kernels+operators"): lambda tables: among(tables["span"]["kind"], "kernel", "memset", "comm_op"),
    (OPERATORS, "operators"): lambda tables: among(tables["span"]["kind"], "comm_op"),
}


def _of(tables: Mapping[str, pa.Table], table: str, rows: Bools) -> Bools:
    """Which spans have one of these rows of a table."""
    return np.isin(ints(tables["span"]["span_id"]), ints(tables[table]["span_id"])[rows])


@dataclass(frozen=True)
class FileSum:
    """A sum that a file of the capture holds; without a step it is of the whole capture."""

    source: str
    table: str  # the contract table whose coverage tells of it
    quantity: str
    step: int | None
    ns: int


@dataclass(frozen=True)
class Check:
    """A sum of a file beside ours; rule: which one reproduces the file, None if none does."""

    said: FileSum
    ours_ns: int  # by our own rule
    rule: str | None
    own: str  # what our own rule is called

    @property
    def agrees(self) -> bool:
        return self.rule == self.own


def check(
    con: duckdb.DuckDBPyConnection, sources: Mapping[str, str], rank: int, told: Iterable[FileSum],
    steps: Sequence[tuple[int, int]], kept: Callable[[str], str],
) -> list[Check]:  # fmt: skip
    """Compare what files of a rank said.

    ``sources``: where the tables lie. ``steps``: number and begin of each, in order of time, on the device where the
    profiler says so. ``kept`` holds the rows of a SELECT that is asked several times, and says where.
    """

    def batches(quantity: str, rule: str) -> Iterator[tuple[Ints, Ints]]:
        where, _ = _RULES[quantity][rule]
        return _batches(con, kept(
            f"SELECT 0 AS track, ts_ns, ts_ns + dur_ns AS end_ns FROM {sources['span']} WHERE rank = {rank} "
            f"AND {where.format(**sources)}"
        ))  # fmt: skip

    return _compared(told, steps, batches)


def check_held(
    told: Iterable[FileSum], steps: Sequence[tuple[int, int]], tables: Mapping[str, pa.Table]
) -> list[Check]:
    """The same of a rank whose tables are held in memory."""

    def batches(quantity: str, rule: str) -> Iterator[tuple[Ints, Ints]]:
        spans = tables["span"].filter(pa.array(_HELD[quantity, rule](tables)))
        starts, ends = ints(spans["ts_ns"]), ints(spans["ts_ns"]) + ints(spans["dur_ns"])
        order = np.lexsort((ends, starts))
        if len(order):
            yield starts[order], ends[order]

    return _compared(told, steps, batches)


def _compared(
    told: Iterable[FileSum], steps: Sequence[tuple[int, int]],
    batches: Callable[[str, str], Iterator[tuple[Ints, Ints]]],
) -> list[Check]:  # fmt: skip
    def summed(quantity: str, rule: str) -> _Sums:
        return _sum(_pieces(batches(quantity, rule), once=_RULES[quantity][rule][1]), steps)

    known = {number for number, _ in steps}
    wanted: dict[str, list[FileSum]] = {}
    for one in told:
        if one.step is None or one.step in known:
            wanted.setdefault(one.quantity, []).append(one)
    found: list[Check] = []
    for quantity, sums in wanted.items():
        rules = _RULES[quantity]
        own, *others = rules
        by_rule = {own: summed(quantity, own)}
        if not by_rule[own].any:
            continue  # nothing of the kind was read: coverage says so
        for one in sums:
            rule = own if _near(by_rule[own].of(one.step), one.ns) else None
            for other in others if rule is None else ():
                if other not in by_rule:
                    by_rule[other] = summed(quantity, other)
                if rule is None and by_rule[other].any and _near(by_rule[other].of(one.step), one.ns):
                    rule = other
            found.append(Check(one, by_rule[own].of(one.step), rule, own))
    return found


def of_tables(con: duckdb.DuckDBPyConnection, sources: Mapping[str, str]) -> list[FileSum]:
    """What the tables hold of the profiler's own sums: its split, its lanes, its statistics."""
    said: list[FileSum] = []
    split = con.execute(
        f"SELECT step, computing_ns, communication_ns, source, count(*) OVER (PARTITION BY source) "
        f"FROM {sources['profiler_step']} WHERE source NOT ILIKE 'cluster%'"
    ).fetchall()
    for step, computing, communication, source, rows in split:
        for quantity, ns in ((COMPUTING, computing), (COMMUNICATION, communication)):
            if ns is not None and (step is not None or rows == 1):
                said.append(FileSum(source, "profiler_step", quantity, step, ns))
    lanes = con.execute(
        f"SELECT name, TRY_CAST(sum(dur_ns) AS BIGINT) FROM {sources['span']} WHERE kind = 'profiler_split' "
        "AND name IN ('Computing', 'Communication') GROUP BY name ORDER BY name"
    ).fetchall()
    said += [FileSum("Overlap Analysis", "span", name.lower(), None, ns) for name, ns in lanes if ns is not None]
    total = con.execute(
        f"SELECT TRY_CAST(sum(total_ns) AS BIGINT) FROM {sources['summary']} WHERE source = 'op_statistic' "
        "AND upper(coalesce(category, '')) NOT IN ('HCCL', 'COMMUNICATION')"
    ).fetchall()[0][0]
    return said + ([] if total is None else [FileSum("op_statistic.csv", "summary", KERNELS, None, total)])


def of_held(tables: Mapping[str, pa.Table]) -> list[FileSum]:
    """The same of tables that are held in memory."""
    said: list[FileSum] = []
    rows = [
        row for row in tables["profiler_step"].to_pylist()
        if row["source"] is not None and not row["source"].lower().startswith("cluster")
    ]  # fmt: skip
    many = Counter(row["source"] for row in rows)
    for row in rows:
        for quantity, ns in ((COMPUTING, row["computing_ns"]), (COMMUNICATION, row["communication_ns"])):
            if ns is not None and (row["step"] is not None or many[row["source"]] == 1):
                said.append(FileSum(row["source"], "profiler_step", quantity, row["step"], ns))
    spans = tables["span"]
    for name in ("Communication", "Computing"):
        lane = among(spans["kind"], "profiler_split") & among(spans["name"], name)
        ns = _whole(spans["dur_ns"].filter(pa.array(lane)))
        if ns is not None:
            said.append(FileSum("Overlap Analysis", "span", name.lower(), None, ns))
    summary = tables["summary"]
    talks = among(pc.utf8_upper(summary["category"]), "HCCL", "COMMUNICATION")
    total = _whole(summary["total_ns"].filter(pa.array(among(summary["source"], "op_statistic") & ~talks)))
    return said + ([] if total is None else [FileSum("op_statistic.csv", "summary", KERNELS, None, total)])


def _whole(column: pa.ChunkedArray) -> int | None:
    """The sum of what is there, if 64 bits hold it."""
    values = [value for value in column.to_pylist() if value is not None]
    total = sum(values)
    return total if values and -(2**63) <= total < 2**63 else None


def sentences(checks: Iterable[Check]) -> Iterator[tuple[str, bool, Message]]:
    """(table, whether no rule fits, sentence) of what disagrees: of alike ones that which is off most."""
    worst: dict[tuple[str, str, str | None], Check] = {}
    for one in checks:
        key = (one.said.source, one.said.quantity, one.rule)
        if not one.agrees and (key not in worst or _off(one) > _off(worst[key])):
            worst[key] = one
    for one in worst.values():
        yield one.said.table, one.rule is None, _sentence(one)


def rows(checks: Iterable[Check], rank: int, shape: pa.Schema) -> pa.Table:
    """The table ``checked``."""
    found = [
        {"rank": rank, "source": one.said.source, "step": one.said.step, "quantity": one.said.quantity,
         "file_ns": one.said.ns, "ours_ns": one.ours_ns, "rule": one.rule}
        for one in checks
    ]  # fmt: skip
    return pa.Table.from_pylist(found, schema=shape)


def _sentence(one: Check) -> Message:
    """What is off, and the rule by which the file counts."""
    step = "" if one.said.step is None else Message("at_step", {"n": one.said.step})
    source, file, ours = one.said.source, f"{one.said.ns / 1e6:.3f}", f"{one.ours_ns / 1e6:.3f}"
    text = {
        COMPUTING: Message(
            "says_ms_computing_kernels_read", {"source": source, "file": file, "step": step, "ours": ours}
        ),
        COMMUNICATION: Message(
            "says_ms_communication_operators_read", {"source": source, "file": file, "step": step, "ours": ours}
        ),
        KERNELS: Message("lists_kernels_ms_together_those", {"source": source, "file": file, "ours": ours}),
        OPERATORS: Message("lists_operators_ms_together_those", {"source": source, "file": file, "ours": ours}),
    }[one.said.quantity]
    return joined([text, _COUNTS[one.rule]])


#: What a file counts that our own rule does not reproduce.
_COUNTS = {
    None: Message("no_rule_in_use_reproduces"),
    "tasks": Message("file_counts_union_their_tasks"),
    "kernels+operators": Message("file_counts_communication_operators_as"),
    "kernels-AI CPU": Message("file_counts_no_kernels_ai"),
}


def _near(ours: int, file: int) -> bool:
    return abs(ours - file) <= max(OFF_NS, OFF_SHARE * abs(file))


def _off(one: Check) -> int:
    return abs(one.ours_ns - one.said.ns)


@dataclass(frozen=True)
class _Sums:
    """Of one rule: the whole, and each step."""

    whole: int
    steps: Mapping[int, int]
    any: bool

    def of(self, step: int | None) -> int:
        return self.whole if step is None else self.steps.get(step, 0)


def _sum(pieces: Iterable[tuple[Ints, Ints]], steps: Sequence[tuple[int, int]]) -> _Sums:
    begins = np.array([begin for _, begin in steps], np.int64)
    whole, of_steps, some = 0, np.zeros(len(steps), np.int64), False
    for starts, ends in pieces:
        some = True
        lengths = ends - starts
        whole += (int((lengths >> 32).sum()) << 32) + int((lengths & 0xFFFFFFFF).sum())  # beyond 64 bits, too
        if len(steps):
            at = np.searchsorted(begins, starts, side="right") - 1
            np.add.at(of_steps, at[at >= 0], (ends - starts)[at >= 0])
    return _Sums(whole, {number: int(ns) for (number, _), ns in zip(steps, of_steps, strict=True)}, some)


def _batches(con: duckdb.DuckDBPyConnection, table: str) -> Iterator[tuple[Ints, Ints]]:
    for batch in in_order(con, Spans(table, then="end_ns"), _BATCH):
        starts, ends = (np.asarray(batch.column(name).to_numpy(False)) for name in ("ts_ns", "end_ns"))
        yield starts, ends


def _pieces(batches: Iterable[tuple[Ints, Ints]], *, once: bool) -> Iterator[tuple[Ints, Ints]]:
    """The spans in batches, merged where overlaps count once; the last piece of a batch waits for the next."""
    begin, end = 0, _NOTHING
    for starts, ends in batches:
        if not once:
            yield starts, ends
            continue
        if end != _NOTHING:
            starts, ends = np.concatenate((np.array([begin]), starts)), np.concatenate((np.array([end]), ends))
        reach = np.maximum.accumulate(ends)
        first = np.flatnonzero(np.concatenate((np.array([True]), starts[1:] > reach[:-1])))
        lasts = np.concatenate((first[1:] - 1, np.array([len(starts) - 1])))
        begin, end = int(starts[first[-1]]), int(reach[-1])
        yield starts[first[:-1]], reach[lasts[:-1]]
    if end != _NOTHING:
        yield np.array([begin], np.int64), np.array([end], np.int64)
