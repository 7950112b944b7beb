"""Every fault that can be planted into the engine without a device is found, first, with about what it costs.

A run of each; hundreds of them are scored by `python -m tests.serving.score`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from npulens.collectors.serving.engine import Recorded, run
from npulens.collectors.serving.plants import PLANTS, plan
from npulens.collectors.serving.writers import write
from tests.serving.score import judged


def seed_of(cause: str | None) -> int:
    """The first seed of this test that plants the cause."""
    causes = list(PLANTS)
    every = range(5000, 5200)
    return next(seed for seed in every if (seed % 5 == 0) == (cause is None) and (
        cause is None or causes[seed % len(causes)] == cause))  # fmt: skip


@pytest.mark.parametrize("cause", PLANTS)
def test_it_is_found_first_and_costs_about_that(cause: str) -> None:
    case = judged(seed_of(cause))
    assert case.cause == cause and case.found[0] == cause, case
    assert case.error <= 0.25, case


def test_nothing_is_found_where_nothing_was_planted() -> None:
    assert judged(seed_of(None)).found == ()


@pytest.fixture(scope="module")
def pressed() -> Recorded:
    draw = random.Random(7)
    faulty, _ = PLANTS["kv_pressure"](draw, plan(draw))
    return run(list(faulty.asked), faulty.setup, 7)


def test_every_token_comes_once_and_blocks_are_never_short(pressed: Recorded) -> None:
    """Also of requests that were thrown out: their tokens come in order, and in iterations that hold them."""
    assert any(one.preemptions for one in pressed.requests)
    for one in pressed.requests:
        assert len(one.tokens_ns) == one.asked.output and one.tokens_ns == sorted(set(one.tokens_ns))
    assert all(0 <= one.kv_used <= 1 for one in pressed.iterations)
    produced = sum(len(one.decoders) for one in pressed.iterations)
    ended = {at for at, one in enumerate(pressed.requests)}
    assert ended == {at for one in pressed.iterations for at, _ in one.context}
    assert produced <= sum(one.asked.output for one in pressed.requests)
    assert max(sum(t for _, t in (*one.context, *one.again)) + len(one.decoders) for one in pressed.iterations) <= 512


def test_the_same_seed_gives_the_same_files(pressed: Recorded, tmp_path: Path) -> None:
    write(pressed, tmp_path / "a", traced=True)
    write(pressed, tmp_path / "b", traced=True)
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    spans = [
        span for line in (tmp_path / "a" / "otlp.jsonl").read_text().splitlines()
        for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]  # fmt: skip
    assert len(spans) == len(pressed.requests)
    assert len((tmp_path / "a" / "iterations.log").read_text().splitlines()) == len(pressed.iterations)
