"""The code that the host was in while the device idled, by the time that it really was in it.

Python frames and call stacks come first: the innermost frame of the user with at least half of the time. Without one it
is the operator, or the two calls between which nothing was open. Code with a single long call comes before code whose
time lies in many short ones. Time is counted by stretches (within.py): what the host did before and after within the
same gap does not count.

What the host was in besides is told the same way, each piece of it by one name. That is a line of code where frames
were recorded, else an operator. A frame around the named code says nothing, nor one that only wraps another.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npulens.analysis.idle.culprit import (
    OWN,
    PACKAGE,
    SPANS,
    ByText,
    Code,
    code_of,
    codes_on,
    framed,
    names,
    told,
    whose,
)
from npulens.analysis.idle.host_names import HOST_KINDS
from npulens.analysis.idle.host_spans import NONE, OPERATOR, HostSpans, hosts
from npulens.analysis.idle.pieces import Idle
from npulens.analysis.idle.within import Marks, Stretches, cut, largest, marked, stretches
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run
from npulens.analysis.say import share

#: Code with a smaller share of the time is not named: nothing stands out.
TELLS = 0.1
#: Where no call (or no gap) in the code has this share of its time in a step, no single call holds the device up.
ONE_CALL = 0.1
#: Stretches whose code is looked up, and calls of operators whose names are: the longest.
_LOOKED_UP, _CALLS = 2000, 20_000  # of Python frames as well
#: So many names are measured to the nanosecond; of others that have time besides, so many are told.
_CANDIDATES, OTHERS = 12, 3
_BETWEEN = " -> "
_RUNTIME, _ANNOTATION, _PYTHON = (HOST_KINDS.index(kind) for kind in ("runtime", "annotation", "python"))
#: So long within one call, with nothing that begins or ends, is a stall.
STALL_NS = 500_000
#: Calls of the runtime that hand over work and return, where the device has nothing to do.
_LAUNCHES = re.compile(r"Launch|EventRecord|EventQuery|StreamWaitEvent|FuncSetAttribute|MemsetAsync|^hcom_|Enqueue")


@dataclass(frozen=True)
class Call:
    """One call of an operator, and how long the device idled while the host was in it."""

    span: int
    name: str
    start: int
    end: int
    ns: int


@dataclass(frozen=True)
class Stall:
    """A rest in a call's own time. Its other calls without one are more, and the first of all is among them."""

    rank: int
    span: int
    name: str
    start: int
    ns: int  # as long as the device idles
    usual_ns: int  # the longest rest in the other calls


@dataclass(frozen=True)
class Inside:
    """The code with most of some pieces of idle time."""

    code: str  # empty: nothing stands out
    ns: int  # in the code
    whole_ns: int
    by_piece: Ints  # of each piece how much is in the code
    longest_ns: int  # in one call of the operator; of other code in one piece
    single: bool  # not spread over many calls
    call: Call | None = None  # the longest, where the code is an operator
    calls: Mapping[int, Call] = field(default_factory=dict)  # by piece: the call with most of it
    own_ns: int = 0  # of `ns`: in no operator that it calls
    others: tuple[tuple[str, int], ...] = ()  # lines of code and operators besides, none within another
    between_ns: int = 0  # of all: in no operator
    largest: Call | None = None  # of all operators, the call with most idle time
    runtime: tuple[str, int] = ("", 0)  # of `ns`: the call of the runtime with most of it
    annotation: tuple[str, int] = ("", 0)  # of all: the annotation with most of it, operators within and all
    stalls: tuple[Stall, ...] = ()  # of all, the longest first

    @property
    def silent(self) -> bool:
        """Whether the code is a range that the job marked, and in most of its time no operator was recorded."""
        return ".py(" not in self.code and 2 * (self.whole_ns - self.between_ns) <= self.ns

    @property
    def besides(self) -> dict[str, list[str] | float | None]:
        """What else the host was in, as the numbers of a finding hold it; shares of all of the time."""
        whole = max(1, self.whole_ns)
        between = self.between_ns / whole
        return {
            "others": [f"{name} ({share(ns / whole)})" for name, ns in self.others] or None,
            "between_share": between if between >= TELLS / 2 else None,
        }  # fmt: skip


@dataclass(frozen=True)
class _Found:
    """A name with its exact time."""

    name: str
    ns: int
    mask: Marks  # of the stretches
    op: str | None  # the name is an operator alone
    longest: int
    single: bool


def inside(run: Run, found: Idle, pieces: Ints) -> Inside:
    """The code with most of the time of some pieces."""
    idle = stretches(run, found.rank[pieces], found.start[pieces], found.end[pieces])
    whole = int(idle.ns.sum())
    told_by = _telling(run, idle)
    best = _best(run, idle, told_by, whole)
    by_piece = np.zeros(len(pieces), np.int64)
    annotation = _annotation(run, idle)
    if best is None:
        return Inside("", 0, whole, by_piece, 0, False, largest=_largest(idle, told_by), annotation=annotation)
    np.add.at(by_piece, idle.piece[best.mask], idle.ns[best.mask])
    between_ns = int(idle.ns[idle.operator == NONE].sum())
    calls: dict[int, Call] = {}
    most, own_ns = None, 0
    if best.op is not None:
        place = idle.within(idle.of_ids(run.get(_called).every(best.op)))
        own_ns = int(idle.ns[best.mask & (idle.operator == place)].sum())
        most, calls = _longest(idle, place, best.op), _by_piece(idle, place, best.op)
    return Inside(
        best.name, best.ns, whole, by_piece, best.longest, best.single, most, calls, own_ns,
        _others(run, idle, told_by, best, whole), between_ns, _largest(idle, told_by), _runtime(run, idle, best),
        annotation, _stalls(run, idle),
    )  # fmt: skip


def _telling(run: Run, idle: Stretches) -> dict[int, str]:
    """The names of the calls that tell the stretches, of those with most time."""
    there = idle.telling != NONE
    time = np.bincount(idle.telling[there], idle.ns[there], len(idle.ids))
    at = np.flatnonzero(time)
    return _named(run, idle, at[largest(idle.of_span[at], time[at], _CALLS)])


def _named(run: Run, idle: Stretches, places: Ints) -> dict[int, str]:
    """The names of some spans by their place."""
    known = names(run, idle.ids[places])
    return {place: known[span] for place, span in zip(places.tolist(), idle.ids[places].tolist(), strict=True)}


def _sums(name: Mapping[int, str], mask: Marks, idle: Stretches) -> Counter[str]:
    """Time of some stretches by the name that tells them."""
    at, found = idle.telling[mask], Counter[str]()
    there = at != NONE
    if there.any():
        time = np.bincount(at[there], idle.ns[mask][there])
        for place in np.flatnonzero(time).tolist():
            if place in name:
                found[name[place]] += int(time[place])
    return found


def _best(run: Run, idle: Stretches, told_by: dict[int, str], whole: int) -> _Found | None:
    """The name to tell."""
    at, codes = known = _codes(run, idle, told_by)
    spent: Counter[Code] = Counter()
    for code, ns in zip(codes, idle.ns[at].tolist(), strict=True):
        spent[code] += ns
    if any(code.around for code in spent) and (best := _of_frame(run, idle, known, spent)) is not None:
        return best if best.ns >= TELLS * whole else None
    wanted: Counter[tuple[str | None, str | None]] = Counter()
    for code, ns in spent.items():
        wanted[code.frame, code.op] += ns
    if not any(code.around for code in spent):
        for op, ns in _sums(told_by, np.ones(len(idle.starts), np.bool_), idle).items():
            wanted[None, op] = max(wanted[None, op], ns)
    wanted.pop((None, None), None)
    every = (_exact(run, idle, known, frame, op) for (frame, op), _ in wanted.most_common(_CANDIDATES))
    return _most_telling([one for one in every if one.ns >= TELLS * whole])


def _of_frame(run: Run, idle: Stretches, known: tuple[Ints, list[Code]], spent: Counter[Code]) -> _Found | None:
    """The innermost frame with at least half of the time, and the operator with half of its own."""
    total = sum(spent.values())
    frames, depth, ops = Counter[str](), Counter[str](), Counter[str]()
    for code, ns in spent.items():
        for place, frame in enumerate(code.around):
            frames[frame] += ns
            depth[frame] = max(depth[frame], place)
    half = [frame for frame, ns in frames.items() if 2 * ns >= total]
    if not half:
        return None
    frame = min(half, key=lambda one: (depth[one], frames[one], one))
    for code, ns in spent.items():
        if frame in code.around and code.op and _BETWEEN not in code.op:
            ops[code.op] += ns
    alone = _exact(run, idle, known, frame, None)
    within = [_exact(run, idle, known, frame, op) for op, _ in ops.most_common(1)]
    return next((one for one in within if 2 * one.ns >= alone.ns), alone)


def _most_telling(found: list[_Found]) -> _Found | None:
    """What has a long call before what has not, then what has most. What it spends half of its time in says more."""
    if not found:
        return None
    ranked = sorted(found, key=lambda one: (not one.single, -one.ns, one.name))
    best = ranked[0]
    for one in ranked[1:]:
        if one.single == best.single and 2 * one.ns >= best.ns and _lies_in(one, best):
            best = one
    return best


def _lies_in(one: _Found, other: _Found) -> bool:
    return bool((other.mask | ~one.mask).all())


def _codes(run: Run, idle: Stretches, told_by: dict[int, str]) -> tuple[Ints, list[Code]]:
    """The longest stretches of each rank and their code; the operator is the call that tells it."""
    at = largest(idle.of, idle.ns, _LOOKED_UP)
    of, moments = idle.of[at], (idle.starts[at] + idle.ends[at]) // 2
    every = codes_on(run, {rank: moments[of == place] for place, rank in enumerate(idle.ranks.tolist())})
    tells = (told_by.get(place) for place in idle.telling[at].tolist())
    return at, [
        Code(code.frame, op, code.around) if op else code
        for code, op in zip((code for rank in idle.ranks.tolist() for code in every[rank]), tells, strict=True)
    ]  # fmt: skip


def _exact(
    run: Run, idle: Stretches, known: tuple[Ints, list[Code]], frame: str | None, op: str | None
) -> _Found:  # fmt: skip
    """How long the host was in a line of code and in an operator, on all ranks."""
    alone = op if frame is None and op is not None and _BETWEEN not in op else None
    mask, by = np.ones(len(idle.starts), np.bool_), idle.piece
    if frame is not None:
        mask &= idle.on_any_thread(idle.of_ids(run.get(framed).every(frame)))
    if op is not None and _BETWEEN in op:
        at, codes = known
        between = np.zeros_like(mask)
        between[at[np.array([code.op == op for code in codes], np.bool_)]] = True
        mask &= between
    elif op is not None:
        of = idle.of_ids(run.get(_called).every(op))
        place, none = idle.within(of), idle.operator == NONE
        called = np.zeros(len(idle.ranks), np.bool_)
        called[idle.of_span[of & (idle.kinds == OPERATOR)]] = True
        mask &= (place != NONE) | (none & idle.on_any_thread(of))
        mask &= none | called[idle.of]  # what operators have within an annotation is theirs
        if alone is not None:
            by = np.where(place == NONE, len(idle.ids) + idle.of, place)
    ns = int(idle.ns[mask].sum())
    longest = int(np.bincount(by[mask], idle.ns[mask]).max(initial=0)) if mask.any() else 0
    single = longest * int(idle.steps.max(initial=1)) * len(idle.ranks) >= ONE_CALL * ns
    return _Found(told(frame, op), ns, mask, alone, longest, single)


def _called(run: Run) -> ByText:
    """The host spans with a name."""
    kinds = "('cpu_op', 'runtime', 'annotation')"
    sql = f"SELECT rank, span_id FROM span WHERE name = ? AND kind IN {kinds} ORDER BY span_id"
    return ByText(lambda name: run.columns(sql, [name]))


#: Frames around a moment, the outermost first: whether one is the user's own, and how it is told.
Path = tuple[tuple[bool, str], ...]


def _others(
    run: Run, idle: Stretches, told_by: dict[int, str], best: _Found, whole: int
) -> tuple[tuple[str, int], ...]:  # fmt: skip
    """What the host was in besides, the largest first: a line of code, with the operator that has half of its time.

    Where no line is worth a word, operators.
    """
    least = whole * TELLS / 2
    paths, on = _paths(run, idle)
    held, left = (_by_path(paths, idle, on, mask) for mask in (best.mask, ~best.mask))
    around = {frame for frame, ns in _by_frame(held).items() if 2 * ns >= sum(held.values())}
    head = heads(left, around, least, whole)
    spent = Counter[str]()
    for path, ns in left.items():
        spent[head.get(path, "")] += ns
    lines = [frame for frame, ns in spent.items() if frame and ns >= least]
    number = np.array([lines.index(head[path]) if head.get(path) in lines else NONE for path in paths] + [NONE])
    found, line = Counter[str](), number[on]
    for place, frame in enumerate(lines):
        ops = _sums(told_by, ~best.mask & (line == place), idle)
        op = next((op for op, ns in ops.most_common(1) if 2 * ns >= spent[frame]), None)
        found[told(frame, op)] += spent[frame]
    found.update(_sums(told_by, ~best.mask & (line == NONE), idle))
    return tuple((name, ns) for name, ns in found.most_common(OTHERS) if ns >= least)


def _paths(run: Run, idle: Stretches) -> tuple[list[Path], Ints]:
    """Paths of frames, and of each stretch which it is, or NONE: without frames that span a step."""
    limit = np.array([
        SPANS * max((step.dur_ns for step in run.steps[rank]), default=np.inf) for rank in idle.ranks.tolist()
    ])  # fmt: skip
    short = idle.stops - idle.begins < limit[idle.of_span]
    at = np.flatnonzero((idle.kinds == _PYTHON) & (idle.whole > 0) & short)
    at = np.sort(at[largest(idle.of_span[at], idle.whole[at], _CALLS)])
    name = _named(run, idle, at)
    at = at[[whose(name[place]) in (OWN, PACKAGE) for place in at.tolist()]]
    marks = np.zeros(len(idle.ids), np.bool_)
    marks[at] = True
    of = np.full(len(idle.ids) + 1, NONE, np.int64)
    paths: list[Path] = []
    known: dict[Path, int] = {}
    lines: dict[str, tuple[bool, str]] = {}
    for place, outer in zip(at.tolist(), idle.around(at, marks).tolist(), strict=True):  # those around come first
        frame = name[place]
        line = lines.setdefault(frame, (whose(frame) == OWN, code_of([("python", frame, None)]).frame or frame))
        path = paths[of[outer]] if outer != NONE else ()
        if line not in path:  # not one that calls itself
            path = (*path, line)
        of[place] = known.setdefault(path, len(paths))
        if of[place] == len(paths):
            paths.append(path)
    return paths, of[idle.innermost(marks)]


def _by_path(paths: list[Path], idle: Stretches, on: Ints, mask: Marks) -> Counter[Path]:
    """Time of some stretches by the frames around them."""
    mine = mask & (on != NONE)
    time = np.bincount(on[mine], idle.ns[mine], len(paths))
    return +Counter[Path]({path: int(ns) for path, ns in zip(paths, time.tolist(), strict=True)})


def _by_frame(spent: Counter[Path]) -> Counter[str]:
    """Time of each frame, in what it calls as well."""
    found = Counter[str]()
    for path, ns in spent.items():
        for _, frame in path:
            found[frame] += ns
    return found


def heads(spent: Counter[Path], around: set[str], least: float, whole: int) -> dict[Path, str]:
    """Per path the frame that tells it: the outermost of the user's own that wraps nothing, else of packages within.

    One of the user's own wraps the frame within that has half of its time. Any frame with half of all time wraps those
    within that are worth a word, if they have half of its time.
    """
    wraps = set(around)
    while True:
        head: dict[Path, str] = {}
        total, below, mine = Counter[str](), defaultdict[str, Counter[str]](Counter), set[str]()
        for path, ns in spent.items():
            left = [frame for own, frame in path if own and frame not in wraps]
            mine.update(left[:1])
            last = max((place for place, (own, _) in enumerate(path) if own), default=NONE)
            left = left or [frame for _, frame in path[last + 1 :] if frame not in wraps]
            if left:
                head[path] = left[0]
                total[left[0]] += ns
                below[left[0]].update({frame: ns for frame in left[1:2]})
        further = set()
        for frame, ns in total.items():
            most = max(below[frame].values(), default=0) if frame in mine else 0
            many = sum(part for part in below[frame].values() if part >= least) if 2 * ns >= whole else 0
            if ns >= least and 2 * max(most, many) >= ns:
                further.add(frame)
        if not further:
            return head
        wraps |= further


def _stalls(run: Run, idle: Stretches) -> tuple[Stall, ...]:
    """Long rests in operators and calls that launch work, of those that are quick otherwise."""
    at = np.flatnonzero((idle.ns >= STALL_NS) & (idle.inner != NONE))
    at = at[np.isin(idle.kinds[idle.inner[at]], (OPERATOR, _RUNTIME))]
    name, found = names(run, idle.ids[idle.inner[at]]), []
    for place, rank in enumerate(idle.ranks.tolist()):
        mine, spans = at[idle.of[at] == place], run.get(hosts).spans(rank)
        if not len(mine):
            continue
        rest, usual = _longest_rests(run, rank, spans), dict[tuple[str, int], int | None]()
        for stretch, inner in zip(mine.tolist(), idle.inner[mine].tolist(), strict=True):
            span, kind = int(idle.ids[inner]), int(idle.kinds[inner])
            if kind == _RUNTIME and not _LAUNCHES.search(name[span]):
                continue
            if (name[span], kind) not in usual:
                of = marked(spans, run.get(_called).get(name[span], rank)) & (spans.kinds == kind)
                usual[name[span], kind] = _usual_rest(spans, rest, of)
            if (quick := usual[name[span], kind]) is not None:
                begin, ns = int(idle.starts[stretch]), int(idle.ns[stretch])
                found.append(Stall(rank, span, name[span], begin, ns, quick))
    return tuple(sorted(found, key=lambda one: -one.ns))


def _longest_rests(run: Run, rank: int, spans: HostSpans) -> Ints:
    """Per span of a rank the longest time in which the host was in it and nothing began or ended."""
    every = cut(run, rank, spans.starts.min(keepdims=True), spans.ends.max(keepdims=True))
    rest = np.zeros(len(spans.ids), np.int64)
    there = every.inner != NONE
    np.maximum.at(rest, every.inner[there], (every.ends - every.starts)[there])
    return rest


def _usual_rest(spans: HostSpans, rest: Ints, of: Marks) -> int | None:
    """The longest rest of the quick ones among some calls; None where most are slow, or the first of them is."""
    slow = of & (rest >= STALL_NS)
    quick = of & ~slow
    if not quick.any() or quick.sum() < slow.sum() or spans.starts[quick].min() > spans.starts[of].min():
        return None
    return int(rest[quick].max())


def _longest(idle: Stretches, place: Ints, name: str) -> Call | None:
    """The call in which the device idles longest."""
    there = place != NONE
    if not there.any():
        return None
    time = np.bincount(place[there], idle.ns[there])
    return _call(idle, int(time.argmax()), name, int(time.max()))


def _call(idle: Stretches, place: int, name: str, ns: int) -> Call:
    return Call(int(idle.ids[place]), name, int(idle.begins[place]), int(idle.stops[place]), ns)


def _by_piece(idle: Stretches, place: Ints, name: str) -> dict[int, Call]:
    """Per piece the call with most of it."""
    there = np.flatnonzero(place != NONE)
    keys, which = np.unique(np.stack((idle.piece[there], place[there])), axis=1, return_inverse=True)
    time = np.bincount(which.ravel(), idle.ns[there], keys.shape[1]) if len(there) else np.zeros(0)
    best: dict[int, tuple[int, int]] = {}
    for piece, call, ns in zip(*keys.tolist(), time.tolist(), strict=True):
        if ns > best.get(piece, (0, 0))[0]:
            best[piece] = int(ns), call
    return {piece: _call(idle, call, name, ns) for piece, (ns, call) in best.items()}


def _largest(idle: Stretches, told_by: dict[int, str]) -> Call | None:
    """Of all operators the call in which the device idles longest."""
    there = idle.telling != NONE
    time = np.bincount(idle.telling[there], idle.ns[there]) if there.any() else np.zeros(1)
    at = int(time.argmax())
    return _call(idle, at, told_by[at], int(time[at])) if at in told_by else None


def _runtime(run: Run, idle: Stretches, best: _Found) -> tuple[str, int]:
    """The innermost call of the runtime with most of the named code's time."""
    inner = np.where(best.mask, idle.inner, NONE)
    at = np.flatnonzero(inner != NONE)
    at = at[idle.kinds[inner[at]] == _RUNTIME]
    spent = _spent(run, idle, inner[at], idle.ns[at])
    return max(spent.items(), key=lambda one: (one[1], one[0]), default=("", 0))


def _annotation(run: Run, idle: Stretches) -> tuple[str, int]:
    """The annotation within a step with most time, as one that lies within its like counts once."""
    places = np.flatnonzero((idle.kinds == _ANNOTATION) & (idle.whole > 0))
    found: dict[str, int] = {}
    for name, _ in _spent(run, idle, places, idle.whole[places]).most_common(OTHERS):
        within = idle.within(idle.of_ids(run.get(_called).every(name)))
        found[name] = int(idle.ns[within != NONE].sum())
    return max(found.items(), key=lambda one: (one[1], one[0]), default=("", 0))


def _spent(run: Run, idle: Stretches, places: Ints, ns: Ints) -> Counter[str]:
    """Time of spans by their names, of those of each rank with most."""
    time = np.bincount(places, ns, len(idle.ids))
    at = np.flatnonzero(time)
    at = at[largest(idle.of_span[at], time[at], _LOOKED_UP)]
    named, found = _named(run, idle, at), Counter[str]()
    for place in at.tolist():
        found[named[place]] += int(time[place])
    return found
