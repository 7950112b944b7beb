"""Other tools on a fixed set of cases, compared by cause alone (see rivals.py for how kindly).

Each case is one job written twice: as torch_npu text, which msprof-analyze advisor reads, and as
Kineto, which traceinsight reads. Ours is scored on both, by cause alone too.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.scoring import SCORED_SHARE, Rate
from npulens.collectors.planting.plant import Options, plan, scenarios, write
from npulens.ingest.store import runs as stores
from tests.score.rivals import Said, Verdict, advisor, traceinsight

SEED = 20260101  # fixed: rivals take minutes, and their answers do not change
CLEAN_SHARE = 0.2


@dataclass(frozen=True)
class Tried:
    """What one tool said of one case."""

    tool: str
    planted: tuple[tuple[str, tuple[str, ...]], ...]  # cause and also of each fault
    verdict: Verdict


@dataclass(frozen=True)
class Beside:
    tried: tuple[Tried, ...]
    cases: int

    def lines(self) -> list[str]:
        """A table: faults named, sayings that name a planted cause, clean cases left alone, failures."""
        out = [
            "## Other tools", "",
            f"{self.cases} fixed cases, each written as torch_npu text and as Kineto. Compared by cause alone: the "
            "others name neither windows nor, mostly, ranks. A saying that could mean several causes counts as right "
            "if any of them is planted. traceinsight judges nothing; a figure of its tables above 1 % of the window "
            "was taken as a finding (`tests/score/rivals.py`).", "",
            "| | faults named | sayings that are right | clean cases left alone | no answer |", "|---|--:|--:|--:|--:|",
        ]  # fmt: skip
        for tool in dict.fromkeys(one.tool for one in self.tried):
            mine = [one for one in self.tried if one.tool == tool]
            out.append(f"| {tool} | {_named(mine)} | {_right(mine)} | {_quiet(mine)} | {_failed(mine)} |")
        return out


def _named(mine: list[Tried]) -> str:
    faults = [(cause, one) for one in mine for cause, _ in one.planted]
    good = sum(any(cause in said.causes for said in one.verdict.said) for cause, one in faults)
    return _text(Rate(good, len(faults)))


def _right(mine: list[Tried]) -> str:
    said = [(s, one) for one in mine for s in one.verdict.said]
    good = sum(any(set(s.causes) & {cause, *also} for cause, also in one.planted) for s, one in said)
    return _text(Rate(good, len(said)))


def _quiet(mine: list[Tried]) -> str:
    clean = [one for one in mine if not one.planted]
    return _text(Rate(sum(not one.verdict.said and one.verdict.failure is None for one in clean), len(clean)))


def _failed(mine: list[Tried]) -> str:
    return str(sum(one.verdict.failure is not None for one in mine))


def _text(rate: Rate) -> str:
    interval = rate.interval()
    return "" if interval is None else f"{rate.share:.2f} ({interval[0]:.2f}-{interval[1]:.2f}, {rate.good}/{rate.of})"


def compared(count: int, jobs: int) -> Beside:
    """Every tool on every case."""
    draw, known = random.Random(SEED), sorted(scenarios())
    clean = round(count * CLEAN_SHARE)
    names = [(known[i % len(known)],) for i in range(count - clean)] + [()] * clean
    todo = [(one, draw.randrange(1 << 31)) for one in names]
    with ProcessPoolExecutor(jobs) as pool:
        tried = [one for found in pool.map(_tried, todo) for one in found]
    return Beside(tuple(tried), count)


def _tried(task: tuple[tuple[str, ...], int]) -> list[Tried]:
    names, seed = task
    found: list[Tried] = []
    for kind, rival, name in RIVALS:
        with tempfile.TemporaryDirectory(prefix="npulens-beside-") as scratch:
            home = Path(scratch)
            truth = write(plan(names, seed, Options(format=kind, level=1)), home)
            planted = tuple((fault["cause"], tuple(fault["also"])) for fault in truth["faults"])
            tried = partial(Tried, planted=planted)
            capture = home / "capture"
            found.append(tried(f"npulens, {kind}", verdict=ours(capture, home / "store")))
            found.append(tried(f"{name}, {kind}", verdict=rival(capture)))
    return found


def ours(capture: Path, store: Path) -> Verdict:
    (run,) = ingest.load([capture], store).runs
    findings = check(stores.open_run(store, str(run.run_id))).findings
    return Verdict(tuple(Said(f.detector, (f.cause,)) for f in findings if f.saving_share >= SCORED_SHARE))


def _kineto(capture: Path) -> Verdict:
    traces = sorted(capture.rglob("*.json.gz"))
    return traceinsight(dict(enumerate(traces)))


RIVALS: tuple[tuple[str, Callable[[Path], Verdict], str], ...] = (
    ("text", advisor, "msprof-analyze advisor 26.2.0"),
    ("kineto", _kineto, "traceinsight 0.6.1"),
)
