"""Where in the user's program a device task comes from: the operator that launched it and the line of code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from npulens.analysis.idle.culprit import GENERATED, OWN, whose
from npulens.analysis.idle.host_spans import NONE, hosts
from npulens.analysis.run import Run

#: Deeper than any program nests its calls in a capture; a broken parent chain must end.
DEEPEST = 200


@dataclass(frozen=True)
class Origin:
    """Both None where the capture does not say."""

    op: str | None
    code: str | None

    def __str__(self) -> str:
        return " ".join(part for part in (self.op, self.code) if part)


#: Where nothing tells what launched a task.
_UNRECORDED = ("a call that was not recorded", "没有记录的调用")


def origins(run: Run, span_id: int) -> dict[str, str]:
    """What launched a device task, as the numbers of a finding hold it for both languages."""
    found = str(origin(run, span_id)) or _runtime_call(run, span_id)
    return {"origin": found or _UNRECORDED[0], "origin_zh": found or _UNRECORDED[1]}


def _runtime_call(run: Run, span_id: int) -> str:
    """The call of the runtime that launched a task without an operator around it; empty: none was recorded."""
    look_up(run, [span_id])
    known = run.get(_known)
    calls = [known.calls[source] for source in known.sources[span_id] if source in known.calls]
    latest = max((one for one in calls if one.kind == "runtime"), key=lambda one: (one.ts_ns, one.name), default=None)
    return "" if latest is None else latest.name.rpartition("@")[2]


def origin(run: Run, span_id: int) -> Origin:
    """What launched a device task. For a handful of tasks: each is a few look-ups, unless `look_up` made them."""
    look_up(run, [span_id])
    known = run.get(_known)
    wanted = known.sources[span_id]
    op: str | None = None
    outer: str | None = None
    around: str | None = None  # the outermost call of the runtime around the launch
    for depth in range(DEEPEST):
        if not wanted:
            break
        _call(run, wanted)
        rows = [known.calls[span] for span in sorted(set(wanted)) if span in known.calls]
        rows.sort(key=lambda one: -one.ts_ns)
        op = op or next((one.name for one in rows if one.kind == "cpu_op"), None)
        around = next((one.name for one in rows if depth and one.kind == "runtime"), around)
        frames = [frame.strip() for one in rows for frame in (one.frames or "").split("\n") if frame.strip()]
        frames += [one.name for one in rows if one.kind == "python"]
        mine = next((frame for frame in frames if whose(frame) == OWN), None)
        if mine is not None:
            return Origin(op, mine)
        outer = outer or next((frame for frame in frames if whose(frame) != GENERATED), None)
        wanted = [one.parent_id for one in rows if one.parent_id is not None]
    if op is None and outer is None and around is not None:
        return Origin(around.rpartition("@")[2], None)  # msprof alone: AscendCL@aclnnAdd around Node@launch
    return Origin(op, outer)


@dataclass(frozen=True)
class _Span:
    """A span of the host, with its call stack where it has one."""

    ts_ns: int
    kind: str
    name: str
    parent_id: int | None
    frames: str | None


@dataclass(frozen=True)
class _Known:
    """What was looked up: the calls that launched tasks, and spans of the host."""

    sources: dict[int, list[int]] = field(default_factory=dict)
    calls: dict[int, _Span] = field(default_factory=dict)


def _known(run: Run) -> _Known:
    return _Known()


def look_up(run: Run, tasks: Iterable[int]) -> None:
    """Asks the tables for the origins of several tasks at once."""
    known = run.get(_known)
    missing = sorted({task for task in tasks if task not in known.sources})
    if not missing:
        return
    rows = run.con.execute(
        "SELECT dst_span_id, src_span_id, rank FROM link WHERE list_contains(?, dst_span_id) AND route <> 'fwdbwd'",
        [missing],
    ).fetchall()
    for task in missing:
        known.sources[task] = []
    for task, source, _ in rows:
        known.sources[task].append(source)
    _call(run, [span for _, source, rank in rows for span in _around(run, rank, source)])


def _call(run: Run, spans: list[int]) -> None:
    """Looks some spans up by their ids."""
    known = run.get(_known).calls
    spans = sorted({span for span in spans if span not in known})
    if not spans:
        return
    sql = (
        "SELECT s.span_id, s.ts_ns, s.kind, s.name, s.parent_id, k.frames FROM span s "
        "LEFT JOIN (SELECT span_id, frames FROM stack WHERE list_contains($1, span_id)) k ON k.span_id = s.span_id "
        "WHERE list_contains($1, s.span_id)"
    )
    for row in run.con.execute(sql, [spans]).fetchall():
        known[row[0]] = _Span(*row[1:])


def _around(run: Run, rank: int, span_id: int) -> list[int]:
    """A span of the host and those around it, from it outwards."""
    spans = run.get(hosts).spans(rank) if rank in run.ranks else None
    found = [span_id]
    at = spans.at(span_id) if spans is not None else NONE
    while spans is not None and at != NONE and len(found) < DEEPEST:
        at = int(spans.parent[at])
        if at != NONE:
            found.append(int(spans.ids[at]))
    return found
