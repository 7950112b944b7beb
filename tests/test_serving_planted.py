"""Every fault that can be planted into the engine without a device is found, first, with about what it costs.

A run of each; hundreds of them are scored by `python -m tests.serving.score`.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.serving.recorded import members, requests
from npulens.collectors.serving.engine import Recorded, run
from npulens.collectors.serving.plants import PLANTS, plan
from npulens.collectors.serving.reinforcement import JOB_PLANTS, job, spans, stages, step_ns
from npulens.collectors.serving.writers import BEGIN_NS, export, write
from npulens.ingest.store import runs as stores
from tests.serving.rows import connection
from tests.serving.score import CAUSES, judged, planted


def seed_of(cause: str | None) -> int:
    """The first seed of this test that plants the cause."""
    return next(seed for seed in range(5000, 5200) if planted(seed) == cause)


@pytest.mark.parametrize("cause", CAUSES)
def test_it_is_found_first_and_costs_about_that(cause: str) -> None:
    case = judged(seed_of(cause))
    assert case.cause == cause and case.found[0] == cause, case
    assert case.error <= 0.25, case


def test_nothing_is_found_where_nothing_was_planted() -> None:
    for seed in (5000, 5005):  # steps of a job, requests
        assert planted(seed) is None and judged(seed).found == ()


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


@pytest.mark.parametrize("lines", [1, 5, 100])
def test_a_log_that_is_shorter_than_its_trace_is_found_in_it(pressed: Recorded, tmp_path: Path, lines: int) -> None:
    write(pressed, tmp_path / "files", traced=True)
    log = tmp_path / "files" / "iterations.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:lines]))
    (loaded,) = ingest.load(tmp_path / "files", tmp_path / "store").runs
    assert loaded.run_id is not None, loaded.reason
    with stores.open_run(tmp_path / "store", loaded.run_id) as con:
        ((annotated, logged),) = con.execute(
            "SELECT count(*) FILTER (ts_ns IS NOT NULL), count(*) FILTER (logged_ts_ns IS NOT NULL) FROM iteration"
        ).fetchall()
    assert annotated == len(pressed.iterations) and logged == lines


def test_drafts_that_pay_are_no_finding() -> None:
    draw = random.Random(3)
    clean = plan(draw)
    setup = replace(clean.setup, drafted=3, drafts=0.7, accepted=0.9, draft_ns=0.05 * clean.setup.base_ns)
    recorded = run(list(clean.asked), setup, 3)
    assert all(len(one.tokens_ns) == one.asked.output for one in recorded.requests)
    assert sum(one.accepted for one in recorded.iterations) > 0
    with connection(recorded) as con:
        (outcome,) = check(con, only=["speculation_loss"]).outcomes
    assert outcome.outcome == "clean", outcome.reason


def test_a_run_with_drafts_as_files_says_the_same(tmp_path: Path) -> None:
    draw = random.Random(5)
    faulty, _ = PLANTS["speculation_loss"](draw, plan(draw))
    recorded = run(list(faulty.asked), faulty.setup, 5)
    write(recorded, tmp_path / "files", traced=True)
    (loaded,) = ingest.load(tmp_path / "files", tmp_path / "store").runs
    assert loaded.run_id is not None, loaded.reason
    with stores.open_run(tmp_path / "store", loaded.run_id) as con, connection(recorded) as tables:
        found = [next(one for one in check(each, only=["speculation_loss"]).findings).numbers for each in (con, tables)]
    for name in ("drafted", "accepted", "gained"):
        assert found[0][name] == found[1][name]


def test_a_length_that_sglang_tells_says_what_counts_of_tokens_do() -> None:
    """Its gauge is the tokens that a decoder got at once: its own and those of its draft that were right."""
    draw = random.Random(5)
    faulty, _ = PLANTS["speculation_loss"](draw, plan(draw))
    recorded = run(list(faulty.asked), faulty.setup, 5)
    decoders = sum(len(one.decoders) for one in recorded.iterations)
    length = (decoders + sum(one.accepted for one in recorded.iterations)) / decoders
    with connection(recorded) as con:
        counted = next(one for one in check(con, only=["speculation_loss"]).findings)
        con.execute("DELETE FROM serving_sample WHERE name LIKE '%spec_decode%'")
        (without,) = check(con, only=["speculation_loss"]).outcomes
        con.execute(
            "INSERT INTO serving_sample BY NAME SELECT unnest([0, 1]) AS ts_ns, 'sglang:spec_accept_length' AS name, "
            "? AS value, 'prometheus' AS source", [length],
        )  # fmt: skip
        told = next(one for one in check(con, only=["speculation_loss"]).findings)
    assert without.outcome == "not_measured"
    assert told.numbers["gained"] == pytest.approx(counted.numbers["gained"], abs=0.011)  # both are rounded
    assert told.saving_ns == pytest.approx(counted.saving_ns, rel=0.05)


def test_tokens_that_were_cached_are_in_no_iteration(tmp_path: Path) -> None:
    draw = random.Random(13)
    faulty, _ = PLANTS["prefix_miss"](draw, plan(draw))
    recorded = run(list(faulty.asked), faulty.setup, 13)
    write(recorded, tmp_path / "files")
    (loaded,) = ingest.load(tmp_path / "files", tmp_path / "store").runs
    assert loaded.run_id is not None, loaded.reason
    with stores.open_run(tmp_path / "store", loaded.run_id) as con:
        who, found = members(con), requests(con)
    assert (who.how, who.confidence) == ("counts", 1.0)
    assert [one.cached_tokens for one in found] == [one.asked.cached for one in recorded.requests]
    computed = {one.key: int(who.tokens[(who.request == one.key) & (who.phase == 0)].sum()) for one in found}
    assert computed == {one.key: (one.prompt_tokens or 0) - (one.cached_tokens or 0) for one in found}


def test_spans_of_requests_before_the_log_do_not_hide_its_members(tmp_path: Path) -> None:
    draw = random.Random(11)
    recorded = run(list(plan(draw).asked), plan(draw).setup, 11)
    write(recorded, tmp_path / "files")
    earlier = json.dumps(export(recorded.requests[:2], recorded.setup, draw, BEGIN_NS - 60 * 10**9))
    with (tmp_path / "files" / "otlp.jsonl").open("a") as file:
        file.write(earlier.replace("cmpl-", "cmpl-before-") + "\n")
    (loaded,) = ingest.load(tmp_path / "files", tmp_path / "store").runs
    assert loaded.run_id is not None, loaded.reason
    with stores.open_run(tmp_path / "store", loaded.run_id) as con:
        who, ids = members(con), {one.key: one.id for one in requests(con)}
    assert who.how == "counts" and len(ids) == len(recorded.requests) + 2
    assert {ids[key] for key in set(who.request.tolist())} == {one.asked.name for one in recorded.requests}


def test_steps_of_a_job_as_files_say_the_same(tmp_path: Path) -> None:
    draw = random.Random(9)
    faulty, clean = JOB_PLANTS["role_idle"](draw, job(draw))
    found, without = stages(faulty, 9), stages(clean, 9)
    (tmp_path / "roles.json").write_text(json.dumps(spans(found)))
    (loaded,) = ingest.load(tmp_path / "roles.json", tmp_path / "store").runs
    assert loaded.run_id is not None, loaded.reason
    with stores.open_run(tmp_path / "store", loaded.run_id) as con:
        (first, *_) = check(con).findings
    cost = step_ns(found) - step_ns(without)
    assert first.cause == "role_idle" and abs(first.saving_ns - cost) < 0.1 * cost
