"""What lies behind one group of kernels: the pipes of the cores, the cores it uses, and the code it comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, prod

import duckdb
import pandas as pd

from npulens.analysis.device.abilities import UNNAMED, device
from npulens.analysis.idle.origin import Origin, origin
from npulens.analysis.kept import ready
from npulens.analysis.look.kernels import Filter, chosen_sql, values
from npulens.analysis.run import Run

#: Host operators and call stacks that are listed; the rest is counted.
_MOST_OPS, _MOST_STACKS = 50, 12


def pipes(con: duckdb.DuckDBPyConnection, level: str, key: int, what: Filter) -> pd.DataFrame:
    """Every counter of the group's kernels. `mean` weighs each kernel with its length: for a ratio that is the share of
    the group's whole time. `value` sums and extremes are as the profiler wrote them."""
    return con.execute(
        f"""
        WITH {chosen_sql(con, level)}
        SELECT
            p.metric, count(*) AS count, sum(p.value * c.dur_ns) / nullif(sum(c.dur_ns), 0) AS mean,
            min(p.value) AS least, median(p.value) AS middle, max(p.value) AS most
        FROM chosen c JOIN pmu p USING (span_id) WHERE c.starts AND c.key = $key GROUP BY p.metric ORDER BY p.metric
        """,
        {**values(what), "key": key},
    ).fetchdf()


@dataclass(frozen=True)
class Blocks:
    """Kernels of a group with one block count on one kind of device."""

    core: str | None
    blocks: int
    count: int
    total_ns: int
    ranks: tuple[int, ...]
    device: str | None
    named: bool  # the device is told by its name, not by what the capture shows of it
    cores: int | None  # of the device, of this kind; None: not known
    waves: int | None  # rounds in which the cores work the blocks off; None for CUDA: blocks share multiprocessors
    used: float | None  # of the cores, over these rounds


def blocks(con: duckdb.DuckDBPyConnection, level: str, key: int, what: Filter) -> tuple[Blocks, ...]:
    """Into how many blocks the group's kernels were split, against the cores there are. Empty: not recorded."""
    rows = con.execute(
        f"""
        WITH {chosen_sql(con, level)}
        SELECT core, nullif(block_num, 0) AS blocks, grid, rank, count(*), sum(dur_ns)::BIGINT FROM chosen
        WHERE starts AND key = $key AND (block_num > 0 OR grid IS NOT NULL) GROUP BY ALL ORDER BY ALL
        """,
        {**values(what), "key": key},
    ).fetchall()
    run = Run.of(con)
    found: dict[tuple[str | None, int, bool, str | None, int | None], list[tuple[int, int, int]]] = {}
    for core, count, grid, rank, times, total in rows:
        sides = [int(side) for side in re.findall(r"\d+", grid or "")]
        number = count or (prod(sides) if sides else 0)
        if number:
            here = device(run, rank)
            known = (None, None) if here is None else (here.name, here.cores(core))
            found.setdefault((core, number, count is not None, *known), []).append((rank, times, total))
    return tuple(
        _blocks(core, number, waves, name, cores, members)
        for (core, number, waves, name, cores), members in sorted(
            found.items(), key=lambda item: -sum(total for _, _, total in item[1])
        )
    )


def _blocks(
    core: str | None, number: int, rounds: bool, name: str | None, cores: int | None,
    members: list[tuple[int, int, int]],
) -> Blocks:  # fmt: skip
    waves = ceil(number / cores) if cores and rounds else None
    used = None if not cores else number / (waves * cores) if waves else min(1.0, number / cores)
    return Blocks(
        core, number, sum(times for _, times, _ in members), sum(total for _, _, total in members),
        tuple(sorted({rank for rank, _, _ in members})), name, name not in (None, UNNAMED), cores, waves, used,
    )  # fmt: skip


@dataclass(frozen=True)
class Stack:
    """One call stack, innermost frame first."""

    frames: tuple[str, ...]
    count: int  # kernels that come from it


@dataclass(frozen=True)
class Source:
    """Where the kernels of a group come from."""

    ops: pd.DataFrame  # op (host operator, None: not recorded), call (that launched), count, host_ns of the operator
    linked: int  # kernels with a recorded launch
    count: int  # kernels
    stacks: tuple[Stack, ...]
    stacked: int  # kernels with a call stack
    longest: Origin  # of the longest kernel: its operator and the line of the user's own code


def source(con: duckdb.DuckDBPyConnection, level: str, key: int, what: Filter) -> Source:
    """The host operators, runtime calls and call stacks that the group's kernels were launched from."""
    given = {**values(what), "key": key}
    ready(con, ("kernel_source",))
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE root AS WITH {chosen_sql(con, level)} SELECT k.* FROM kernel_source k "
        "SEMI JOIN (SELECT span_id FROM chosen WHERE starts AND key = $key) mine ON mine.span_id = k.span_id", given,
    )  # fmt: skip
    ops = con.execute("""
        SELECT op, call, count(*) AS count, median(host_ns)::BIGINT AS host_ns
        FROM root GROUP BY ALL ORDER BY count DESC, op, call""").fetchdf()
    stacks = con.execute("""
        SELECT k.frames, count(DISTINCT l.span_id) AS count FROM root l
        JOIN stack k ON k.span_id = coalesce(l.op_id, l.call_id) GROUP BY k.frames ORDER BY count DESC, k.frames
        """).fetchall()
    count, longest = con.execute(
        f"WITH {chosen_sql(con, level)} SELECT count(*), arg_max(span_id, dur_ns) FROM chosen "
        "WHERE starts AND key = $key",
        given,
    ).fetchall()[0]
    return Source(
        ops.head(_MOST_OPS), int(ops["count"].sum()), count,
        tuple(Stack(_frames(frames), times) for frames, times in stacks[:_MOST_STACKS]),
        sum(times for _, times in stacks), Origin(None, None) if longest is None else origin(Run.of(con), longest),
    )  # fmt: skip


def _frames(text: str) -> tuple[str, ...]:
    return tuple(frame.strip() for frame in text.split("\n") if frame.strip())
