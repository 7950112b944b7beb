"""Everything in an archive of evidence computed again, from its raw files and with our own reading and judging."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.proof import backend, clocks, cycles, device_time, exports, numerics, planted, raw, signs, steps
from npulens.analysis.proof.clocks import Moment, Recorded
from npulens.analysis.proof.verdict import BELIEVED, NOT_BELIEVED, Verdict, absent, judged
from npulens.analysis.run import Run
from npulens.analysis.views import install
from npulens.app.evidence.halves import halves
from npulens.app.evidence.opened import CASE_SHAPE, RAN_SHAPE, TRUTH_SHAPE, Opened, fits, opened, plain, read_json
from npulens.app.run_collectors import ask
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import one_line
from npulens.ingest.store import runs as stores

#: What has to be believed before anything is; NPUs and GPUs have more to show.
_LEAST = {
    "cpu": {"exports", "steps", "repeated", "stamps", "order", "planted", "planted_span", "named", "copied"},
    "cuda": {"exports", "steps", "repeated", "stamps", "order", "planted", "planted_span", "named", "copied", "events"},
    "npu": {"exports", "steps", "repeated", "stamps", "order", "planted", "planted_span", "named", "cycles", "events",
            "raw", "grid", "jitter"},
}  # fmt: skip
#: A planted sleep: the cause that our analysis should name, the plan's key, and the span that holds the sleep.
_SLEEPS = {
    "loader": ("dataloader", "loader_ns", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    "late": ("host_late", "late_ns", "npulens planted sleep"),
}  # fmt: skip
_COPY_CAUSES = {"device_copies", "layout_conversion", "copy_exposed"}
_NANOSECONDS = {"slept_ns": [int], "wanted_ns": [int]}
_MONOTONIC = re.compile(r'"start_monotonic"\s*:\s*(\d{1,18})')


@dataclass(frozen=True)
class Answer:
    """What is said of an archive; it passes if nothing is disbelieved and enough is believed."""

    archive: str
    backend: str
    device: str | None
    challenge: str
    verdicts: tuple[Verdict, ...]
    passes: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "passes", all(each.outcome != NOT_BELIEVED for each in self.verdicts))

    def as_dict(self) -> dict[str, Any]:
        """The keys that `npulens evidence verify --json` promises."""
        return {
            "status": "believed" if self.passes else "not_believed", "archive": self.archive, "backend": self.backend,
            "device": self.device, "challenge": self.challenge,
            "verdicts": [each.as_dict() for each in self.verdicts],
        }  # fmt: skip


def verify(path: Path, challenge: str | None = None, python: Path | None = None) -> Answer:
    """Opens and judges. Raises IngestError for what is no archive of evidence, or a bomb."""
    with tempfile.TemporaryDirectory(prefix="npulens-") as scratch:
        found = opened(path, Path(scratch))
        told = found.manifest
        verdicts = list(found.verdicts)
        if all(each.outcome == BELIEVED for each in verdicts):
            verdicts += _judged(found, challenge, Path(scratch), python)
            verdicts.append(least(verdicts, told["backend"]))
        else:
            verdicts.append(absent("rest", "", "rest"))
        device = told.get("device")
        return Answer(
            path.name, one_line(told["backend"], 40), one_line(str(device), 80) if device else None,
            one_line(told["challenge"], 80), tuple(verdicts),
        )  # fmt: skip


@dataclass(frozen=True)
class Capture:
    """One recording: its files, what its makers say of it, and the run that we read."""

    name: str
    part: str
    place: Path
    truths: tuple[dict[str, Any], ...]
    con: duckdb.DuckDBPyConnection


def _judged(found: Opened, challenge: str | None, scratch: Path, python: Path | None) -> Iterator[Verdict]:
    told = found.manifest
    yield _challenge(told["challenge"], challenge)
    cases = _cases(found)
    expected = _expected(told["challenge"], bool(cases), python)
    if expected is None:
        yield judged("challenge", "", True, "challenge_word", {"word": one_line(told["challenge"], 80)})
        return
    captures = []
    for name, part in _names(told["recordings"]):
        try:
            capture = _capture(found, name, part, scratch)
        except IngestError as error:
            yield judged("loaded", one_line(name, 80), True, "loaded", {"reason": one_line(str(error), 300)})
            continue
        if isinstance(capture, Verdict):
            yield capture
            continue
        captures.append(capture)
        yield from _of_one(capture, told, expected["plan"], scratch)
    yield _unlisted(found, [name for name, _ in _names(told["recordings"])])
    yield from _of_all(captures, told)
    yield numerics.right(cases, expected["truths"])
    yield from _left_out(told)


def _challenge(word: str, asked: str | None) -> Verdict:
    if asked is None:
        return absent("challenge", "", "challenge_unasked", {"word": one_line(word, 80)})
    seen = {"word": one_line(word, 80), "asked": asked}
    return judged("challenge", "", word != asked, "challenge", seen)


def _expected(word: str, values: bool, python: Path | None) -> dict[str, Any] | None:
    """What the word decides, told by the collectors; None for a word that none would have drawn."""
    try:
        return ask(["evidence-expected", f"--challenge={word}", *(["--values"] if values else [])], python=python)
    except IngestError as error:
        if error.kind != "valueerror":
            raise
        return None


def _cases(found: Opened) -> list[dict[str, Any]]:
    """The lines of the numerics; one that says nothing is a wrong case."""
    path = found.files.get("numerics.jsonl")
    if path is None or path.stat().st_size > 64 << 20:
        return []
    place = path.with_suffix(".line")
    cases = []
    for line in path.read_bytes().splitlines():
        place.write_bytes(line)
        case = read_json(place)
        good = fits(case, CASE_SHAPE) and (case["outcome"] != "run" or fits(case, RAN_SHAPE))
        cases.append(case if good else {"workload": "?", "variant": "?", "dtype": "?", "outcome": "run",
                                        "allowed": 0.0, "values": []})  # fmt: skip
    place.unlink(missing_ok=True)
    return cases


def _names(listed: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Recordings and the part that made each."""
    return [(each[0], each[1]) for each in listed if len(each) == 2]


def _capture(found: Opened, name: str, part: str, scratch: Path) -> Capture | Verdict:
    """Loads one recording into a store of its own."""
    place = found.root / "recordings" / name
    shown = one_line(name, 80)
    if not plain(name) or not (place / "capture").is_dir():
        return judged("loaded", shown, True, "loaded", {"reason": "–"})
    truths = [read_json(path) for path in _numbered(place, "truth*.json")]
    if not truths or not all(
        fits(truth, TRUTH_SHAPE) and all(len(step) == 2 for step in truth["steps"]) for truth in truths
    ):
        return judged("told", shown, True, "told", {"n": len(truths)})
    report = ingest.load(place / "capture", scratch / "store", label=name)
    loaded = [run for run in report.runs if run.run_id is not None]
    reason = next((run.reason for run in report.runs if run.reason), None)
    if len(loaded) == 1 and loaded[0].status != "complete" and part == "settings":
        return absent("loaded", shown, "loaded_partly", {"reason": one_line(str(reason), 300)})
    if len(loaded) != 1 or loaded[0].status != "complete":
        return judged("loaded", shown, True, "loaded", {"reason": one_line(reason or f"{len(loaded)} runs", 300)})
    con = stores.open_run(scratch / "store", str(loaded[0].run_id))
    install(con)
    return Capture(name, one_line(part, 40), place, tuple(truths), con)


def _numbered(place: Path, pattern: str) -> list[Path]:
    """The files of all ranks, in the order of their numbers."""
    return sorted(place.glob(pattern), key=lambda path: (len(path.name), path.name))


def _of_one(one: Capture, told: Mapping[str, Any], plan: Mapping[str, Any], scratch: Path) -> Iterator[Verdict]:
    """Every check of a single recording."""
    run = Run(one.con)
    yield backend.as_said(one.con, one.name, [told["backend"], *(truth["backend"] for truth in one.truths)], one.part)
    if len(run.ranks) != len(one.truths):
        yield judged("told", one.name, True, "told_ranks", {"n": len(one.truths), "ranks": len(run.ranks)})
        return
    for rank, truth in zip(run.ranks, one.truths, strict=True):
        yield clocks.within(_recorded(one, rank, truth))
        yield steps.where_they_were(one.con, one.name, rank, truth["steps"])
        yield steps.alike(one.con, one.name, rank)
    yield from _exports(one, run.ranks, told, scratch)
    yield from _planted(one, run, plan)
    if isinstance(event := one.truths[0].get("event_ns"), int):
        yield device_time.against_kernels(one.con, one.name, event, told["backend"])
    if told["backend"] == "npu":
        files = [path for path in one.place.rglob("*") if path.is_file()]
        yield raw.kept(one.name, {path.relative_to(one.place).as_posix(): path.stat().st_size for path in files})
        yield cycles.one_clock(one.name, cycles.cores(one.con))


def _recorded(one: Capture, rank: int, truth: Mapping[str, Any]) -> Recorded:
    first, last, pid = clocks.extent(one.con, rank)
    infos = [path.read_text("utf-8", "replace") for path in one.place.rglob("profiler_info*.json")]
    started = tuple(int(at) for text in infos[:64] for at in _MONOTONIC.findall(text))
    begun, ended = (
        Moment(**{name: truth[edge][name] for name in ("wall_ns", "monotonic_ns")}) for edge in ("begun", "ended")
    )
    return Recorded(one.name, one.part, truth["pid"], begun, ended, first, last, pid, started)


def _exports(one: Capture, ranks: Sequence[int], manifest: Mapping[str, Any], scratch: Path) -> Iterator[Verdict]:
    """The second export of each rank, or the two of torch_npu."""
    seconds = _numbered(one.place, "second*.json")
    for rank, path in zip(ranks, seconds, strict=False):
        events = read_json(path)
        if not fits(events, [list]) or not all(
            len(each) == 3 and fits(each[0], str) and fits(each[1:], [int]) for each in events
        ):
            yield judged("exports", one.name, True, "exports_alike", {
                "n": 0, "other": 0, "differ": 0, "within_ns": 0, "name": path.name,
            })  # fmt: skip
            continue
        told = [(name, ts, ns) for name, ts, ns in events if ns > 0]
        yield exports.alike(one.name, exports.traced(one.con, rank), told, whole=manifest["backend"] == "cpu")
    if seconds:
        return
    both = False
    for number, kinds in enumerate(halves(one.place / "capture", scratch / "halves" / one.name)):
        both = True
        found = {}
        for kind, place in kinds.items():
            report = ingest.load(place, scratch / "store", label=f"{one.name} {kind} {number}")
            found[kind] = [
                event for run in report.runs if run.run_id is not None
                for event in exports.computed(stores.open_run(scratch / "store", run.run_id))
            ]  # fmt: skip
        yield exports.alike(one.name, found["text"], found["db"], exports.ASCEND_NS)
    if not both:
        yield absent("exports", one.name, "exports_one")


def _planted(one: Capture, run: Run, plan: Mapping[str, Any]) -> Iterator[Verdict]:
    """What was planted into a recording, held against the plan of the challenge, the truth and the capture."""
    truth = one.truths[0]
    kind, active = truth.get("planted"), len(truth["steps"])
    if kind in _SLEEPS and fits(truth, _NANOSECONDS):
        cause, key, span = _SLEEPS[kind]
        yield _planned(one.name, truth["wanted_ns"], plan[key][-active:])
        causes = [finding.cause for finding in check(one.con).findings]
        yield from planted.sleeps(run, one.name, cause, truth["slept_ns"], truth["wanted_ns"], causes, span)
    elif kind in ("copies", "reduce") and all(fits(each, {"wanted_bytes": [[int]]}) for each in one.truths):
        key = "copied_bytes" if kind == "copies" else "reduced_bytes"
        for each in one.truths:
            yield _planned(one.name, each["wanted_bytes"], plan[key][-active:])
        if kind == "copies":
            yield planted.copies(run, one.name, truth["wanted_bytes"])
            yield planted.named(one.name, sorted(_COPY_CAUSES), [finding.cause for finding in check(one.con).findings])
        else:
            yield from planted.reduced(run, one.name, truth["wanted_bytes"])
    elif kind is not None:
        yield judged("told", one.name, True, "told", {"n": len(one.truths)})


def _planned(name: str, told: object, plan: object) -> Verdict:
    """Whether the truth says what the challenge decides."""
    return judged("planned", name, told != plan, "planned", {})


def _unlisted(found: Opened, listed: Sequence[str]) -> Verdict:
    """Every recording is listed, and once."""
    there = {Path(name).parts[1] for name in found.files if name.startswith("recordings/")}
    extra = sorted(there ^ set(listed)) + sorted({name for name in listed if listed.count(name) > 1})
    return judged(
        "listed", "", bool(extra), "listed", {"n": len(there), "first": one_line(extra[0], 80) if extra else "–"}
    )


def _of_all(captures: Sequence[Capture], told: Mapping[str, Any]) -> Iterator[Verdict]:
    """The checks that hold all recordings together."""
    recorded = [
        _recorded(one, rank, truth)
        for one in captures
        for rank, truth in zip(Run(one.con).ranks, one.truths, strict=False)
    ]
    begun, ended = (Moment(told[edge]["wall_ns"], told[edge]["monotonic_ns"]) for edge in ("begun", "ended"))
    yield clocks.in_order(begun, ended, recorded)
    yield clocks.same_process(recorded)
    cons = [one.con for one in captures]
    yield signs.jitter(cons)
    yield signs.equal(cons)
    if told["backend"] == "npu":
        yield judged("stub", "", told["stub"] is not False, "stub", {})
        yield signs.grid(cons)
        yield signs.busy_cores([core for con in cons for core in cycles.cores(con)])


def _left_out(told: Mapping[str, Any]) -> Iterator[Verdict]:
    """Parts that did not run are told, whatever the reason."""
    for part in told["parts"]:
        if part["outcome"] != "run":
            seen = {"part": one_line(part["part"], 40), "outcome": one_line(part["outcome"], 40),
                    "reason": one_line(str(part.get("reason")), 300)}  # fmt: skip
            yield absent("part", seen["part"], "part", seen)


def least(verdicts: Sequence[Verdict], backend: str) -> Verdict:
    """Whether enough was believed to believe anything."""
    there = {each.check for each in verdicts if each.outcome == BELIEVED}
    missing = sorted(_LEAST.get(backend, _LEAST["npu"]) - there)
    return judged("enough", "", bool(missing), "enough", {"missing": ", ".join(missing) or "–"})
