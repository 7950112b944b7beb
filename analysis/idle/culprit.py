"""Which code a moment of the host belongs to: the line of the user's own program, and the operator.

From the Python frames that were recorded as spans, or from the call stacks of operators. The innermost frame of the
user's own code is the answer. A frame or an annotation that spans the step (`main`, `model_inference`) says nothing and
is passed over. Where only such frames are the user's, it is the outermost function of the package that they call (a
pipeline's `preprocess`).
Frames of the framework, of the standard library and of generated files come last or never: nobody can edit those. The
thread of the backward pass has no frames of its own, so that the main thread's answer there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from npulens.analysis.idle.host_spans import NONE, HostSpans, hosts
from npulens.analysis.intervals import Ints, distinct
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
#: A frame or annotation that holds this share of the step, or of all operators' stacks, is the program itself.
SPANS = 0.9

OWN, PACKAGE, FRAMEWORK, GENERATED = "own", "package", "framework", "generated"


@lru_cache(maxsize=65536)
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
    return codes_on(run, {rank: moments})[rank]


def codes_on(run: Run, moments: Mapping[int, Ints]) -> dict[int, list[Code]]:
    """The same of several ranks: what they ask of the tables is asked once for all of them."""
    chains = {rank: _chains(run, rank, at) for rank, at in moments.items()}
    known = {span for mine in chains.values() for chain in mine for span, _ in chain}
    names = _names(run, known)
    operators = [span for span in known if names[span][0] == "cpu_op"]
    sql = "SELECT span_id, frames FROM stack WHERE list_contains(?, span_id)"
    stacks: dict[int, str] = dict(_fetch(run, sql, operators))
    found = {rank: _codes(run, rank, at, chains[rank], names, stacks) for rank, at in moments.items()}
    nameless = {rank: [place for place, code in enumerate(mine) if not str(code)] for rank, mine in found.items()}
    between = _between(run, {rank: moments[rank][places] for rank, places in nameless.items() if places})
    for rank, told_ in between.items():
        for place, code in zip(nameless[rank], told_, strict=True):
            found[rank][place] = code
    return found


def _codes(
    run: Run, rank: int, moments: Ints, chains: list[list[tuple[int, int]]], names: Mapping[int, tuple[str, str]],
    stacks: Mapping[int, str],
) -> list[Code]:  # fmt: skip
    """The code of each chain of open spans; empty where nothing says any."""
    wide, marks = _Wide(run, rank), _Marks(run, rank)
    return [
        code_of(
            [(*names[span], stacks.get(span)) for span, ns in chain
             if ns < SPANS * limit or not (names[span][0] == "python" or marks(span, names[span][0]))],
            wide,
        )
        for chain, limit in zip(chains, _most(run, rank, moments), strict=True)
    ]  # fmt: skip


def _most(run: Run, rank: int, moments: Ints) -> list[float]:
    """How long the step of each moment is; without steps, the rank's window."""
    steps, window = run.steps[rank], run.window(rank)
    if steps:
        at = np.searchsorted([step.ts_ns for step in steps], moments, side="right") - 1
        return [float(steps[max(0, int(place))].dur_ns) for place in at]
    return [float(window[1] - window[0]) if window else float("inf")] * len(moments)


class _Marks:
    """Whether an annotation holds operators all along. One around a long rest is the only name that a sleep has."""

    def __init__(self, run: Run, rank: int) -> None:
        self.run, self.rank = run, rank
        self.known: dict[int, bool] = {}

    def __call__(self, span: int, kind: str) -> bool:
        if kind == "annotation" and span not in self.known:
            count, rest = self.run.get(hosts).spans(self.rank).within(span)
            self.known[span] = count >= ENOUGH and rest < REST
        return self.known.get(span, False)


class _Wide:
    """Whether a line's function, at any of its lines, lies under nearly every operator that has a call stack."""

    def __init__(self, run: Run, rank: int) -> None:
        self.run, self.rank = run, rank
        self.known: dict[str, bool] = {}

    def __call__(self, line: str) -> bool:
        if line not in self.known:
            file, _, rest = line.rpartition("(")
            every, with_it = self.run.get(_stacks)(f"{file}(", rest[rest.find(")") :]).get(self.rank, (0, 0))
            self.known[line] = every >= ENOUGH and with_it >= SPANS * every
        return self.known[line]


class _Stacks:
    """Per rank: how many operators have a call stack, and how many of these hold two texts; asked once for each."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.known: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}

    def __call__(self, one: str, other: str) -> dict[int, tuple[int, int]]:
        if (one, other) not in self.known:
            sql = """
                SELECT rank, count(*), count(*) FILTER (WHERE contains(frames, ?) AND contains(frames, ?))
                FROM stack GROUP BY rank
            """
            rows = self.run.con.execute(sql, [one, other]).fetchall()
            self.known[one, other] = {rank: (every, with_it) for rank, every, with_it in rows}
        return self.known[one, other]


def _stacks(run: Run) -> _Stacks:
    return _Stacks(run)


#: Fewer stacks or operators than this say nothing of a program; nor does an annotation that rests for half of its time.
ENOUGH, REST = 10, 0.5


#: Between two launches, or at an end of the capture, there is no code to name.
_SAYS_NOTHING = re.compile(r"^\.\.\.$|^\S*launch\w*$", re.IGNORECASE)


def _between(run: Run, moments: Mapping[int, Ints]) -> dict[int, list[Code]]:
    """Where nothing was open: the operators before and after."""
    there = run.get(hosts)
    near: dict[int, list[tuple[_Walk, _Walk]]] = {}
    for rank, at in moments.items():
        spans, threads = there.spans(rank), there.threads[rank]
        near[rank] = []
        for track in threads.tracks(threads.issuing):
            before, after = spans.neighbours(track, at)
            near[rank].append((_Walk(spans, before, -1), _Walk(spans, after, 1)))
    _to_telling(run, [walk for pairs in near.values() for pair in pairs for walk in pair])
    pairs = {rank: _nearest(there.spans(rank), len(at), near[rank]) for rank, at in moments.items()}
    ids = [there.spans(rank).ids[at] for rank, mine in pairs.items() for pair in mine for at in pair if at != NONE]
    known = names(run, np.array(ids, np.int64))
    found = {}
    for rank, mine in pairs.items():
        own = there.spans(rank).ids
        said = [["..." if at == NONE else known[int(own[at])] for at in pair] for pair in mine]
        found[rank] = [Code(None, None if all(map(_SAYS_NOTHING.search, pair)) else " -> ".join(pair)) for pair in said]
    return found


def _nearest(spans: HostSpans, count: int, near: list[tuple[_Walk, _Walk]]) -> list[tuple[int, int]]:
    """Per moment the latest span before it and the earliest after it, of several threads."""
    pairs: list[tuple[int, int]] = []
    for number in range(count):
        before = [int(b.at[number]) for b, _ in near if b.at[number] != NONE]
        after = [int(a.at[number]) for _, a in near if a.at[number] != NONE]
        first = max(before, key=lambda at: int(spans.starts[at]), default=NONE)
        then = min(after, key=lambda at: int(spans.starts[at]), default=NONE)
        pairs.append((first, then))
    return pairs


#: Steps to a neighbour that says something: handing over to a queue and the framework's frames do not.
_AWAY = 20


def _dull(kind: str, name: str) -> bool:
    return kind in ("enqueue", "dequeue") or (kind == "python" and whose(name) in (FRAMEWORK, GENERATED))


class _Walk:
    """Places among host spans, on their way in one direction."""

    def __init__(self, spans: HostSpans, at: Ints, way: int) -> None:
        self.spans, self.at, self.way = spans, at.copy(), way
        self.left = np.flatnonzero(at != NONE)

    @property
    def ids(self) -> list[int]:
        found: list[int] = self.spans.ids[self.at[self.left]].tolist()
        return found

    def step(self, dull: list[bool]) -> None:
        """One further where the span says nothing; NONE where the track ends."""
        spans, left = self.spans, self.left[np.array(dull, np.bool_)]
        further = self.at[left] + self.way
        inside = (further >= 0) & (further < len(spans.ids))
        inside[inside] = spans.tracks[further[inside]] == spans.tracks[self.at[left][inside]]
        self.at[left[inside]] = further[inside]
        self.at[left[~inside]] = NONE
        self.left = left[inside]


def _to_telling(run: Run, walks: list[_Walk]) -> None:
    """Each place to the nearest one in its direction whose span is more than a hand-over or a frame of the framework.

    Where none is near enough: NONE."""
    for _ in range(_AWAY):
        walks = [walk for walk in walks if len(walk.left)]
        if not walks:
            return
        rows = _names(run, {span for walk in walks for span in walk.ids})
        for walk in walks:
            walk.step([_dull(*rows[span]) for span in walk.ids])
    for walk in walks:
        walk.at[walk.left] = NONE


def _chains(run: Run, rank: int, moments: Ints) -> list[list[tuple[int, int]]]:
    """Per moment the open spans of the issuing threads and how long they are.

    Innermost first, of the thread that moved last first.
    """
    if not len(moments):
        return []
    there = run.get(hosts)
    spans, threads = there.spans(rank), there.threads[rank]
    tracks = threads.tracks(threads.issuing) or sorted(threads.of_track)
    found = [spans.innermost(track, moments) for track in tracks]
    chains: list[list[tuple[int, int]]] = []
    for number in range(len(moments)):
        heads = [int(at[number]) for at in found if at[number] != NONE]
        chain: list[tuple[int, int]] = []
        for head in sorted(heads, key=lambda at: -int(spans.starts[at])):
            at = head
            while at != NONE:
                chain.append((int(spans.ids[at]), int(spans.ends[at] - spans.starts[at])))
                at = int(spans.parent[at])
        chains.append(chain)
    return chains


#: So many spans are looked up as a list; more are joined.
_FEW = 1000


def _names(run: Run, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Kinds and names of spans; no span is looked up twice."""
    wanted, known = set(ids), run.get(_looked_up)
    missing = sorted(wanted - known.keys())
    few = len(missing) <= _FEW  # a list is searched for each span
    which = "WHERE list_contains(?, span_id)" if few else "SEMI JOIN (SELECT unnest(?) AS span_id) USING (span_id)"
    for span, kind, name in _fetch(run, f"SELECT span_id, kind, name FROM span {which}", missing):
        known[span] = kind, name
    return {span: known[span] for span in wanted if span in known}


def _looked_up(run: Run) -> dict[int, tuple[str, str]]:
    return {}


def _fetch(run: Run, sql: str, ids: Sequence[int]) -> list[tuple[Any, ...]]:
    return run.con.execute(sql, [list(ids)]).fetchall() if ids else []


def names(run: Run, ids: Ints) -> dict[int, str]:
    """Names of spans."""
    found = _names(run, {int(span) for span in distinct(ids) if span != NONE})
    return {span: name for span, (_, name) in found.items()}


_BUILT_IN = re.compile(r"<built-in (?:method|function) ([^ <>]+)(?: of .*)?>")


def spoken(name: str) -> str:
    """A built-in function by its name: where it lay in memory tells nobody anything."""
    found = _BUILT_IN.fullmatch(name)
    return found[1] if found else name


@lru_cache(maxsize=65536)
def _short(frame: str) -> str:
    """One's own file by its name; another's by its place in the package."""
    if whose(frame) == OWN or frame.startswith("/"):
        packaged = re.split(r"(?:site|dist)-packages/", frame)
        return packaged[-1] if len(packaged) > 1 else frame.rsplit("/", 1)[-1]
    return re.split(r"(?:site|dist)-packages/", frame)[-1]


class ByText:
    """Host spans by rank of which a text is true; each text is asked once, of all ranks."""

    def __init__(self, asked: Callable[[str], Mapping[str, Any]]) -> None:
        self._asked = asked  # columns rank and span_id for a text, by span_id
        self._known: dict[str, tuple[Ints, dict[int, Ints]]] = {}

    def every(self, text: str) -> Ints:
        """The spans of all ranks, in order."""
        return self._found(text)[0]

    def get(self, text: str, rank: int) -> Ints:
        """The rank's spans, in order."""
        return self._found(text)[1].get(rank, _NO_SPANS)

    def _found(self, text: str) -> tuple[Ints, dict[int, Ints]]:
        if text not in self._known:
            found = self._asked(text)
            ranks, spans = (np.asarray(found[name], np.int64) for name in ("rank", "span_id"))
            order = np.argsort(ranks, kind="stable")
            every, first = np.unique(ranks[order], return_index=True)
            ends = np.append(first, len(order))[1:]
            self._known[text] = spans, {
                rank: spans[order[begin:end]]
                for rank, begin, end in zip(every.tolist(), first.tolist(), ends.tolist(), strict=True)
            }
        return self._known[text]


_NO_SPANS = np.zeros(0, np.int64)


#: Names of Python frames and call stacks that hold a text; then the spans that have one of them.
_HOLDING = """
    SELECT DISTINCT name, false AS stack FROM span WHERE kind = 'python' AND contains(name, $1)
    UNION ALL SELECT DISTINCT frames, true FROM stack WHERE contains(frames, $1)
"""
_WITH_TEXT = """
    SELECT rank, span_id FROM span SEMI JOIN (SELECT unnest($1::VARCHAR[]) AS name) USING (name) WHERE kind = 'python'
    UNION ALL SELECT rank, span_id FROM stack SEMI JOIN (SELECT unnest($2::VARCHAR[]) AS frames) USING (frames)
    ORDER BY span_id
"""


def framed(run: Run) -> ByText:
    """The host spans of a line of code: its Python frames, and operators whose call stack holds it."""

    def asked(frame: str) -> Mapping[str, Any]:
        texts = run.con.execute(_HOLDING, [frame.rsplit("/", 1)[-1]]).fetchall()
        holding = [
            (text, stack) for text, stack in texts if any(_short(line.strip()) == frame for line in text.split("\n"))
        ]
        wanted = ([text for text, stack in holding if stack == of] for of in (False, True))
        return run.columns(_WITH_TEXT, wanted)

    return ByText(asked)


@lru_cache(maxsize=65536)
def _lines(stack: str) -> dict[str, tuple[str, ...]]:
    """The lines of a call stack, by whose code they are."""
    lines = [line.strip() for line in stack.split("\n")]
    return {owner: tuple(line for line in lines if whose(line) == owner) for owner in set(map(whose, lines))}


def _nowhere(line: str) -> bool:
    return False


def code_of(chain: Sequence[tuple[str, str, str | None]], wide: Callable[[str], bool] = _nowhere) -> Code:
    """The code of open spans (kind, name, call stack), innermost first; `wide` lines of stacks are the program."""
    spans = [name for kind, name, _ in chain if kind == "python"]
    stacks = [_lines(stack) for _, _, stack in chain if stack]
    frames: tuple[str, ...] = ()
    for owner, told_of in ((OWN, slice(None)), (PACKAGE, slice(-1, None)), (FRAMEWORK, slice(1))):
        if not frames:
            frames = tuple(name for name in spans if whose(name) == owner)[told_of]
        if not frames and owner != FRAMEWORK:
            frames = tuple(line for of in stacks for line in of.get(owner, ()) if not wide(line))[told_of]
    op = next((name for kind, name, _ in chain if kind == "cpu_op"), None)
    op = op or next((name for kind, name, _ in chain if kind in ("runtime", "annotation")), None)
    if op and frames and whose(frames[0]) == FRAMEWORK:
        frames = ()  # the operator says more
    around = tuple(dict.fromkeys(map(_short, frames)))
    return Code(around[0] if around else None, op, around)
