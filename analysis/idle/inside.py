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
from collections.abc import Iterable, Mapping, Sequence
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
from npulens.analysis.idle.host_spans import NONE, OPERATOR
from npulens.analysis.idle.pieces import Idle
from npulens.analysis.idle.within import Marks, Stretches, marked, stretches
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
    masks: tuple[Marks, ...]  # of each rank's stretches
    op: str | None  # the name is an operator alone
    longest: int
    single: bool


def inside(run: Run, found: Idle, pieces: Ints) -> Inside:
    """The code with most of the time of some pieces."""
    ranks = found.rank[pieces]
    places = [np.flatnonzero(ranks == rank) for rank in np.unique(ranks).tolist()]
    cuts = [stretches(run, int(ranks[at[0]]), found.start[pieces[at]], found.end[pieces[at]]) for at in places]
    whole = sum(int(cut.ns.sum()) for cut in cuts)
    told_by = _telling(run, cuts)
    best = _best(run, cuts, told_by, whole)
    by_piece = np.zeros(len(pieces), np.int64)
    annotation = _annotation(run, cuts)
    if best is None:
        return Inside("", 0, whole, by_piece, 0, False, largest=_largest(cuts, told_by), annotation=annotation)
    calls: dict[int, Call] = {}
    most, own_ns, between_ns = None, 0, 0
    for cut, at, mask in zip(cuts, places, best.masks, strict=True):
        np.add.at(by_piece, at[cut.piece[mask]], cut.ns[mask])
        between_ns += int(cut.ns[cut.operator == NONE].sum())
        if best.op is not None:
            place = cut.within(marked(cut.spans, run.get(_called).get(best.op, cut.rank)))
            own_ns += int(cut.ns[mask & (cut.operator == place)].sum())
            longest = _longest(cut, place, best.op)
            most = longest if most is None or (longest is not None and longest.ns > most.ns) else most
            calls.update(_by_piece(cut, place, best.op, at))
    return Inside(
        best.name, best.ns, whole, by_piece, best.longest, best.single, most, calls, own_ns,
        _others(run, cuts, told_by, best, whole), between_ns, _largest(cuts, told_by), _runtime(run, cuts, best),
        annotation, _stalls(run, cuts),
    )  # fmt: skip


def _telling(run: Run, cuts: list[Stretches]) -> list[dict[int, str]]:
    """The names of the calls that tell the stretches, of those with most time."""
    places = []
    for cut in cuts:
        at = cut.telling[cut.telling != NONE]
        time = np.bincount(at, cut.ns[cut.telling != NONE], len(cut.spans.ids)) if len(at) else np.zeros(0)
        most = np.flatnonzero(time)
        places.append(most[np.argsort(-time[most], kind="stable")][:_CALLS])
    return _named(run, cuts, places)


def _named(run: Run, cuts: list[Stretches], places: list[Ints]) -> list[dict[int, str]]:
    """Of each rank the names of some spans by their place; all of them are looked up at once."""
    ids = [cut.spans.ids[at] for cut, at in zip(cuts, places, strict=True)]
    known = names(run, np.concatenate(ids))
    return [
        {place: known[span] for place, span in zip(at.tolist(), mine.tolist(), strict=True)}
        for at, mine in zip(places, ids, strict=True)
    ]


def _sums(name: Mapping[int, str], mask: Marks, cut: Stretches) -> Counter[str]:
    """Time of some stretches by the name that tells them."""
    at, found = cut.telling[mask], Counter[str]()
    there = at != NONE
    if there.any():
        time = np.bincount(at[there], cut.ns[mask][there])
        for place in np.flatnonzero(time).tolist():
            if place in name:
                found[name[place]] += int(time[place])
    return found


def _best(run: Run, cuts: list[Stretches], told_by: list[dict[int, str]], whole: int) -> _Found | None:
    """The name to tell."""
    known = _codes(run, cuts, told_by)
    spent: Counter[Code] = Counter()
    total = 0
    for cut, (at, codes) in zip(cuts, known, strict=True):
        total += int(cut.ns[at].sum())
        for code, ns in zip(codes, cut.ns[at].tolist(), strict=True):
            spent[code] += ns
    if any(code.around for code in spent) and (best := _of_frame(run, cuts, known, spent, total)) is not None:
        return best if best.ns >= TELLS * whole else None
    wanted: Counter[tuple[str | None, str | None]] = Counter()
    for code, ns in spent.items():
        wanted[code.frame, code.op] += ns
    if not any(code.around for code in spent):
        for cut, name in zip(cuts, told_by, strict=True):
            for op, ns in _sums(name, np.ones(len(cut.starts), np.bool_), cut).items():
                wanted[None, op] = max(wanted[None, op], ns)
    wanted.pop((None, None), None)
    every = (_exact(run, cuts, known, frame, op) for (frame, op), _ in wanted.most_common(_CANDIDATES))
    return _most_telling([one for one in every if one.ns >= TELLS * whole])


def _of_frame(
    run: Run, cuts: list[Stretches], known: list[tuple[Ints, list[Code]]], spent: Counter[Code], total: int
) -> _Found | None:
    """The innermost frame with at least half of the time, and the operator with half of its own."""
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
    alone = _exact(run, cuts, known, frame, None)
    within = [_exact(run, cuts, known, frame, op) for op, _ in ops.most_common(1)]
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
    return all(bool((of | ~mine).all()) for mine, of in zip(one.masks, other.masks, strict=True))


def _codes(run: Run, cuts: list[Stretches], told_by: list[dict[int, str]]) -> list[tuple[Ints, list[Code]]]:
    """Of each rank the longest stretches and their code; the operator is the call that tells it."""
    longest = [np.argsort(-cut.ns, kind="stable")[:_LOOKED_UP] for cut in cuts]
    every = codes_on(run, {
        cut.rank: (cut.starts[at] + cut.ends[at]) // 2 for cut, at in zip(cuts, longest, strict=True)
    })  # fmt: skip
    found = []
    for cut, at, name in zip(cuts, longest, told_by, strict=True):
        tells = (name.get(place) for place in cut.telling[at].tolist())
        codes = [
            Code(code.frame, op, code.around) if op else code
            for code, op in zip(every[cut.rank], tells, strict=True)
        ]  # fmt: skip
        found.append((at, codes))
    return found


def _exact(
    run: Run, cuts: list[Stretches], known: list[tuple[Ints, list[Code]]], frame: str | None, op: str | None
) -> _Found:
    """How long the host was in a line of code and in an operator, on all ranks."""
    masks, longest, ns, steps = [], 0, 0, 1
    alone = op if frame is None and op is not None and _BETWEEN not in op else None
    for cut, (at, codes) in zip(cuts, known, strict=True):
        mask = np.ones(len(cut.starts), np.bool_)
        if frame is not None:
            mask &= cut.on_any_thread(marked(cut.spans, run.get(framed).get(frame, cut.rank)))
        place = None
        if op is not None and _BETWEEN in op:
            mine = np.array([code.op == op for code in codes], np.bool_)
            between = np.zeros_like(mask)
            between[at[mine]] = True
            mask &= between
        elif op is not None:
            of = marked(cut.spans, run.get(_called).get(op, cut.rank))
            place = cut.within(of)
            none = cut.operator == NONE
            mask &= (place != NONE) | (none & cut.on_any_thread(of))
            if not (cut.spans.kinds[of] == OPERATOR).any():
                mask &= none  # what operators have within an annotation is theirs
        masks.append(mask)
        ns += int(cut.ns[mask].sum())
        by = cut.piece if alone is None or place is None else np.where(place == NONE, len(cut.spans.ids), place)
        longest = max(longest, int(np.bincount(by[mask], cut.ns[mask]).max(initial=0)) if mask.any() else 0)
        steps = max(steps, cut.steps)
    single = longest * steps * len(cuts) >= ONE_CALL * ns
    return _Found(told(frame, op), ns, tuple(masks), alone, longest, single)


def _called(run: Run) -> ByText:
    """The host spans with a name."""
    kinds = "('cpu_op', 'runtime', 'annotation')"
    sql = f"SELECT rank, span_id FROM span WHERE name = ? AND kind IN {kinds} ORDER BY span_id"
    return ByText(lambda name: run.columns(sql, [name]))


#: Frames around a moment, the outermost first: whether one is the user's own, and how it is told.
Path = tuple[tuple[bool, str], ...]


def _others(
    run: Run, cuts: list[Stretches], told_by: list[dict[int, str]], best: _Found, whole: int
) -> tuple[tuple[str, int], ...]:
    """What the host was in besides, the largest first: a line of code, with the operator that has half of its time.

    Where no line is worth a word, operators.
    """
    least = whole * TELLS / 2
    paths, on = _paths(run, cuts)
    held, left = (_by_path(paths, cuts, on, masks) for masks in (best.masks, [~mask for mask in best.masks]))
    around = {frame for frame, ns in _by_frame(held).items() if 2 * ns >= sum(held.values())}
    head = heads(left, around, least, whole)
    spent = Counter[str]()
    for path, ns in left.items():
        spent[head.get(path, "")] += ns
    lines = [frame for frame, ns in spent.items() if frame and ns >= least]
    number = np.array([lines.index(head[path]) if head.get(path) in lines else NONE for path in paths] + [NONE])
    found, rest = Counter[str](), Counter[str]()
    within = [Counter[str]() for _ in lines]
    for cut, name, mask, at in zip(cuts, told_by, best.masks, on, strict=True):
        line = number[at]
        for one, ops in enumerate(within):
            ops.update(_sums(name, ~mask & (line == one), cut))
        rest.update(_sums(name, ~mask & (line == NONE), cut))
    for frame, ops in zip(lines, within, strict=True):
        op = next((op for op, ns in ops.most_common(1) if 2 * ns >= spent[frame]), None)
        found[told(frame, op)] += spent[frame]
    found.update(rest)
    return tuple((name, ns) for name, ns in found.most_common(OTHERS) if ns >= least)


def _paths(run: Run, cuts: list[Stretches]) -> tuple[list[Path], list[Ints]]:
    """Paths of frames, and of each rank's stretches which it is, or NONE: without frames that span a step."""
    paths: list[Path] = []
    known: dict[Path, int] = {}
    lines: dict[str, tuple[bool, str]] = {}
    on = []
    for cut in cuts:
        spans = cut.spans
        limit = SPANS * max((step.dur_ns for step in run.steps[cut.rank]), default=np.inf)
        at = np.flatnonzero((spans.kinds == _PYTHON) & (cut.whole > 0) & (spans.ends - spans.starts < limit))
        at = np.sort(at[np.argsort(-cut.whole[at], kind="stable")][:_CALLS])
        name = names(run, spans.ids[at])
        at = at[[whose(name[span]) in (OWN, PACKAGE) for span in spans.ids[at].tolist()]]
        marks = np.zeros(len(spans.ids), np.bool_)
        marks[at] = True
        of = np.full(len(spans.ids) + 1, NONE, np.int64)
        for place, outer in zip(at.tolist(), cut.around(at, marks).tolist(), strict=True):  # those around come first
            frame = name[int(spans.ids[place])]
            line = lines.setdefault(frame, (whose(frame) == OWN, code_of([("python", frame, None)]).frame or frame))
            path = paths[of[outer]] if outer != NONE else ()
            if line not in path:  # not one that calls itself
                path = (*path, line)
            of[place] = known.setdefault(path, len(paths))
            if of[place] == len(paths):
                paths.append(path)
        on.append(of[cut.innermost(marks)])
    return paths, on


def _by_path(paths: list[Path], cuts: list[Stretches], on: list[Ints], masks: Sequence[Marks]) -> Counter[Path]:
    """Time of some stretches by the frames around them."""
    found = Counter[Path]()
    for cut, at, mask in zip(cuts, on, masks, strict=True):
        mine = mask & (at != NONE)
        time = np.bincount(at[mine], cut.ns[mine], len(paths))
        found.update({path: int(ns) for path, ns in zip(paths, time.tolist(), strict=True)})
    return +found


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


def _stalls(run: Run, cuts: list[Stretches]) -> tuple[Stall, ...]:
    """Long rests in operators and calls that launch work, of those that are quick otherwise."""
    found = []
    for cut in cuts:
        spans = cut.spans
        at = np.flatnonzero((cut.ns >= STALL_NS) & (cut.inner != NONE))
        at = at[np.isin(spans.kinds[cut.inner[at]], (OPERATOR, _RUNTIME))]
        if not len(at):
            continue
        rest = _longest_rests(run, cut)
        name = names(run, spans.ids[cut.inner[at]])
        for stretch, place in zip(at.tolist(), cut.inner[at].tolist(), strict=True):
            text = name[int(spans.ids[place])]
            if spans.kinds[place] == _RUNTIME and not _LAUNCHES.search(text):
                continue
            of = marked(spans, run.get(_called).get(text, cut.rank)) & (spans.kinds == spans.kinds[place])
            slow = of & (rest >= STALL_NS)
            quick = of & ~slow
            if not quick.any() or quick.sum() < slow.sum() or spans.starts[quick].min() > spans.starts[of].min():
                continue
            found.append(Stall(
                cut.rank, int(spans.ids[place]), text, int(cut.starts[stretch]), int(cut.ns[stretch]),
                int(rest[quick].max()),
            ))  # fmt: skip
    return tuple(sorted(found, key=lambda one: -one.ns))


def _longest_rests(run: Run, cut: Stretches) -> Ints:
    """Per span of a rank the longest time in which the host was in it and nothing began or ended."""
    spans = cut.spans
    every = stretches(run, cut.rank, spans.starts.min(keepdims=True), spans.ends.max(keepdims=True))
    rest = np.zeros(len(spans.ids), np.int64)
    there = every.inner != NONE
    np.maximum.at(rest, every.inner[there], every.ns[there])
    return rest


def _longest(cut: Stretches, place: Ints, name: str) -> Call | None:
    """The call in which the device idles longest."""
    there = place != NONE
    if not there.any():
        return None
    time = np.bincount(place[there], cut.ns[there])
    return _call(cut, int(time.argmax()), name, int(time.max()))


def _call(cut: Stretches, place: int, name: str, ns: int) -> Call:
    spans = cut.spans
    return Call(int(spans.ids[place]), name, int(spans.starts[place]), int(spans.ends[place]), ns)


def _by_piece(cut: Stretches, place: Ints, name: str, at: Ints) -> Iterable[tuple[int, Call]]:
    """Per piece the call with most of it."""
    there = np.flatnonzero(place != NONE)
    keys, which = np.unique(np.stack((cut.piece[there], place[there])), axis=1, return_inverse=True)
    time = np.bincount(which.ravel(), cut.ns[there], keys.shape[1]) if len(there) else np.zeros(0)
    best: dict[int, tuple[int, int]] = {}
    for piece, call, ns in zip(*keys.tolist(), time.tolist(), strict=True):
        if ns > best.get(piece, (0, 0))[0]:
            best[piece] = int(ns), call
    for piece, (ns, call) in best.items():
        yield int(at[piece]), _call(cut, call, name, ns)


def _largest(cuts: list[Stretches], told_by: list[dict[int, str]]) -> Call | None:
    """Of all operators the call in which the device idles longest."""
    best = None
    for cut, name in zip(cuts, told_by, strict=True):
        there = cut.telling != NONE
        time = np.bincount(cut.telling[there], cut.ns[there]) if there.any() else np.zeros(1)
        at, most = int(time.argmax()), int(time.max())
        if at in name and (best is None or most > best.ns):
            best = _call(cut, at, name[at], most)
    return best


def _runtime(run: Run, cuts: list[Stretches], best: _Found) -> tuple[str, int]:
    """The innermost call of the runtime with most of the named code's time."""
    inner = [
        np.where(mask & (cut.inner != NONE) & (cut.spans.kinds[cut.inner] == _RUNTIME), cut.inner, NONE)
        for cut, mask in zip(cuts, best.masks, strict=True)
    ]
    spent = _spent(run, cuts, [(at[at != NONE], cut.ns[at != NONE]) for cut, at in zip(cuts, inner, strict=True)])
    return max(spent.items(), key=lambda one: (one[1], one[0]), default=("", 0))


def _annotation(run: Run, cuts: list[Stretches]) -> tuple[str, int]:
    """The annotation within a step with most time, as one that lies within its like counts once."""
    places = [np.flatnonzero((cut.spans.kinds == _ANNOTATION) & (cut.whole > 0)) for cut in cuts]
    spent = _spent(run, cuts, [(at, cut.whole[at]) for cut, at in zip(cuts, places, strict=True)])
    found: dict[str, int] = {}
    for name, _ in spent.most_common(OTHERS):
        of = run.get(_called)
        masks = ((cut, cut.within(marked(cut.spans, of.get(name, cut.rank))) != NONE) for cut in cuts)
        found[name] = sum(int(cut.ns[mask].sum()) for cut, mask in masks)
    return max(found.items(), key=lambda one: (one[1], one[0]), default=("", 0))


def _spent(run: Run, cuts: list[Stretches], parts: list[tuple[Ints, Ints]]) -> Counter[str]:
    """Time of spans of each rank (places and ns) by their names."""
    most = [dict(_most(places, ns)) for places, ns in parts]
    named = _named(run, cuts, [np.array(list(one), np.int64) for one in most])
    found: Counter[str] = Counter()
    for one, name in zip(most, named, strict=True):
        for place, ns in one.items():
            found[name[place]] += ns
    return found


def _most(places: Ints, ns: Ints) -> Iterable[tuple[int, int]]:
    """The spans with most time, each with its time."""
    if not len(places):
        return
    time = np.bincount(places, ns)
    for place in np.argsort(-time, kind="stable")[:_LOOKED_UP].tolist():
        if time[place]:
            yield place, int(time[place])
