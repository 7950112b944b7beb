"""From pieces of idle time to a finding: who, how much, in which code, with what to look at.

What the detectors of host causes have in common. Ranks that show a cause alike are one finding.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.finding import Change, Evidence, Value
from npulens.analysis.idle.culprit import Code, codes_on, names, spoken, told
from npulens.analysis.idle.first_use import first_use
from npulens.analysis.idle.host_names import ANY_THREAD, Special, owners, special
from npulens.analysis.idle.host_spans import NONE, hosts
from npulens.analysis.idle.inside import ONE_CALL, TELLS, Call, Inside, inside
from npulens.analysis.idle.pieces import CODE, Idle, idle
from npulens.analysis.intervals import EMPTY, Intervals, Ints, combined, distinct
from npulens.analysis.run import Run
from npulens.analysis.say import ONCE
from npulens.analysis.steady import of_run

#: Ranks with at least this share of the worst rank's time show a cause alike.
ALIKE = 0.5
#: Ranks that differ by less say the same; else the rank is named whose figures are told.
SAME = 0.9
#: One gap with this share of all the time happened once.
ONCE_SHARE = 0.9
#: Of so many steps one says that the others did without.
COMES_BACK = 3
#: Evidence: so many gaps, each with its culprit.
GAPS = 10
#: Causes of time in which the host did something of its own, so that its code is what it was in at each moment.
_ORDINARY = [CODE["host_late"], CODE["calling"], CODE["unknown"]]
_SPELLED = re.compile(r"\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*", re.ASCII)
#: Pieces of other causes whose code is looked up: the largest.
_LOOKED_UP = 200


@dataclass(frozen=True)
class Blame:
    """One cause on ranks that show it alike."""

    ranks: tuple[int, ...]
    pieces: Ints  # indexes into the idle pieces, the largest first
    host: dict[int, Intervals]  # per rank: when the device idled because of it
    numbers: dict[str, Value]
    evidence: tuple[Evidence, ...]
    measured_ns: int  # idle because of it, of the rank that idles most, in the whole run
    scattered: bool = False  # over many gaps of the named code
    longest_ns: int = 0  # in one call or piece of the named code, or of any piece where none is named
    inside: Inside | None = None  # what ordinary work of the host was in

    @property
    def change(self) -> Change:
        return Change(host=self.host)


def blames(run: Run, cause: str) -> Iterator[Blame]:
    """The cause on each group of ranks that show it alike, the worst group first."""
    found = run.get(idle)
    for ranks in similar_ranks(found.by_rank(cause)):
        yield blame(run, found, ranks, found.pick(cause))


def everywhere(run: Run, cause: str) -> tuple[Blame, Change] | None:
    """The cause as one finding: on the ranks that show it most; and the run without any of it on any rank.

    A rank whose device spins in a collective has no gap while its host does the same. There it would only take the
    place of the rank that is mended. So all of the cause's spans count, not only those that left a gap.
    """
    found = next(blames(run, cause), None)
    if found is None:
        return None
    gaps, there, once = run.get(idle), run.get(hosts), run.get(first_use)
    host = {}
    for rank, spans in run.get(special).items():
        threads = there.threads[rank]
        on = np.isin(spans.tracks, threads.tracks(threads.issuing | threads.queue))
        mine, theirs = (_spent(spans, on, causes) for causes in ((cause,), owners(cause)))
        found_of = mine - theirs - (once[rank].times if rank in once else EMPTY)
        host[rank] = found_of | gaps.windows(rank, cause)
    return found, Change(host={rank: windows for rank, windows in host.items() if len(windows.starts)})


def _spent(spans: Special, on: NDArray[np.bool_], causes: Iterable[str]) -> Intervals:
    """When spans of some causes ran; `on`: those on threads that issue work."""
    which = np.zeros(len(spans.ids), np.bool_)
    for cause in causes:
        which |= spans.of(cause) & (on | (cause in ANY_THREAD))
    return Intervals.union_of(spans.starts[which], spans.ends[which])


def similar_ranks(totals: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Groups of ranks with similar totals."""
    left = dict(totals)
    while left:
        most = max(left.values())
        group = tuple(sorted(rank for rank, ns in left.items() if ns >= ALIKE * most))
        yield group
        left = {rank: ns for rank, ns in left.items() if rank not in group}


def most_rank(totals: Mapping[int, int]) -> int | None:
    """The rank whose figures are told of several; None where they are about those of all."""
    worst = max(totals.values())
    return min(rank for rank, ns in totals.items() if ns == worst) if min(totals.values()) < SAME * worst else None


def blame(run: Run, found: Idle, ranks: tuple[int, ...], which: NDArray[np.bool_]) -> Blame:
    """These pieces on these ranks."""
    mine = np.flatnonzero(which & np.isin(found.rank, ranks))
    length = found.end - found.start
    mine = mine[np.argsort(-length[mine], kind="stable")]
    totals = found.totals(_marked(len(found.rank), mine))
    worst = max(totals[rank] for rank in ranks)
    known = inside(run, found, mine) if np.isin(found.cause[mine], _ORDINARY).all() else None
    if known is not None:
        code, per_code = known.code, known.ns / max(1, known.whole_ns)
        longest, scattered = known.longest_ns, bool(code) and not known.single
        order = np.argsort(-known.by_piece, kind="stable")[:GAPS]
        shows = evidence(run, found, mine[order], {int(mine[at]): call for at, call in known.calls.items()})
    else:
        looked = mine[:_LOOKED_UP]
        code, per_code, there = _where(run, found, looked)
        if per_code < TELLS:
            code = ""
        longest = int(length[looked[there]].max(initial=0))
        whole = int(length[mine].sum())  # of which the code has, about, its share of what was looked up
        scattered = bool(code) and longest * run.step_count * len(ranks) < ONE_CALL * per_code * whole
        shows = evidence(run, found, (np.concatenate((looked[there], looked[~there])) if code else looked)[:GAPS])
    once = happened_once(run, found, ranks, mine)
    numbers: dict[str, Value] = {
        "ranks": said(ranks), "idle_ns": worst if once else worst // run.step_count,
        "idle_share": worst / run.wall_ns if once else of_run(run, worst),
        "gaps": len(distinct(combined(found.rank[mine], found.gap_start[mine]))), "code": code or None,
        "code_share": per_code if code else None,
        "most_rank": most_rank({rank: totals[rank] for rank in ranks}),
        **({"per": ONCE} if once else only_step(run, found.rank[mine], found.start[mine], length[mine])),
    }  # fmt: skip
    if not code:
        longest = int(length[mine].max(initial=0))
    return Blame(ranks, mine, windows(found, ranks, mine), numbers, shows, worst, scattered, longest, known)


def _marked(count: int, at: Ints) -> NDArray[np.bool_]:
    marks = np.zeros(count, np.bool_)
    marks[at] = True
    return marks


def happened_once(run: Run, found: Idle, ranks: tuple[int, ...], pieces: Ints) -> bool:
    """Whether nearly all of it is one gap on each rank; in a single recorded step that says nothing of other steps."""
    length = found.end[pieces] - found.start[pieces]
    for rank in ranks:
        mine = found.rank[pieces] == rank
        _, gap = np.unique(found.gap_start[pieces[mine]], return_inverse=True)
        if len(run.steps[rank]) == 1 or np.bincount(gap, length[mine]).max() < ONCE_SHARE * length[mine].sum():
            return False
    return True


def only_step(run: Run, rank: Ints, at: Ints, ns: Ints) -> dict[str, Value]:
    """The step that has nearly all of some losses, where three or more were recorded; nothing where it comes back.

    Of each loss its rank, when it began and how long it lasts.
    """
    spent = Counter[int]()
    for one in np.unique(rank).tolist():
        steps, mine = run.steps[one], rank == one
        if len(steps) < COMES_BACK:
            return {}
        place = np.searchsorted(np.array([step.ts_ns for step in steps], np.int64), at[mine], "right") - 1
        for number, lost in zip(place.tolist(), ns[mine].tolist(), strict=True):
            spent[steps[number].step if number >= 0 else NONE] += lost
    step, most = spent.most_common(1)[0] if spent else (NONE, 0)
    return {"only_step": str(step)} if step != NONE and most >= ONCE_SHARE * spent.total() else {}


def windows(found: Idle, ranks: tuple[int, ...], pieces: Ints) -> dict[int, Intervals]:
    """When the device of each rank idled in these pieces."""
    by_rank = pieces[np.argsort(found.rank[pieces], kind="stable")]
    edges = np.searchsorted(found.rank[by_rank], np.array([*ranks, *(rank + 1 for rank in ranks)], np.int64))
    of = {rank: by_rank[begin:end] for rank, begin, end in zip(
        ranks, edges[: len(ranks)].tolist(), edges[len(ranks) :].tolist(), strict=True
    )}  # fmt: skip
    return {rank: Intervals.union_of(found.start[own], found.end[own]) for rank, own in of.items() if len(own)}


def said(ranks: tuple[int, ...]) -> str:
    """0, 1, 2, 3, 7 is "0-3, 7"."""
    parts: list[str] = []
    numbers = np.array(ranks, np.int64)
    for run_ in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
        parts.append(str(run_[0]) if len(run_) == 1 else f"{run_[0]}-{run_[-1]}")
    return ", ".join(parts)


def listed(ranks: str) -> tuple[range, ...]:
    """The ranks that `said` spells; none where it is another text."""
    if not _SPELLED.fullmatch(ranks):
        return ()
    edges = [part.partition("-") for part in ranks.split(", ")]
    return tuple(range(int(first), int(last or first) + 1) for first, _, last in edges)


def _where(run: Run, found: Idle, pieces: Ints) -> tuple[str, float, NDArray[np.bool_]]:
    """The innermost code with most of the time of these pieces, its share of it, and the pieces in it.

    Where no single line has half of the time, one further out may: a function whose calls share it."""
    known: list[Code] = []
    moment = moments(run, found, pieces)
    order: list[int] = []
    places = {rank: np.flatnonzero(found.rank[pieces] == rank) for rank in np.unique(found.rank[pieces]).tolist()}
    told_ = codes_on(run, {rank: moment[mine] for rank, mine in places.items()})
    for rank, mine in places.items():
        order += mine.tolist()
        known += told_[rank]
    length = (found.end - found.start)[pieces][order]
    if not len(length) or not any(str(code) for code in known):
        return "", 0.0, np.zeros(len(pieces), np.bool_)
    total = max(1, int(length.sum()))
    held, depth = Counter[str](), Counter[str]()
    for code, ns in zip(known, length.tolist(), strict=True):
        for place, frame in enumerate(code.around):
            held[frame] += ns
            depth[frame] = max(depth[frame], place)
    most = [frame for frame, ns in held.items() if 2 * ns >= total]
    if most:
        frame = min(most, key=lambda one: (depth[one], held[one], one))
        inside = np.array([frame in code.around for code in known])
        op, share = _heaviest((code.op or "" for code in known), length * inside)
        name = told(frame, op if 2 * share >= int((length * inside).sum()) else None)
    else:
        name, _ = _heaviest((str(code) for code in known), length)
        inside = np.array([str(code) == name for code in known])
    there = np.zeros(len(pieces), np.bool_)
    there[np.array(order)[inside]] = True
    return name, int((length * inside).sum()) / total, there


def _heaviest(names_: Iterable[str], length: Ints) -> tuple[str, int]:
    """The name with most time, and how much."""
    spent = Counter[str]()
    for name, ns in zip(names_, length.tolist(), strict=True):
        spent[name] += ns
    return min(((name, ns) for name, ns in spent.items() if name), key=lambda one: (-one[1], one[0]), default=("", 0))


def moments(run: Run, found: Idle, pieces: Ints) -> Ints:
    """When the host was at what made each piece: the start of its culprit; the middle of ordinary work."""
    host = found.host[pieces]
    rows = run.con.execute(
        "SELECT span_id, ts_ns FROM span WHERE list_contains(?, span_id)", [distinct(host[host != NONE]).tolist()]
    ).fetchall()
    start = dict(rows)
    middle = (found.start[pieces] + found.end[pieces]) // 2
    ordinary = np.isin(found.cause[pieces], _ORDINARY) | (host == NONE)
    began = np.array([start.get(span, 0) for span in host.tolist()], np.int64)
    at: Ints = np.where(ordinary, middle, began)
    return at


def evidence(
    run: Run, found: Idle, pieces: Ints, calls: Mapping[int, Call] | None = None
) -> tuple[Evidence, ...]:
    """For each piece what the host did in it, and the gap it made. Of a call only its part of the piece is shown.

    A call that synchronises may lie before the gap that it made: then it is shown where it is.
    """
    texts = names(run, np.concatenate((found.host[pieces], found.task[pieces])))
    waits = pieces[found.cause[pieces] == CODE["sync_stall"]]
    at = {span: (begin, end) for span, begin, end in run.con.execute(
        "SELECT span_id, ts_ns, ts_ns + dur_ns FROM span WHERE list_contains(?, span_id)",
        [distinct(found.host[waits]).tolist()],
    ).fetchall()} if len(waits) else {}  # fmt: skip
    name = {span: spoken(text) for span, text in texts.items()}
    windows: dict[tuple[int, int, int], Evidence] = {}
    for piece in pieces:
        rank, begin, end = int(found.rank[piece]), int(found.start[piece]), int(found.end[piece])
        host, task = int(found.host[piece]), int(found.task[piece])
        if (call := (calls or {}).get(int(piece))) is not None:
            begin, end = max(begin, call.start), min(end, call.end)
            culprit = Evidence(rank, begin, end - begin, call.span, spoken(call.name))
        else:
            first, last = at.get(host, (begin, end))
            if last <= begin or first >= end:
                begin, end = first, last
            culprit = Evidence(rank, begin, end - begin, host if host in name else None, name.get(host, ""))
        gap = int(found.gap_start[piece])
        own = found.on(rank)
        until = found.end[own][found.gap_start[own] == gap].max()
        for one in (culprit, Evidence(rank, gap, int(until) - gap, task if task in name else None, name.get(task, ""))):
            windows.setdefault((one.rank, one.ts_ns, one.dur_ns), one)
    return tuple(windows.values())
