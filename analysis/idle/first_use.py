"""What a process does once: the first use of an operator or a library, and the recording of a graph.

A library loads its kernels, picks algorithms and builds its context when it is first used. That takes milliseconds to
seconds and does not come back. There are nine signs of it. All but the last two count within the first recorded step,
if the job had just begun. Where no steps were marked they count anywhere. A serving engine's steps do not tell whether
it had: of them only `call` and `start` count, in the first. Its number may say that the loop has run before. Then
`call` and `operator` count no more: they may be first in nothing but the recording. The signs:

* `call`: a runtime call of at least 20 times its like, or that is the only one (long_calls.py). It lies under an
  operator that runs for the first time, or right before a kernel that does. Where no runtime calls were recorded: the
  first time that the task queue's thread launches an operator. It must take at least 20 times the later ones;
* `start`: an operator makes calls that only a library that starts up makes (long_calls.py);
* `operator`: the first run of an operator that launches kernels takes at least 20 times the later ones;
* `unseen`: the host records nothing, in any thread, until an operator or a kernel runs for the first time. No stretch a
  twentieth as long comes before something that has run already. Nothing shows that the process is warm: 20 kernels with
  a quick first launch, and no other sign;
* `trial`: a convolution waits for events, which only happens while cuDNN or MIOpen tries algorithms for a new shape. At
  least as many runs of it that follow the last trial do not;
* `plan`: a convolution asks the runtime about many kernels. So it does while cuDNN makes a plan for a new shape
  (long_calls.py);
* `batch`: a data loader draws its seed and starts its workers, until its first batch is there. No kernel ran before;
* `loading`: the profiler recorded that code was loaded onto the device, on whatever thread;
* `graph`: a graph is recorded, from the begin of the capture to the end of instantiating it. The whole operator around
  that counts where its runs without recording take less than a twentieth.

What has a name of its own (compiling, waiting for the device, garbage, the profiler, the data loader) keeps it. Only
its first batch is the loader's once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.fresh import Fresh, above
from npulens.analysis.idle.host_names import ANY_THREAD, LOADING, NAMES, names, special
from npulens.analysis.idle.host_spans import NONE, OPERATOR, HostSpans, hosts
from npulens.analysis.idle.issue import KERNEL, tasks
from npulens.analysis.idle.long_calls import CONVOLUTION, LONG_NS, MOST, TIMES, long_calls, plans, starts
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.run import Run
from npulens.analysis.say import number

#: Share of the device's work whose launches tell what launches kernels and what does not.
KNOWN = 0.8
#: A job whose first recorded step has a higher number has used before what its steps use. What is only slow when it is
#: first recorded tells less: there the step must be the job's first. A job may count from 0 or from 1.
BEGUN, LOOPED = 2, 1
_ONLY_SLOW = ("call", "operator")
#: Host time that has a cause of its own; allocating does not: the first calls of the allocator set up the device.
NAMED = ("gc", "compile", "profiler_overhead", "sync_stall", "dataloader")

#: What a sign shows itself by.
_ITS_OWN = {"trial": "sync_stall", "batch": "dataloader"}

#: Kinds of host spans that show work; an annotation or a step's mark says nothing of what is done within.
WORKING = ("cpu_op", "python", "runtime", "enqueue", "dequeue", "gc")
#: Signs that need no place in the job: what was recorded says it.
_RECORDED = ("graph", "loading")

_CALLS = f"""
    WITH long AS MATERIALIZED (
        SELECT DISTINCT rank, kind, name FROM span WHERE kind IN ('cpu_op', 'dequeue') AND dur_ns >= {LONG_NS}
    ), timed AS (
        SELECT rank, span_id, track, name, kind, ts_ns, dur_ns FROM span
        SEMI JOIN long USING (rank, kind, name) WHERE kind IN ('cpu_op', 'dequeue')
    ), alike AS (
        SELECT rank, kind, name, count(*) AS n, sum(dur_ns) AS total, median(dur_ns) AS middle,
               arg_min(span_id, ts_ns) AS first_id
        FROM timed GROUP BY ALL
    )
    SELECT t.rank, t.span_id, t.kind, t.track, t.ts_ns, t.ts_ns + t.dur_ns AS end_ns, n
    FROM timed t JOIN alike USING (rank, kind, name)
    WHERE t.dur_ns >= {LONG_NS} AND t.span_id = first_id
        AND (n = 1 OR t.dur_ns >= {TIMES} * CASE n WHEN 2 THEN total - t.dur_ns ELSE middle END)
    ORDER BY t.dur_ns DESC LIMIT {MOST}
"""
_LOADED = f"""
    SELECT rank, span_id, ts_ns, ts_ns + dur_ns FROM span WHERE kind = 'host_other' AND name IN {LOADING}
    ORDER BY dur_ns DESC, span_id LIMIT {MOST}
"""
#: Waits for events, and the operators that nothing but a trial of algorithms lets wait.
_EVENT_WAITS = f"""
    SELECT span_id FROM span WHERE kind = 'runtime' AND name IN (
        SELECT name FROM {NAMES} WHERE kind = 'runtime' AND regexp_matches(name, '^(?:cuda|hip)EventSynchronize$'))
"""
_RUNS = "SELECT span_id, ts_ns, ts_ns + dur_ns FROM span WHERE kind = 'cpu_op' AND rank = ? AND name = ? ORDER BY ts_ns"

#: The first call of each rank that asks workers for a batch.
_ASKS_WORKERS = f"""
    SELECT rank, arg_min(span_id, ts_ns), arg_min(track, ts_ns), min(ts_ns), arg_min(ts_ns + dur_ns, ts_ns) FROM span
    WHERE (kind, name) IN (SELECT (kind, name) FROM {NAMES} WHERE name LIKE '%MultiProcessingDataLoaderIter%__next__')
    GROUP BY rank ORDER BY rank
"""
#: What a loader's iterator calls until then: it draws a seed for its workers, and its sampler draws an order.
_BEFORE_BATCHES = """
    WITH batch AS (SELECT unnest($1) AS rank, unnest($2) AS track, unnest($3) AS begin)
    SELECT b.rank, list((s.name, s.ts_ns, s.ts_ns + s.dur_ns) ORDER BY s.ts_ns DESC, s.dur_ns)[:64] FROM span s
    JOIN batch b ON s.track = b.track AND s.ts_ns < b.begin AND s.kind = 'cpu_op' GROUP BY b.rank
"""
_SEED, _READ = "aten::random_", "aten::item"
_DRAWS = (
    _SEED, _READ, "aten::empty", "aten::randperm", "aten::multinomial", "aten::resolve_conj", "aten::resolve_neg",
)  # fmt: skip

#: Launches through the driver, as those of kernels that were made at run time, first each kernel's first.
_BY_DRIVER = f"""
    SELECT h.rank, h.span_id, k.name FROM link l
    JOIN span h ON h.span_id = l.src_span_id AND h.kind = 'runtime' AND h.name IN (
        SELECT name FROM {NAMES} WHERE kind = 'runtime'
        AND regexp_matches(name, '^(?:cuLaunchKernel(?:Ex)?|hipModuleLaunchKernel)$'))
    JOIN span k ON k.span_id = l.dst_span_id AND k.kind = 'kernel'
    WHERE l.route <> 'fwdbwd'
    ORDER BY row_number() OVER (PARTITION BY h.rank, k.name ORDER BY h.ts_ns), h.rank, h.ts_ns LIMIT {MOST}
"""
#: A shorter rest is no compiling.
SILENT_NS = 10_000_000


@dataclass(frozen=True)
class FirstUse:
    """Stretches of one rank's host, by start; they may overlap."""

    starts: Ints
    ends: Ints
    ids: Ints  # the host span that took it; of an unseen stretch the one after it
    ways: NDArray[np.str_]

    @property
    def times(self) -> Intervals:
        return Intervals.union_of(self.starts, self.ends)


@dataclass(frozen=True)
class _Found:
    """One stretch of a first use on one rank, before stretches are ordered."""

    start: int
    end: int
    span: int
    way: str
    track: int | None = None  # of the task queue's thread: what the thread that fills it does meanwhile is no cause


def first_use(run: Run) -> dict[int, FirstUse]:
    """rank -> what its host did once; ranks without are left out."""
    found: dict[int, list[_Found]] = {rank: [] for rank in run.ranks}
    for rank, one in run.get(_signs):
        if not _perhaps(run, rank, one):
            found[rank].append(one)
    of_rank = {}
    owned = _Owned(run)
    for rank, mine in found.items():
        graphs = _times(one for one in mine if one.way == "graph")
        rows = sorted(
            (int(begin), int(end), one.span, one.way)
            for one in mine
            for begin, end in _left(one, owned.of(rank, one) | (EMPTY if one.way == "graph" else graphs))
        )
        if rows:
            starts, ends, ids, ways = zip(*rows, strict=True)
            of_rank[rank] = FirstUse(np.array(starts), np.array(ends), np.array(ids), np.array(ways, np.str_))
    return of_rank


def trials(run: Run, rank: int) -> Intervals:
    """When a rank's libraries tried algorithms."""
    found = run.get(first_use).get(rank)
    if found is None:
        return EMPTY
    mine = found.ways == "trial"
    return Intervals.union_of(found.starts[mine], found.ends[mine])


def perhaps_ns(run: Run) -> int:
    """Of the rank with most: time that looks like a first use, where nothing says that it is one."""
    most, owned = 0, _Owned(run)
    for rank in run.ranks:
        unsure = [one for at, one in run.get(_signs) if at == rank and _perhaps(run, rank, one)]
        busy = run.activity(rank).work()
        left = [piece for one in unsure for piece in _left(one, owned.of(rank, one) | busy)]
        edges = np.array(left, np.int64).reshape(-1, 2)
        most = max(most, Intervals.union_of(edges[:, 0], edges[:, 1]).total())
    return most


def _signs(run: Run) -> tuple[tuple[int, _Found], ...]:
    """Every stretch that shows one of the signs, where it counts."""
    fresh = Fresh(run)
    found = (*_long(run, fresh), *_recorded(run), *_tried(run), *_fused(run), *_first_batch(run), *_loaded(run))
    found = (*found, *_unseen(run, fresh, {rank for rank, one in found if one.way != "perhaps"}))
    return tuple((rank, one) for rank, one in found if one.way in _RECORDED or _early(run, rank, one))


def _early(run: Run, rank: int, one: _Found) -> bool:
    steps = run.steps[rank]
    return not steps or (steps[0].step <= (LOOPED if one.way in _ONLY_SLOW else BEGUN) and one.start < steps[0].end_ns)


def _perhaps(run: Run, rank: int, one: _Found) -> bool:
    """What looks like a first use where the capture does not say enough: see perhaps_ns.

    A serving engine's steps bear no number, only that the capture began: of its first, a call alone is a sign.
    Where launches are not recorded (nodes of a graph), nothing says that an operator launched anything.
    """
    served = any(step.phase is not None for step in run.steps[rank])
    return one.way == "perhaps" or (served and one.way in ("operator", "unseen"))


def _owned(run: Run, rank: int, one: _Found) -> Intervals:
    """When something that has a name of its own runs, in any thread that can hold a stretch up."""
    known = run.get(special).get(rank)
    if known is None:
        return EMPTY
    mine = np.isin(known.causes, [cause for cause in NAMED if cause != _ITS_OWN.get(one.way)])
    if one.track is not None:
        of_track = run.get(hosts).threads[rank].of_track
        tracks = [track for track, thread in of_track.items() if thread == of_track.get(one.track)]
        mine = mine & (np.isin(known.tracks, tracks) | np.isin(known.causes, ANY_THREAD))
    return Intervals.union_of(known.starts[mine], known.ends[mine])


class _Owned:
    """The same for many stretches, of which most ask alike."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known: dict[tuple[int, str | None, int | None], Intervals] = {}

    def of(self, rank: int, one: _Found) -> Intervals:
        key = rank, _ITS_OWN.get(one.way), one.track
        if key not in self._known:
            self._known[key] = _owned(self._run, rank, one)
        return self._known[key]


def _times(stretches: Iterable[_Found]) -> Intervals:
    edges = np.array([(one.start, one.end) for one in stretches], np.int64).reshape(-1, 2)
    return Intervals.union_of(edges[:, 0], edges[:, 1])


def _left(one: _Found, taken: Intervals) -> Iterable[tuple[int, int]]:
    """What of a stretch nothing else has."""
    left = _times([one]) - taken
    return zip(left.starts.tolist(), left.ends.tolist(), strict=True)


def _long(run: Run, fresh: Fresh) -> list[tuple[int, _Found]]:
    """Calls and operators that take many times their like, in the first run of something."""
    own = frozenset(
        span for found in run.get(special).values() for span in found.ids[np.isin(found.causes, NAMED)].tolist()
    )
    found = [(one.rank, _Found(one.begin, one.end, one.span, "call")) for one in long_calls(run, fresh, own)]
    found += [(one.rank, _Found(one.begin, one.end, one.span, "start")) for one in starts(run) if one.rank in run.steps]
    found += [(one.rank, _Found(one.begin, one.end, one.span, "plan")) for one in plans(run)]
    rows = [row for row in run.con.execute(_CALLS).fetchall() if row[1] not in own and row[0] in run.steps]
    launching = _launching(run, [row[1] for row in rows if row[2] == "cpu_op"])
    known = {rank for rank in run.ranks if _launches_known(run, rank)}
    for rank, span, kind, track, begin, end, count in rows:
        if kind == "dequeue":
            if count > 1:
                found.append((rank, _Found(begin, end, span, "call", track)))
        elif count > 1 and span in launching:
            found.append((rank, _Found(begin, end, span, "operator")))
        elif rank not in known:
            found.append((rank, _Found(begin, end, span, "perhaps")))
    return found


def _launching(run: Run, spans: list[int]) -> set[int]:
    """The spans within which a kernel is launched, or of which the profiler says that they launched one."""
    if not spans:
        return set()
    sql = """
        SELECT o.span_id FROM (SELECT * FROM span WHERE list_contains(?, span_id)) o
        JOIN span h ON h.track = o.track AND h.ts_ns >= o.ts_ns AND h.ts_ns < o.ts_ns + o.dur_ns
        JOIN link l ON l.src_span_id = h.span_id AND l.route <> 'fwdbwd'
        JOIN span k ON k.span_id = l.dst_span_id AND k.kind IN ('kernel', 'enqueue', 'dequeue')
        UNION SELECT op_span_id FROM kernel WHERE list_contains(?, op_span_id)
    """
    return {span for (span,) in run.con.execute(sql, [spans, spans]).fetchall()}


def _launches_known(run: Run, rank: int) -> bool:
    """Whether most of the device's work has a launch of its own: nodes of a graph have none."""
    did = run.get(tasks)[rank]
    length = did.ends - did.starts
    return bool(length[did.linked & ~did.node].sum() >= KNOWN * length.sum())


def _recorded(run: Run) -> list[tuple[int, _Found]]:
    """Stretches in which a graph is recorded."""
    every = run.get(captures).found
    whole = _slower(run, sorted({one.around_id for one in every if one.around_id != NONE}))
    found = []
    for one in every:
        begin, end, span = whole.get(one.around_id, (one.begin_ns, one.end_ns, one.span_id))
        found.append((one.rank, _Found(min(begin, one.begin_ns), max(end, one.end_ns), span, "graph")))
    return found


def _slower(run: Run, operators: list[int]) -> dict[int, tuple[int, int, int]]:
    """Operators around a recording whose other runs take less than a twentieth: start, end and id."""
    sql = f"""
        WITH mine AS (SELECT rank, name, span_id, ts_ns, dur_ns FROM span WHERE list_contains(?, span_id)),
        others AS (
            SELECT rank, name, median(dur_ns) AS usual FROM span s
            WHERE kind = 'cpu_op' AND NOT list_contains(?, span_id) AND (rank, name) IN (SELECT rank, name FROM mine)
            GROUP BY ALL
        )
        SELECT m.span_id, m.ts_ns, m.ts_ns + m.dur_ns FROM mine m JOIN others o USING (rank, name)
        WHERE m.dur_ns >= {TIMES} * o.usual
    """
    if not operators:
        return {}
    return {span: (begin, end, span) for span, begin, end in run.con.execute(sql, [operators, operators]).fetchall()}


def _tried(run: Run) -> list[tuple[int, _Found]]:
    """Convolutions in which algorithms are tried."""
    waits = [span for (span,) in run.con.execute(_EVENT_WAITS).fetchall()]
    tried: dict[tuple[int, str], set[int]] = {}
    for _, operator, rank, name in above(run, waits):
        if rank in run.steps and CONVOLUTION.match(name):
            tried.setdefault((rank, name), set()).add(operator)
    found: list[tuple[int, _Found]] = []
    for (rank, name), spans in sorted(tried.items()):
        every = run.con.execute(_RUNS, [rank, name]).fetchall()
        last = max(place for place, (span, _, _) in enumerate(every) if span in spans)
        if len(every) - 1 - last >= len(spans):
            found += [(rank, _Found(begin, end, span, "trial")) for span, begin, end in every if span in spans]
    return found


def _loaded(run: Run) -> list[tuple[int, _Found]]:
    """Code that was loaded onto the device, as the profiler recorded it."""
    rows = run.con.execute(_LOADED).fetchall()
    return [(rank, _Found(begin, end, span, "loading")) for rank, span, begin, end in rows if rank in run.steps]


def _first_batch(run: Run) -> list[tuple[int, _Found]]:
    """From the seed that an iterator draws for its workers to its first batch, where no kernel has run before."""
    run.get(names)
    found, did = [], run.get(tasks)
    batches = [
        (rank, span, track, begin, end) for rank, span, track, begin, end in run.con.execute(_ASKS_WORKERS).fetchall()
        if rank in did and not (did[rank].starts[did[rank].kinds == KERNEL] < end).any()
    ]  # fmt: skip
    asked = [[batch[at] for batch in batches] for at in (0, 2, 3)]
    calls = dict(run.con.execute(_BEFORE_BATCHES, asked).fetchall() if batches else ())
    for rank, span, _, _, end in batches:
        seeded, after = None, ""
        for name, at in _outermost(calls.get(rank, [])):
            if name not in _DRAWS:
                break
            seeded, after = at if (name, after) == (_SEED, _READ) else seeded, name
        if seeded is not None:
            found.append((rank, _Found(seeded, end, span, "batch")))
    return found


def _outermost(calls: list[tuple[str, int, int]]) -> list[tuple[str, int]]:
    """Of calls with their start and end, the last first: those within no other."""
    found, reach = [], -1
    for name, begin, end in reversed(calls):
        if begin >= reach:
            found.append((name, begin))
        reach = max(reach, end)
    return found[::-1]


@dataclass(frozen=True)
class Silence:
    """A rest of one thread within an operator, before the driver first launches a kernel."""

    rank: int
    begin: int
    end: int
    operator: int
    kernel: str


def silences(run: Run) -> tuple[Silence, ...]:
    """Long rests within operators, each before the first run of a kernel that is launched through the driver.

    Fusers compile like this: nothing is recorded of it, and the driver launches what was made. One capture does not
    prove it. No rest a twentieth as long comes before such a kernel that has run already.
    """
    found: list[Silence] = []
    seen: set[tuple[int, str]] = set()
    known = dict.fromkeys(run.ranks, 0)
    run.get(names)
    for rank, launch, kernel in run.con.execute(_BY_DRIVER).fetchall():
        if rank not in known:
            continue
        rest = _rest(run.get(hosts).spans(rank), rank, launch, kernel)
        if (rank, kernel) not in seen:
            found.append(rest)
        else:
            known[rank] = max(known[rank], rest.end - rest.begin)
        seen.add((rank, kernel))
    return tuple(
        one for one in found
        if one.end - one.begin >= max(SILENT_NS, TIMES * known[one.rank])
    )  # fmt: skip


def _rest(spans: HostSpans, rank: int, launch: int, kernel: str) -> Silence:
    """The longest rest right before a launch or one of the spans around it, within an operator."""
    at, found = spans.at(launch), Silence(rank, 0, 0, NONE, kernel)
    while at != NONE and (above := int(spans.parent[at])) != NONE:
        before = at - 1
        while before != above and int(spans.parent[before]) != above:
            before = int(spans.parent[before])
        begin = int(spans.starts[above] if before == above else spans.ends[before])
        if spans.kinds[above] == OPERATOR and int(spans.starts[at]) - begin > found.end - found.begin:
            found = Silence(rank, begin, int(spans.starts[at]), int(spans.ids[above]), kernel)
        at = above
    return found


def untold(silent_ns: int) -> tuple[str, str, str]:
    """Why nobody can say whether the process compiled, and what would tell."""
    took = number("_ns", silent_ns)
    return (
        f"an operator records nothing for {took} before the driver first launches its kernels: it may compile them",
        f"有算子在经驱动接口首次启动其 kernel 之前，有 {took} 没有任何记录，可能在编译",
        "two profiles of the same job: one of its start and one after some minutes",
    )


def _fused(run: Run) -> list[tuple[int, _Found]]:
    """The same as what perhaps is a first use."""
    return [(one.rank, _Found(one.begin, one.end, one.operator, "perhaps")) for one in run.get(silences)]


def _unseen(run: Run, fresh: Fresh, begun: set[int]) -> list[tuple[int, _Found]]:
    """Stretches without steps in which the host records nothing, before something new.

    `begun`: ranks that show another sign. On others a process is warm that launches many kernels first, and quickly.
    """
    found: list[tuple[int, _Found]] = []
    for rank in run.ranks:
        window = run.window(rank)
        if run.steps[rank] or window is None or (rank not in begun and fresh.quick(rank, LONG_NS) >= TIMES):
            continue
        rows = run.of_rank(
            "SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns, "
            "CASE WHEN kind = 'cpu_op' THEN span_id ELSE -1 END AS span_id FROM span "
            f"WHERE rank BETWEEN ? AND ? AND kind IN {WORKING} ORDER BY rank, ts_ns, dur_ns DESC",
            rank,
        )
        begins, ends, ids = (rows[name].astype(np.int64) for name in ("ts_ns", "end_ns", "span_id"))
        empty = Intervals.union_of(begins, ends).gaps(*window) - run.activity(rank).work()
        long = np.argsort(empty.starts - empty.ends, kind="stable")[:MOST]
        stretches = list(zip(empty.starts[long].tolist(), empty.ends[long].tolist(), strict=True))
        new = []
        for _, end in stretches:
            at = int(np.searchsorted(begins, end))
            new.append((at < len(ids) and int(ids[at]) in fresh.operators) or fresh.task_from(rank, end))
        known = max((b - a for (a, b), is_new in zip(stretches, new, strict=True) if not is_new), default=0)
        for (begin, end), is_new in zip(stretches, new, strict=True):
            if is_new and end - begin >= max(LONG_NS, TIMES * known):
                at = int(np.searchsorted(begins, end))
                found.append((rank, _Found(begin, end, int(ids[at]) if at < len(ids) else -1, "unseen")))
    return found


# Where a graph was recorded. It runs from the call that begins the capture to the last that makes the graph ready to
# launch.
#
# Between the begin and the end of a capture launches run nothing: they are noted down. What the host does there costs
# the device nothing that a faster host would give back. It happens once for a graph. Names are those of CUDA, ROCm and
# CANN (NPUGraph). `around` is the whole operator in which it happened, warm-up and all. It is the outermost one that
# holds the begin, without one the outermost annotation.
_BEGIN = r"^(?:\w+@)?(?:(?:cuda|hip|cu)StreamBeginCapture\w*|aclmdlRICaptureBegin)$"
_END = r"^(?:\w+@)?(?:(?:cuda|hip|cu)StreamEndCapture\w*|aclmdlRICaptureEnd)$"
_INSTANTIATE = r"^(?:\w+@)?(?:cuda|hip|cu)GraphInstantiate\w*$"
#: What else is asked of a graph before its first launch, and calls that ask for work, a graph's launch among them.
_READY = r"^(?:\w+@)?(?:(?:cuda|hip|cu)Graph(?:GetNodes|Upload|Destroy|DebugDot|Node)\w*|aclmdlRI(?:Build|Debug)\w*)$"
_ASKS = r"(?i)launch|memcpy|memset|aclmdlRIExecute"
#: A run of which so much is recording is one of a recording.
GRAPH_CAPTURE_MOST = 0.5

_GRAPH_CAPTURE_CALLS = f"""
    WITH named AS MATERIALIZED (
        SELECT name,
            CASE WHEN regexp_matches(name, '{_BEGIN}') THEN 1 WHEN regexp_matches(name, '{_END}') THEN 2
                WHEN regexp_matches(name, '{_INSTANTIATE}') THEN 3 WHEN regexp_matches(name, '{_READY}') THEN 4
                WHEN regexp_matches(name, '{_ASKS}') THEN 5 ELSE 0 END AS what
        FROM {NAMES} WHERE kind = 'runtime'
    ), begun AS MATERIALIZED (
        SELECT DISTINCT track FROM span WHERE kind = 'runtime' AND name IN (SELECT name FROM named WHERE what = 1)
    )
    SELECT rank, span_id, track, ts_ns, ts_ns + dur_ns AS end_ns, what FROM span JOIN named USING (name)
    WHERE kind = 'runtime' AND track IN (FROM begun) ORDER BY track, ts_ns, span_id
"""
_AROUND = """
    SELECT span_id, name, ts_ns, ts_ns + dur_ns, kind = 'cpu_op' FROM span
    SEMI JOIN (SELECT unnest(?::BIGINT[]) AS span_id) USING (span_id) WHERE kind IN ('cpu_op', 'annotation')
"""


@dataclass(frozen=True)
class Capture:
    """One graph that was recorded."""

    rank: int
    span_id: int  # the call that began it
    begin_ns: int
    end_ns: int
    calls: int  # launches and copies noted down
    instantiate_ns: int  # making it executable
    around: str | None  # the operator or annotation in which it happened
    around_begin_ns: int
    around_end_ns: int
    around_id: int  # NONE: in none


@dataclass(frozen=True)
class Captures:
    """Every graph that was recorded."""

    found: tuple[Capture, ...]
    most: frozenset[int]  # ranks of which more than half of the time is recording

    def windows(self, rank: int) -> Intervals:
        """When the rank was recording."""
        mine = [each for each in self.found if each.rank == rank]
        starts, ends = ([getattr(each, name) for each in mine] for name in ("begin_ns", "end_ns"))
        return Intervals.union_of(np.array(starts, np.int64), np.array(ends, np.int64))


def captures(run: Run) -> Captures:
    """The graphs that a run recorded, by rank and time."""
    begun = f"SELECT count(*) FROM {run.get(names)} WHERE kind = 'runtime' AND regexp_matches(name, '{_BEGIN}')"
    if run.con.execute(begun).fetchall() == [(0,)]:
        return Captures((), frozenset())
    calls = run.columns(_GRAPH_CAPTURE_CALLS)
    begins, ends, what = (calls[name] for name in ("ts_ns", "end_ns", "what"))
    first = np.flatnonzero(what == 1)
    by_rank = {rank: first[calls["rank"][first] == rank] for rank in np.unique(calls["rank"][first]).tolist()}
    held = {rank: iter(_around(run, rank, calls["track"][at], begins[at])) for rank, at in by_rank.items()}
    found: list[Capture] = []
    for at, following in zip(first.tolist(), np.append(first, len(what))[1:].tolist(), strict=True):
        stop = min(following, int(np.searchsorted(calls["track"], calls["track"][at], side="right")))
        closed = _next(what, (2,), at + 1, stop)
        end = min(closed, stop - 1)  # without its end the file ends within the capture
        ready = closed + 1 + np.flatnonzero(np.isin(what[closed + 1 : _next(what, (5,), closed + 1, stop)], (3, 4)))
        last = int(ready[-1]) if len(ready) else end
        rank, span = int(calls["rank"][at]), int(calls["span_id"][at])
        begin, until = int(begins[at]), int(ends[last])
        found.append(Capture(
            rank, span, begin, until, int((what[at:end] == 5).sum()),
            int((ends - begins)[ready[what[ready] == 3]].sum()), *(next(held[rank]) or (None, begin, until, NONE)),
        ))  # fmt: skip
    found.sort(key=lambda each: (each.rank, each.begin_ns))
    every = Captures(tuple(found), frozenset())
    return replace(every, most=frozenset(rank for rank in {each.rank for each in found} if _mostly(run, rank, every)))


def _next(what: Ints, wanted: tuple[int, ...], begin: int, stop: int) -> int:
    """The first of some calls from one on, or the stop."""
    there = np.flatnonzero(np.isin(what[begin:stop], wanted))
    return begin + int(there[0]) if len(there) else stop


def _mostly(run: Run, rank: int, every: Captures) -> bool:
    """Of the rank's steps, without steps of everything that it recorded."""
    begin, end = run.con.execute(
        "SELECT min(ts_ns), max(ts_ns + dur_ns) FROM span WHERE rank = ? AND kind <> 'host_other'", [rank]
    ).fetchall()[0]
    if run.steps[rank]:
        begin, end = run.steps[rank][0].ts_ns, run.steps[rank][-1].end_ns
    recording = int(every.windows(rank).within(np.array([begin]), np.array([end]))[0])
    return bool(recording > GRAPH_CAPTURE_MOST * (end - begin))


def _around(run: Run, rank: int, tracks: Ints, begins: Ints) -> list[tuple[str, int, int, int] | None]:
    """The outermost operator around each begin, without one the outermost annotation: name, start, end and id."""
    spans = run.get(hosts).spans(rank)
    at = np.array([spans.innermost(int(t), begins[i : i + 1])[0] for i, t in enumerate(tracks)], np.int64)
    chains: list[list[int]] = [[] for _ in at]  # innermost first
    for chain, inner in zip(chains, at.tolist(), strict=True):
        while inner != NONE:
            chain.append(int(spans.ids[inner]))
            inner = int(spans.parent[inner])
    rows = run.con.execute(_AROUND, [sorted({span for chain in chains for span in chain})]).fetchall()
    known = {span: (name, begin, end, span, is_op) for span, name, begin, end, is_op in rows}
    found: list[tuple[str, int, int, int] | None] = []
    for chain in chains:
        held = [known[span] for span in reversed(chain) if span in known]
        best = next((each for each in held if each[4]), held[0] if held else None)
        found.append(best and best[:4])
    return found
