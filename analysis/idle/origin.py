"""Where in the user's program a device task comes from: the operator that launched it and the line of code."""

from __future__ import annotations

from dataclasses import dataclass

from npulens.analysis.idle.culprit import GENERATED, OWN, whose
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
    found = str(origin(run, span_id))
    return {"origin": found or _UNRECORDED[0], "origin_zh": found or _UNRECORDED[1]}


def origin(run: Run, span_id: int) -> Origin:
    """What launched a device task. For a handful of tasks: each is a few look-ups."""
    wanted = [
        source for (source,) in run.con.execute(
            "SELECT src_span_id FROM link WHERE dst_span_id = ? AND route <> 'fwdbwd'", [span_id]
        ).fetchall()
    ]  # fmt: skip
    op: str | None = None
    outer: str | None = None
    for _ in range(DEEPEST):
        if not wanted:
            break
        rows = run.con.execute(
            "SELECT s.kind, s.name, s.parent_id, k.frames FROM span s LEFT JOIN stack k ON k.span_id = s.span_id "
            "WHERE list_contains(?, s.span_id) ORDER BY s.ts_ns DESC", [wanted],
        ).fetchall()  # fmt: skip
        op = op or next((name for kind, name, _, _ in rows if kind == "cpu_op"), None)
        frames = [frame.strip() for _, _, _, found in rows for frame in (found or "").split("\n") if frame.strip()]
        frames += [name for kind, name, _, _ in rows if kind == "python"]
        mine = next((frame for frame in frames if whose(frame) == OWN), None)
        if mine is not None:
            return Origin(op, mine)
        outer = outer or next((frame for frame in frames if whose(frame) != GENERATED), None)
        wanted = [parent for _, _, parent, _ in rows if parent is not None]
    return Origin(op, outer)
