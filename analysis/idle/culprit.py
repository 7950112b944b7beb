"""Which code a moment of the host belongs to: the line of the user's own program, and the operator.

From the Python frames that were recorded as spans, or from the call stacks of operators. The innermost frame of the
user's own code is the answer. A frame that spans the step (`main`, `train`) says nothing and is passed over. Where only
such frames are the user's, it is the outermost function of the package that they call (a pipeline's `preprocess`).
Frames of the framework, of the standard library and of generated files come last or never: nobody can edit those. The
thread of the backward pass has no frames of its own, so that the main thread's answer there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npulens.analysis.idle.host_spans import NONE, HostSpans, hosts
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: Code that no program is written in: built-in functions, evaluated strings, modules' lanes, files of compilers.
_GENERATED = re.compile(r"^<|^nn\.Module: |torchinductor_|(?:^|/)c[a-z2-7]{50,}\.py\(|(?:^|/)\.triton/|/__pycache__/")
#: The framework: its frames are the same in every program.
_FRAMEWORK = re.compile(r"(?:^|/)(?:torch|torch_npu|triton|functorch|mindspore)/|^_ops\.py")
#: Packages that programs call; their functions tell more than nothing. Profilers leave out the directory they lie in.
_PACKAGE = re.compile(
    r"site-packages/|dist-packages/|(?:^|/)(?:torchvision|torchaudio|torchtext|transformers|accelerate|deepspeed|"
    r"diffusers|datasets|tokenizers|huggingface_hub|lightning|pytorch_lightning|timm|peft|apex|numpy|pandas|scipy|PIL|"
    r"cv2|av|einops|tqdm|wandb|tensorboard|sklearn|matplotlib)/"
)
#: The standard library, as a directory or by the names of its modules; `trace.py` or `test/` may well be one's own.
_STANDARD = re.compile(
    r"/python3\.\d+/|^(?:"
    + "|".join(sorted(sys.stdlib_module_names - {"code", "profile", "test", "trace", "site", "this", "queue", "types"}))
    + r")(?:\.py\(|/)"
)
_FRAME = re.compile(r"^.+\(\d+\): .+$")
#: A frame that holds this share of the step, or of all operators' stacks, is the program itself.
SPANS = 0.9

OWN, PACKAGE, FRAMEWORK, GENERATED = "own", "package", "framework", "generated"


def whose(frame: str) -> str:
    """Whose code a frame is of."""
    if _FRAME.match(frame) is None or _GENERATED.search(frame):
        return GENERATED
    if _PACKAGE.search(frame) and not _FRAMEWORK.search(frame):
        return PACKAGE
    return FRAMEWORK if _FRAMEWORK.search(frame) or _STANDARD.search(frame) else OWN


@dataclass(frozen=True)
class Code:
    """The operator and the line of code that the host ran."""

    frame: str | None  # 'model.py(88): forward'
    op: str | None  # 'aten::linear'
    around: tuple[str, ...] = ()  # frames as good as the first, from it outwards

    def __str__(self) -> str:
        return told(self.frame, self.op)


def told(frame: str | None, op: str | None) -> str:
    return ", ".join(part for part in (frame, op) if part)


def codes(run: Run, rank: int, moments: Ints) -> list[Code]:
    """Per moment the code that the rank's host was at."""
    if not len(moments):
        return []
    chains = _chains(run, rank, moments)
    known = {span for chain in chains for span in chain}
    names, length = _names(run, known), _lengths(run, known)
    operators = [span for span in known if names[span][0] == "cpu_op"]
    sql = "SELECT span_id, frames FROM stack WHERE list_contains(?, span_id)"
    stacks: dict[int, str] = dict(_fetch(run, sql, operators))
    most = _most(run, rank, moments)
    wide = _Wide(run, rank)
    found = [
        code_of(
            [(*names[span], stacks.get(span)) for span in chain
             if names[span][0] != "python" or length[span] < SPANS * limit],
            wide,
        )
        for chain, limit in zip(chains, most, strict=True)
    ]  # fmt: skip
    nameless = np.array([not str(code) for code in found], bool)
    between = iter(_between(run, rank, moments[nameless]))
    return [code if str(code) else next(between) for code in found]


def _most(run: Run, rank: int, moments: Ints) -> list[float]:
    """How long the step of each moment is; without steps, the rank's window."""
    steps, window = run.steps[rank], run.window(rank)
    if steps:
        at = np.searchsorted([step.ts_ns for step in steps], moments, side="right") - 1
        return [float(steps[max(0, int(place))].dur_ns) for place in at]
    return [float(window[1] - window[0]) if window else float("inf")] * len(moments)


class _Wide:
    """Whether a line's function, at any of its lines, lies under nearly every operator that has a call stack."""

    def __init__(self, run: Run, rank: int) -> None:
        self.run, self.rank = run, rank
        self.known: dict[str, bool] = {}

    def __call__(self, line: str) -> bool:
        if line not in self.known:
            file, _, rest = line.rpartition("(")
            sql = """
                SELECT count(*), count(*) FILTER (WHERE contains(frames, ?) AND contains(frames, ?))
                FROM stack WHERE rank = ?
            """
            (every, with_it), = self.run.con.execute(
                sql, [f"{file}(", rest[rest.find(")") :], self.rank]
            ).fetchall()  # fmt: skip
            self.known[line] = every >= ENOUGH and with_it >= SPANS * every
        return self.known[line]


#: Fewer stacks than this say nothing of a program.
ENOUGH = 10


def _between(run: Run, rank: int, moments: Ints) -> list[Code]:
    """Where nothing was open: the operators before and after."""
    there = run.get(hosts)
    spans, threads = there.spans(rank), there.threads[rank]
    near = [spans.neighbours(track, moments) for track in threads.tracks(threads.issuing)]
    near = [(_telling(run, spans, before, -1), _telling(run, spans, after, 1)) for before, after in near]
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


#: Steps to a neighbour that says something: handing over to a queue and the framework's frames do not.
_AWAY = 20


def _dull(kind: str, name: str) -> bool:
    return kind in ("enqueue", "dequeue") or (kind == "python" and whose(name) in (FRAMEWORK, GENERATED))


def _telling(run: Run, spans: HostSpans, at: Ints, way: int) -> Ints:
    """For each place the nearest one in a direction whose span is more than a hand-over or a frame of the framework."""
    at = at.copy()
    left = np.flatnonzero(at != NONE)
    for _ in range(_AWAY):
        if not len(left):
            return at
        rows = _names(run, set(spans.ids[at[left]].tolist()))
        dull = [_dull(*rows[int(span)]) for span in spans.ids[at[left]]]
        left = left[np.array(dull, np.bool_)]
        further = at[left] + way
        inside = (further >= 0) & (further < len(spans.ids))
        inside[inside] = spans.tracks[further[inside]] == spans.tracks[at[left][inside]]
        at[left[inside]] = further[inside]
        at[left[~inside]] = NONE
        left = left[inside]
    at[left] = NONE
    return at


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


def _lengths(run: Run, ids: Iterable[int]) -> dict[int, int]:
    return dict(_fetch(run, "SELECT span_id, dur_ns FROM span WHERE list_contains(?, span_id)", sorted(ids)))


def _short(frame: str) -> str:
    """One's own file by its name; another's by its place in the package."""
    if whose(frame) == OWN or frame.startswith("/"):
        packaged = re.split(r"(?:site|dist)-packages/", frame)
        return packaged[-1] if len(packaged) > 1 else frame.rsplit("/", 1)[-1]
    return re.split(r"(?:site|dist)-packages/", frame)[-1]


def _nowhere(line: str) -> bool:
    return False


def code_of(chain: Sequence[tuple[str, str, str | None]], wide: Callable[[str], bool] = _nowhere) -> Code:
    """The code of open spans (kind, name, call stack), innermost first; `wide` lines of stacks are the program."""
    spans = [name for kind, name, _ in chain if kind == "python"]
    lines = [line.strip() for _, _, stack in chain if stack for line in stack.split("\n")]
    frames: tuple[str, ...] = ()
    for whose_, of in ((OWN, spans), (OWN, lines), (PACKAGE, spans), (PACKAGE, lines), (FRAMEWORK, spans)):
        if not frames:
            fitting = [frame for frame in of if whose(frame) == whose_ and not (of is lines and wide(frame))]
            frames = tuple(fitting[-1:] if whose_ == PACKAGE else fitting[:1] if whose_ == FRAMEWORK else fitting)
    op = next((name for kind, name, _ in chain if kind == "cpu_op"), None)
    op = op or next((name for kind, name, _ in chain if kind in ("runtime", "annotation")), None)
    if op and frames and whose(frames[0]) == FRAMEWORK:
        frames = ()  # the operator says more
    around = tuple(dict.fromkeys(map(_short, frames)))
    return Code(around[0] if around else None, op, around)
