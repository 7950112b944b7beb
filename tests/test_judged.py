"""The judged corpus: what must and must not be said of every real capture of the shared sets.

docs/judged/*.json holds sentences that tests/corpus/derive.py derives from the raw files; the second set's own
JUDGED.json adds sentences that people checked by hand. What does not hold yet is listed in docs/judged/missed.toml with
its reason; a line there that holds by now fails as well, so the list can only be true.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests import real_captures
from tests.corpus.__main__ import JUDGED, SHARED, judged, place
from tests.corpus.sentences import Json, corpus, said

BY_HAND = SHARED[1] / "JUDGED.json"
#: So many of the sentences hold at least.
LEAST = 0.95


def sentences() -> dict[str, list[Json]]:
    found = corpus(JUDGED)
    if BY_HAND.exists():
        for capture, entry in json.loads(BY_HAND.read_text("utf-8")).items():
            facts = [{**fact, "id": f"by hand: {fact['id']}"} for fact in entry["facts"]]
            found.setdefault(capture, []).extend(facts)
    return found


EVERY = sentences()
MISSED: dict[str, dict[str, str]] = tomllib.loads((JUDGED / "missed.toml").read_text("utf-8"))


@pytest.mark.shared
@pytest.mark.parametrize("capture", sorted(EVERY))
def test_what_is_said_of_a_capture(capture: str) -> None:
    path = place(capture)
    if path is None:
        pytest.skip("the shared captures are not here")
    answers = said(*real_captures.loaded(path))
    held, lines = judged(answers, EVERY[capture], show=True)
    missed = {fact["id"] for fact, met in zip(EVERY[capture], held, strict=True) if not met}
    assert missed == set(MISSED.get(capture, {})), "\n".join(lines)
    assert not any(hides_the_longest(found) for one in answers for found in one.check["findings"])


def hides_the_longest(found: Json) -> bool:
    """Whether the longest gap without a reason, which the advice points to, is among no shown moments."""
    longest = max((moment["dur_ns"] for moment in found["evidence"]), default=0)
    return found["cause"] == "idle_unexplained" and longest < found["numbers"]["longest_ns"]


def test_most_sentences_hold() -> None:
    total = sum(len(facts) for facts in EVERY.values())
    missed = sum(len(reasons) for reasons in MISSED.values())
    assert missed <= (1 - LEAST) * total and all(capture in EVERY for capture in MISSED)


def test_every_sentence_says_where_its_figure_comes_from() -> None:
    for capture, facts in EVERY.items():
        assert len({fact["id"] for fact in facts}) == len(facts), capture
        for fact in facts:
            assert fact["derived"] and fact["what"] and fact["kind"] in ("must", "must_not") and len(fact["test"]) == 1


def test_what_is_missed_has_a_reason(tmp_path: Path) -> None:
    for capture, reasons in MISSED.items():
        known = {fact["id"] for fact in EVERY[capture]}
        assert set(reasons) <= known and all(reasons.values())
