"""Runtime calls that take many times their like, because what they are for is used for the first time.

A call counts under an operator that runs for the first time, or right before the first launch of a kernel. Such a call
is not among its like. In a short capture most calls of a name are first uses, and their median would call that usual.

Where no other call of the name is left, some are still known to take microseconds otherwise. These are the launch of
one kernel, a question about a kernel or a device, and the making of a stream. So is a free under an operator that gives
nothing back: libraries build their context with one. The caching allocator's own frees lie next to an allocation, and
those of `empty_cache` under no operator.

A library that starts up also takes its time between calls. It asks for the device's properties, makes streams or finds
symbols. All of that lies in the first operator of a thread that uses it (see starts).

cuDNN makes a plan for each new shape of a convolution, and keeps it. For that it asks the runtime about a hundred
kernels or more (see plans).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from npulens.analysis.idle.fresh import Fresh, above
from npulens.analysis.idle.host_names import ALLOC_CALLS, FREE_CALLS, HOST_KINDS, LAYER, NAMES, PINNED_CALLS, names
from npulens.analysis.idle.host_spans import NONE, OPERATOR, HostSpans, hosts
from npulens.analysis.idle.issue import KERNEL, tasks
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: So many times its like; loading on first use took 100 to 60,000 times in the real captures, noise up to 10.
TIMES = 20
#: Loading a module takes milliseconds; anything shorter is noise of the host.
LONG_NS = 1_000_000
#: The longest ones that are looked at; they hold nearly all of the time.
MOST = 1_000

#: A graph of a thousand nodes takes its call milliseconds whenever it is launched: one alone tells nothing.
REPLAYS = r"(^|@)((cuda|hip|cu)GraphLaunch|aclmdl(RI)?Execute)"
#: Calls that take microseconds unless they load a library or build a context first.
_QUICK = (
    rf"{LAYER}(?:(?:cuda|hip|cu)(?:Func|Occupancy|GetSymbol|ModuleGet|KernelGet|GetDevice|SetDevice|DeviceGet|Init|"
    r"StreamCreate|EventCreate)\w*|acl(?:Init|rt(?:SetDevice|GetDevice|CreateContext|CreateStream|CreateEvent)\w*))$"
)
_FREE, _ALLOCATES = rf"{LAYER}(?:{FREE_CALLS})$", rf"{LAYER}(?:{ALLOC_CALLS})$"
_LONG = f"""
    WITH known AS (
        SELECT name, regexp_matches(name, $1) AS quick, regexp_matches(name, $2) AS free,
            regexp_matches(name, $3) AS replays FROM {NAMES} WHERE kind = 'runtime'
    ), long AS MATERIALIZED (
        SELECT DISTINCT rank, name FROM span WHERE kind = 'runtime' AND dur_ns >= {LONG_NS}
    ), alike AS (
        SELECT rank, name, count(*) AS n, min(dur_ns) AS least FROM span SEMI JOIN long USING (rank, name)
        WHERE kind = 'runtime' GROUP BY ALL
    )
    SELECT rank, name, span_id, track, ts_ns, ts_ns + dur_ns AS end_ns, dur_ns, n, quick, free, replays
    FROM span JOIN alike USING (rank, name) JOIN known USING (name)
    WHERE kind = 'runtime' AND dur_ns >= greatest({LONG_NS}, CASE WHEN least < {LONG_NS} THEN {TIMES} * least END)
    ORDER BY dur_ns DESC, span_id
"""
_LIKE = """
    SELECT rank, name, median(dur_ns) FROM span ANTI JOIN (SELECT unnest($1::BIGINT[]) AS span_id) USING (span_id)
    WHERE kind = 'runtime' AND list_contains($2, name) GROUP BY ALL
"""
#: The calls of threads that free: what each is, in order.
_CALLS_BESIDE = """
    SELECT track, span_id, CASE WHEN regexp_matches(name, $2) THEN 1 WHEN regexp_matches(name, $3) THEN 2 ELSE 0 END
    FROM span WHERE kind = 'runtime' AND list_contains($1, track) ORDER BY track, ts_ns, dur_ns DESC, span_id
"""
#: Calls that a library makes when it starts up, by what they are for; an operator's own work makes one kind at most.
_STARTING = (
    r"(?:cuda|hip)GetDeviceProperties\w*", r"(?:cuda|hip|cu)StreamCreate\w*", r"(?:cuda|hip)GetSymbolAddress",
    r"(?:cuda|hip)GetDriverEntryPoint\w*", PINNED_CALLS,
)  # fmt: skip
_KINDS = 2
_WHAT = " ".join(f"WHEN regexp_matches(name, '{LAYER}(?:{one})$') THEN {n}" for n, one in enumerate(_STARTING))
_STARTING_CALLS = f"""
    WITH named AS MATERIALIZED (
        SELECT name, CASE {_WHAT} END AS what FROM {NAMES} WHERE kind = 'runtime'
    )
    SELECT rank, span_id, ts_ns, ts_ns + dur_ns AS end_ns, what::BIGINT AS what
    FROM span JOIN named USING (name) WHERE kind = 'runtime' AND what IS NOT NULL ORDER BY rank, span_id
"""
#: What cuDNN asks of every kernel that may run a convolution; to launch one, an operator asks it of a few.
_ASKED = rf"{LAYER}cudaFuncGetAttributes$"
_ASKING_CALLS = f"""
    SELECT rank, span_id FROM span WHERE kind = 'runtime' AND name IN (
        SELECT name FROM {NAMES} WHERE kind = 'runtime' AND regexp_matches(name, $1)) ORDER BY rank, span_id
"""
#: Operators of some names by time, each with its shapes.
_RUNS = """
    SELECT rank, name, span_id, ts_ns, dur_ns, input_shapes FROM span s LEFT JOIN (
        SELECT span_id, input_shapes FROM host_op
    ) USING (span_id)
    WHERE kind = 'cpu_op' AND (rank, name) IN (SELECT rank, name FROM span WHERE list_contains($1, span_id))
    ORDER BY rank, name, ts_ns
"""
CONVOLUTION = re.compile(r"^aten::\w*conv")
#: Of an operator's name, and the longest of its runs but some.
_OTHERS = """
    SELECT o.span_id, o.name, max(s.dur_ns) FILTER (WHERE NOT list_contains($1, s.span_id))
    FROM (SELECT rank, span_id, name FROM span WHERE list_contains($1, span_id)) o
    JOIN span s ON s.rank = o.rank AND s.name = o.name AND s.kind = 'cpu_op' GROUP BY ALL
"""
#: Operators of the framework: what a user's own does besides is unknown.
_OF_FRAMEWORK = re.compile(r"^(?:aten|cudnn|miopen|c10d)::")


@dataclass(frozen=True)
class LongCall:
    """A runtime call that does something once."""

    rank: int
    begin: int
    end: int
    span: int


def long_calls(run: Run, fresh: Fresh, own: frozenset[int]) -> Iterator[LongCall]:
    """Every call that is long because something is used first; `own` have a name of their own and keep it."""
    rows = run.con.execute(_LONG, [_QUICK, _FREE, REPLAYS]).fetchall()
    rows = [row for row in rows if row[2] not in own and row[0] in run.steps][:MOST]
    over = {start: span for start, span, _, _ in above(run, [row[2] for row in rows])}
    new = [row for row in rows if _is_first(fresh, row, over.get(row[2]))]
    found = run.con.execute(_LIKE, [[row[2] for row in new], sorted({row[1] for row in new})]).fetchall() if new else []
    like = {(rank, name): usual for rank, name, usual in found}
    lone = _giving_nothing_back(run, [(row[3], row[2]) for row in new if row[9] and row[2] in over])
    for rank, name, span, _, begin, end, length, count, quick, _, replays in new:
        usual = like.get((rank, name))
        if usual is None:
            counts = not replays and (count == 1 or quick or span in fresh.launches or span in lone)
        else:
            counts = length >= TIMES * usual
        if counts:
            yield LongCall(rank, begin, end, span)


def _is_first(fresh: Fresh, row: tuple[Any, ...], operator: int | None) -> bool:
    """Whether a call lies under the first run of an operator, or right before the first launch of a kernel.

    A call of its own kind under an operator that runs once may be what that operator always does. A quick one is not.
    """
    rank, begin, count = row[0], row[4], row[7]
    new = operator in fresh.operators or fresh.task_from(rank, begin)
    return new and (operator is None or bool(row[8]) or count > 1 or fresh.operators.get(operator, 2) > 1)


def _giving_nothing_back(run: Run, frees: list[tuple[int, int]]) -> frozenset[int]:
    """Of some frees (track and span) those in a row of frees that no allocation comes before or after."""
    if not frees:
        return frozenset()
    rows = run.con.execute(_CALLS_BESIDE, [sorted({track for track, _ in frees}), _FREE, _ALLOCATES]).fetchall()
    tracks, spans, what = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    others = np.flatnonzero(what != 1)  # calls that free nothing
    found = set()
    for track, span in frees:
        at = int(np.flatnonzero(spans == span)[0])
        after = int(np.searchsorted(others, at))
        beside = others[max(0, after - 1) : after + 1]
        if not (what[beside[tracks[beside] == track]] == 2).any():
            found.add(span)
    return frozenset(found)


def starts(run: Run) -> Iterator[LongCall]:
    """Operators in which a library starts up, until it launches its first kernel.

    One counts that makes two kinds of such calls, as no other of its name and thread does. It takes 20 times any other
    of its name, or is the only one.
    """
    run.get(names)
    calls = run.columns(_STARTING_CALLS)
    for rank in np.unique(calls["rank"]).tolist():
        did = run.get(tasks).get(rank)
        mine = calls["rank"] == rank
        if did is None or len(np.unique(calls["what"][mine])) < _KINDS or not did.linked.any():
            continue
        spans = run.get(hosts).spans(rank)
        over = _operators_over(spans, calls["span_id"][mine])
        begins, ends, what = calls["ts_ns"][mine], calls["end_ns"][mine], calls["what"][mine]
        found = [at for at in np.unique(over[over != NONE]).tolist() if len(np.unique(what[over == at])) >= _KINDS]
        launched = np.sort(did.source_start[did.linked & (did.kinds == KERNEL)])
        for at in _only_ones(run, spans, found):
            within = over == at
            first, last = int(begins[within].min()), int(ends[within].max())
            before, after = int(np.searchsorted(launched, first)), int(np.searchsorted(launched, last))
            begin = max(int(spans.starts[at]), int(launched[before - 1]) if before else 0)
            end = min(int(spans.ends[at]), int(launched[after]) if after < len(launched) else int(spans.ends[at]))
            if end - begin >= LONG_NS:
                yield LongCall(rank, begin, end, int(spans.ids[at]))


def _operators_over(spans: HostSpans, calls: Ints) -> Ints:
    """Of each call the place of the innermost operator around it, or NONE."""
    order = np.argsort(spans.ids, kind="stable")
    found: Ints = order[np.searchsorted(spans.ids, calls, sorter=order)].astype(np.int64)
    up = np.arange(len(found))
    while len(up):
        found[up] = spans.parent[found[up]]
        up = up[found[up] != NONE]
        up = up[spans.kinds[found[up]] != OPERATOR]
    return found


def _only_ones(run: Run, spans: HostSpans, found: list[int]) -> Iterator[int]:
    """Of operators in which a library may start up, those that do it once in their thread, and long."""
    rows = run.con.execute(_OTHERS, [spans.ids[found].tolist()]).fetchall() if found else []
    known = {span: (name, longest) for span, name, longest in rows}
    of = {at: known[int(spans.ids[at])] for at in found}
    times = Counter((int(spans.tracks[at]), of[at][0]) for at in found)
    for at in found:
        name, longest = of[at]
        took = int(spans.ends[at] - spans.starts[at])
        alone = _OF_FRAMEWORK.match(name) is not None and not _has_frames(spans, at)
        far = alone if longest is None else took >= TIMES * longest
        if times[int(spans.tracks[at]), name] == 1 and took >= LONG_NS and far:
            yield at


def _has_frames(spans: HostSpans, at: int) -> bool:
    """Whether Python ran within an operator."""
    inner = (spans.tracks == spans.tracks[at]) & (spans.starts >= spans.starts[at]) & (spans.starts < spans.ends[at])
    return bool((spans.kinds[inner] == HOST_KINDS.index("python")).any())


def plans(run: Run) -> Iterator[LongCall]:
    """Convolutions in which cuDNN makes the plan for a new shape.

    Each asks about 20 kernels or more. It takes 20 times as long as others of its name that ask less. One of those must
    follow: so plans are kept. None of them is made twice, where shapes were recorded, or in a later step.
    """
    run.get(names)
    calls = run.columns(_ASKING_CALLS, [_ASKED])
    asking: set[int] = set()
    for rank in np.unique(calls["rank"]).tolist():
        if rank in run.steps:
            spans = run.get(hosts).spans(rank)
            over = _operators_over(spans, calls["span_id"][calls["rank"] == rank])
            found, times = np.unique(over[over != NONE], return_counts=True)
            asking.update(spans.ids[found[times >= TIMES]].tolist())
    rows = run.con.execute(_RUNS, [sorted(asking)]).fetchall() if asking else []
    for (rank, name), group in itertools.groupby(rows, key=lambda row: (row[0], row[1])):
        if CONVOLUTION.match(name):
            yield from _planned(run, rank, list(group), asking)


def _planned(run: Run, rank: int, rows: list[tuple[Any, ...]], asking: set[int]) -> Iterator[LongCall]:
    """Of the runs of one operator those that make a plan."""
    made = [row for row in rows if row[2] in asking]
    usual = [row[4] for row in rows if row[2] not in asking and row[3] > made[0][3]]
    shapes = Counter(row[5] for row in made if row[5])
    steps = run.steps[rank]
    later = bool(steps) and made[-1][3] >= steps[0].end_ns
    if not usual or later or max(shapes.values(), default=1) > 1:
        return
    least = max(LONG_NS, TIMES * float(np.median(usual)))
    for _, _, span, begin, length, _ in made:
        if length >= least:
            yield LongCall(rank, begin, begin + length, span)
