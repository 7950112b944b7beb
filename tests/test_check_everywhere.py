"""Every sample and every real capture: no detector fails, causes sum to the gaps, savings fit into the step.

What is said in Chinese has no English half-sentence in it: names are all that stays.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.finding import STEP
from npulens.analysis.idle.pieces import idle
from npulens.analysis.run import Run
from npulens.analysis.split import breakdown
from npulens.ingest.store import runs as stores
from tests import real_captures

ROOT = Path(__file__).resolve().parent.parent
PYTORCH = "Ascend+msinsight/test/data/pytorch"
#: Three English words in a row are no name of a kernel, a setting or an interface.
ENGLISH = re.compile(r"(?<![\w./<:-])[a-z]{2,}(?: [a-z]{2,}){2,}(?![\w./(=:])")

#: What a clean check says of its largest figure.
BELOW = re.compile(r"\(([\d.]+) %.*below the limit of ([\d.]+) %")


def judged_exactly(place: Path, run_id: str) -> None:
    con = stores.open_run(place, run_id)
    said = check(con)
    assert [outcome for outcome in said.outcomes if outcome.outcome == "failed"] == []
    assert sum(finding.saving_ns for finding in said.findings) <= said.step_ns
    assert 0 <= said.together_ns <= said.step_ns
    assert said.together_ns >= max((one.saving_ns for one in said.findings if one.measure == STEP), default=0)
    assert all(finding.evidence for finding in said.findings)
    for outcome in said.outcomes:
        if outcome.outcome == "clean" and (told := BELOW.search(outcome.reason)):
            assert float(told[1]) <= float(told[2]), outcome
    chinese = [text for each in said.findings for text in (each.words["zh"].title, each.words["zh"].advice)]
    chinese += [outcome.reason_zh for outcome in said.outcomes]
    assert [text for text in chinese if ENGLISH.search(text)] == []
    run = Run(con)
    pieces = run.get(idle)
    whole = {row.rank: row for row in breakdown(con) if row.step is None}
    for rank in run.ranks:
        mine = pieces.rank == rank
        lengths = (pieces.end - pieces.start)[mine]
        window = run.window(rank)
        if whole[rank].idle_ns is None or window is None:
            assert not mine.any()
            continue
        assert (lengths > 0).all()
        assert int(lengths.sum()) == run.activity(rank).work().gaps(*window).total()


@pytest.mark.parametrize("name", sorted(path.parent.name for path in (ROOT / "sample_traces").glob("*/manifest.json")))
def test_samples(name: str, tmp_path: Path) -> None:
    for run in ingest.load([ROOT / "sample_traces" / name], tmp_path).runs:
        assert run.run_id
        judged_exactly(tmp_path, run.run_id)


@pytest.mark.shared
@pytest.mark.parametrize("part", range(4))
def test_real_captures(shared_traces: Path, part: int) -> None:
    store, report = real_captures.loaded(shared_traces)
    runs = [run.run_id for run in report.runs if run.run_id]
    assert len(runs) >= 30
    for run_id in runs[part::4]:
        judged_exactly(store, run_id)


#: Whom the captured ranks wait for, worked out from the Notify_Wait rows of each export by hand.
LATE = {"text/level1": 5, "db/level1": 6, "text/level2": 5, "db/level2": 4, "text/level0": None, "db/level0": None}


@pytest.mark.shared
@pytest.mark.parametrize(("capture", "peer"), LATE.items())
def test_the_first_finding_is_the_rank_that_was_not_captured(
    shared_traces: Path, tmp_path: Path, capture: str, peer: int | None
) -> None:
    (run,) = ingest.load([shared_traces / PYTORCH / capture], tmp_path).runs
    first = check(stores.open_run(tmp_path, str(run.run_id))).findings[0]
    assert (first.detector, first.numbers["peer"]) == ("late_rank", peer)
    assert first.numbers["waiting"] == [0, 1] and {evidence.rank for evidence in first.evidence} == {0, 1}
    wait = first.numbers["wait_ns"]
    assert isinstance(wait, int) and 75_000_000 < wait < 110_000_000
    said = first.words["en"]
    if peer is None:
        assert "does not say for which" in said.title and "Level1" in said.advice
    else:
        assert f"rank {peer}, not captured" in said.title and f"Profile rank {peer} together" in said.advice
