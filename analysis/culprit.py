"""Which code a moment of the host belongs to: the line of the user's own program, and the operator.

From the Python frames that were recorded as spans, or from the call stacks of operators. The
innermost frame that is neither the framework's nor the standard library's is the user's code; the
thread of the backward pass has no frames of its own, so that the main thread's answer there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.host_spans import NONE, hosts
from analysis.intervals import Ints
from analysis.run import Run

#: Frames that are nobody's own code.
_FOREIGN = re.compile(
    r"^<|^nn\.Module: |(?:^|/)(?:torch|torch_npu|torchvision|transformers|accelerate|deepspeed|mindspore)/|"
    r"site-packages/|dist-packages/|/python3\.\d+/|^(?:threading|contextlib|functools|runpy|selectors)\.py"
)
_FRAME = re.compile(r"^.+\(\d+\): .+$")


@dataclass(frozen=True)
class Code:
    """What the host was at."""

    frame: str | None  # 'model.py(88): forward'
    op: str | None  # 'aten::linear'

    def __str__(self) -> str:
        if self.frame and self.op:
            return f"{self.frame}, {self.op}"
        return self.frame or self.op or ""


def codes(run: Run, rank: int, moments: Ints) -> list[Code]:
    """Per moment the code that the rank's host was at."""
    if not len(moments):
        return []
    chains = _chains(run, rank, moments)
    known = {span for chain in chains for span in chain}
    names = _names(run, known)
    operators = [span for span in known if names[span][0] == "cpu_op"]
    sql = "SELECT span_id, frames FROM stack WHERE list_contains(?, span_id)"
    stacks: dict[int, str] = dict(_fetch(run, sql, operators))
    found = [code_of([(*names[span], stacks.get(span)) for span in chain]) for chain in chains]
    nameless = np.array([not str(code) for code in found], bool)
    between = iter(_between(run, rank, moments[nameless]))
    return [code if str(code) else next(between) for code in found]


def _between(run: Run, rank: int, moments: Ints) -> list[Code]:
    """Where nothing was open: the operators before and after."""
    there = run.get(hosts)
    spans, threads = there.spans(rank), there.threads[rank]
    near = [spans.neighbours(track, moments) for track in threads.tracks(threads.issuing)]
    pairs: list[tuple[int, int]] = []
    for number in range(len(moments)):
        before = [int(b[number]) for b, _ in near if b[number] != NONE]
        after = [int(a[number]) for _, a in near if a[number] != NONE]
        first = max(before, key=lambda at: int(spans.starts[at]), default=NONE)
        then = min(after, key=lambda at: int(spans.starts[at]), default=NONE)
        pairs.append((first, then))
    known = names(run, spans.ids[np.array([at for pair in pairs for at in pair if at != NONE], np.int64)])
    said = [" -> ".join("..." if at == NONE else known[int(spans.ids[at])] for at in pair) for pair in pairs]
    return [Code(None, None if text == "... -> ..." else text) for text in said]


def _chains(run: Run, rank: int, moments: Ints) -> list[list[int]]:
    """Per moment the open spans of the issuing threads, innermost first, the thread that moved last first."""
    there = run.get(hosts)
    spans, threads = there.spans(rank), there.threads[rank]
    tracks = threads.tracks(threads.issuing) or sorted(threads.of_track)
    found = [spans.innermost(track, moments) for track in tracks]
    chains: list[list[int]] = []
    for number in range(len(moments)):
        heads = [int(at[number]) for at in found if at[number] != NONE]
        chain: list[int] = []
        for head in sorted(heads, key=lambda at: -int(spans.starts[at])):
            at = head
            while at != NONE:
                chain.append(int(spans.ids[at]))
                at = int(spans.parent[at])
        chains.append(chain)
    return chains


def _names(run: Run, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
    rows = _fetch(run, "SELECT span_id, kind, name FROM span WHERE list_contains(?, span_id)", sorted(ids))
    return {span: (kind, name) for span, kind, name in rows}


def _fetch(run: Run, sql: str, ids: Sequence[int]) -> list[tuple[Any, ...]]:
    return run.con.execute(sql, [list(ids)]).fetchall() if ids else []


def names(run: Run, ids: Ints) -> dict[int, str]:
    """Names of spans."""
    found = _names(run, {int(span) for span in np.unique(ids) if span != NONE})
    return {span: name for span, (_, name) in found.items()}


def code_of(chain: Sequence[tuple[str, str, str | None]]) -> Code:
    frame = next((name for kind, name, _ in chain if kind == "python" and _own(name)), None)
    if frame is None:
        lines = (line for _, _, stack in chain if stack for line in stack.split("\n"))
        frame = next((line for line in lines if _own(line)), None)
    if frame is None:
        frame = next((name for kind, name, _ in chain if kind == "python" and _FRAME.match(name)), None)
    op = next((name for kind, name, _ in chain if kind == "cpu_op"), None)
    op = op or next((name for kind, name, _ in chain if kind in ("runtime", "annotation")), None)
    return Code(None if frame is None else frame.strip().rsplit("/", 1)[-1], op)


def _own(frame: str) -> bool:
    return _FRAME.match(frame) is not None and _FOREIGN.search(frame) is None
