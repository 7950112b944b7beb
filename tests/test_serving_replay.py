"""The replay of requests against schedules worked out by hand, and what it makes of limits."""

from __future__ import annotations

import numpy as np
import pytest

from npulens.analysis.serving.fitting import Columns, fitted
from npulens.analysis.serving.replay import (
    Edit,
    Load,
    Model,
    Rest,
    Stall,
    Times,
    measures,
    replayed,
    simulated,
)
from npulens.analysis.serving.slo import Slo

MS = 1_000_000
#: 5 ms, 0.1 ms for a token of a prompt, 1 ms for a decoder.
MODEL = Model(5 * MS, 0, MS / 10, MS)


def load(*asked: tuple[int, int, int]) -> Load:
    """Requests of (sent ms, prompt, output); a client is 1 ms away on both sides."""
    sent, prompt, output = (np.array(column, np.int64) for column in zip(*asked, strict=True))
    none, one = np.zeros(len(asked), np.int64), np.full(len(asked), MS)
    return Load(
        tuple(f"r{at}" for at in range(len(asked))), sent * MS, prompt, none, output, one, one, none, none,
        np.ones(len(asked), np.bool_),
    )  # fmt: skip


def run(asked: Load, model: Model) -> Times:
    return simulated(asked, model, np.random.default_rng(0))


def test_one_request_alone() -> None:
    """1 ms there, 5 + 10 for its prompt, 1 back; then three iterations of 6 ms."""
    times = run(load((0, 100, 4)), MODEL)
    assert times.ttft_ns.tolist() == [17 * MS] and times.tpot_ns.tolist() == [6 * MS]


def test_a_request_waits_for_the_iteration_that_it_comes_into() -> None:
    """The second comes after 4 ms and is read at 16: 5 + 10 + 1 for its prompt beside a decoder, until 32."""
    times = run(load((0, 100, 4), (4, 100, 2)), MODEL)
    assert times.ttft_ns.tolist() == [17 * MS, 29 * MS]
    assert times.tpot_ns.tolist() == [(16 + 7 + 6) / 3 * MS, 7 * MS], "beside it two decode once"


def test_a_prompt_above_the_budget_takes_several_iterations() -> None:
    """250 tokens by 100 are 15 + 15 + 10 ms."""
    assert run(load((0, 250, 1)), Model(5 * MS, 0, MS / 10, MS, budget=100)).ttft_ns.tolist() == [42 * MS]


def test_slots_and_blocks_make_requests_wait() -> None:
    """The first is done 1 + 15 + 18 ms after the beginning; then the prompt of the second takes 15 ms."""
    asked = load((0, 100, 4), (0, 100, 1))
    for model in (Model(5 * MS, 0, MS / 10, MS, slots=1), Model(5 * MS, 0, MS / 10, MS, blocks=1, block_tokens=128)):
        assert run(asked, model).ttft_ns.tolist() == [17 * MS, 50 * MS]
        apart = replayed(asked, model, Edit(model={"slots": 9, "blocks": 99}), Slo())
        assert (apart.ttft_p50_ns, apart.ttft_p99_ns) == (27 * MS, 27 * MS), "one iteration of 200 tokens"


def test_who_came_last_is_thrown_out_and_computed_again() -> None:
    """Three blocks of 10 tokens and two prompts of 9: with its second token each needs a second block.

    That is when 10 tokens are in it. The first gets the block. The second goes; its own block is full and still there
    when the first is done, so that of its 11 tokens the last is computed again.
    """
    times = run(load((0, 9, 4), (0, 9, 4)), Model(5 * MS, 0, MS / 10, MS, blocks=3, block_tokens=10))
    assert (times.preemptions, times.recomputed) == (1, 1)
    assert times.tpot_ns[0] < times.tpot_ns[1]


def test_a_stall_stops_whatever_runs_then_and_can_be_taken_away() -> None:
    """The iteration under way at 20 ms ends 100 ms later. One that is over before anybody comes costs nothing."""
    stalled = Model(5 * MS, 0, MS / 10, MS, stalls=(Stall(20 * MS, 100 * MS), Stall(500 * MS, 50 * MS)))
    asked = load((0, 100, 4), (700, 100, 4))
    assert run(asked, stalled).tpot_ns.tolist() == [(18 + 100) / 3 * MS, 6 * MS]
    assert replayed(asked, stalled, Edit(stalls=frozenset({0})), Slo()).tpot_p99_ns == 6 * MS


def test_engines_together_wait_for_the_slowest() -> None:
    """Beside 300 tokens a prompt of 100 takes as long."""
    asked = load((0, 300, 1), (0, 100, 1))
    apart = Load(**{**vars(asked), "engine": np.array([0, 1])})
    assert run(apart, MODEL).ttft_ns.tolist() == [37 * MS, 17 * MS]
    assert run(apart, Model(5 * MS, 0, MS / 10, MS, together=True)).ttft_ns.tolist() == [37 * MS, 37 * MS]


def test_a_request_that_never_fits_does_not_stop_the_others() -> None:
    times = run(load((0, 1000, 2), (1, 20, 2)), Model(5 * MS, 0, MS / 10, MS, blocks=4, block_tokens=16))
    assert times.ttft_ns[1] > 0 and times.tpot_ns[1] == 6 * MS


def test_the_fit_finds_what_iterations_were_made_of_and_their_stalls() -> None:
    draw = np.random.default_rng(3)
    context = np.where(draw.random(400) < 0.2, draw.integers(20, 200, 400), 0).astype(float)
    decoders = draw.integers(0, 9, 400).astype(float)
    dur = 5e6 + 2e6 * (context > 0) + 1e5 * context + 3e5 * decoders + draw.normal(0, 5e4, 400)
    dur[[50, 300]] += 4e8
    ts = np.arange(400) * 50 * MS
    none = np.zeros(400, np.bool_)
    model, _, stalled = fitted(Columns(ts, dur, np.zeros(400), context, decoders, decoders, none, none))
    found = (model.base_ns, model.context_ns, model.context_token_ns, model.decoder_ns)
    assert found == pytest.approx((5e6, 2e6, 1e5, 3e5), rel=0.05)
    assert np.flatnonzero(stalled).tolist() == [50, 300]
    assert [round(one.dur_ns / 1e8) for one in model.stalls] == [4, 4]


def test_what_the_fit_leaves_over_comes_back_where_it_was() -> None:
    """Iterations of the first second take 2 ms more than the fit says, later ones nothing more."""
    moments = tuple(float(at * 10 * MS) for at in range(200))
    rest = Rest(0.0, moments, tuple(2.0 * MS if at < 100 else 0.0 for at in range(200)), (0.0,) * 200)
    model = Model(5 * MS, 0, MS / 10, MS, rests=(rest,))
    assert run(load((0, 100, 4), (1500, 100, 4)), model).tpot_ns.tolist() == [8 * MS, 6 * MS]


def test_measures_are_of_what_requests_took() -> None:
    """P99 of two lies 0.99 of the way; a single token has no TPOT and does not fail its objective."""
    found = measures(np.array([100.0, 300.0]) * MS, np.array([30.0, 0.0]) * MS, np.array([5, 1]), Slo())
    assert found.ttft_p99_ns == pytest.approx(298 * MS) and found.tpot_p99_ns == 30 * MS and found.good == 0
