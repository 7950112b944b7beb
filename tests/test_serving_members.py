"""Who was in which iteration, found from counts and from times: engines are played by hand, and their members known."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest

from npulens.ingest.serving.annotations import annotated_counts
from npulens.ingest.serving.counts import DECODE, PREFILL, RECOMPUTE, Counts, Segment, Wanted, replay
from npulens.ingest.serving.times import NEVER, Answer, counted_back, ends


@dataclass
class Played:
    """An engine's log, and who was in each iteration with how many tokens and which answer token."""

    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    members: set[tuple[int, int, int, int]] = field(default_factory=set)  # iteration, request, phase, token (-1: none)


def play(requests: list[Wanted], arrivals: list[int], budget: int, blocks: int) -> Played:
    """Continuous batching: first in, first out; without room the last that began is put back and computed again."""
    played, waiting, running = (
        Played(),
        deque[list[int]](),
        list[list[int]](),
    )  # request, left to work on, tokens it has
    coming = deque(sorted(range(len(requests)), key=lambda one: arrivals[one]))
    at = 0
    while coming or waiting or running:
        while coming and arrivals[coming[0]] <= at:
            one = coming.popleft()
            waiting.append([one, requests[one].prompt, 0])
        decodes = [state for state in running if not state[1]]
        while sum(requests[one].prompt + has for one, _, has in running) + len(decodes) > blocks and len(decodes) > 1:
            out = decodes.pop()
            running.remove(out)
            waiting.appendleft([out[0], requests[out[0]].prompt + out[2], out[2]])
            preempted = True
            break
        else:
            preempted = False
        left, generating, context = budget - len(decodes), [(state, 1) for state in decodes], []
        chunks = [state for state in running if state[1]]
        while waiting and not preempted and left > sum(state[1] for state in chunks):
            used = sum(requests[one].prompt + has for one, _, has in running)
            if used + waiting[0][1] > blocks and running:
                break
            state = waiting.popleft()
            running.append(state)
            chunks.append(state)
        for state in chunks:
            work = min(state[1], left)
            if work:
                (generating if state[2] else context).append((state, work))
                left -= work
        if not generating and not context:
            at += 1
            continue
        row = len(played.rows)
        played.rows.append((len(context), sum(w for _, w in context), len(generating), sum(w for _, w in generating)))
        for state, work in [*generating, *context]:
            phase = DECODE if not state[1] else RECOMPUTE if state[2] else PREFILL
            state[1] = max(0, state[1] - work)
            played.members.add((row, state[0], phase, -1 if state[1] else state[2]))
            state[2] += not state[1]
        running = [state for state in running if state[1] or state[2] < requests[state[0]].output]
        at += 1
    return played


def spread(segments: list[Segment]) -> set[tuple[int, int, int, int]]:
    return {
        (at, part.request, part.phase, -1 if part.token is None else part.token + at - part.first)
        for part in segments
        for at in range(part.first, part.last + 1)
    }


def counts(rows: list[tuple[int, int, int, int]]) -> Counts:
    return Counts(*np.array(rows, np.int64).T)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("room", [10**9, 1500])
def test_members_from_counts_are_those_that_were_there(seed: int, room: int) -> None:
    chance = random.Random(seed)
    requests = [Wanted(chance.choice([chance.randint(20, 200), 900]), chance.randint(1, 60)) for _ in range(40)]
    arrivals = sorted(chance.randint(0, 500) for _ in requests)
    played = play(requests, arrivals, 256, room)
    found = replay(requests, counts(played.rows))
    assert found is not None and found.placed == len(requests)
    assert found.confidence == 1.0
    assert spread(found.segments) == played.members


def test_strangers_at_both_ends_are_no_members() -> None:
    requests, arrivals = [Wanted(50, 5), Wanted(61, 4)], [0, 3]
    rows = play(requests, arrivals, 256, 10**9).rows
    before, after = [(0, 0, 2, 2), (1, 33, 2, 2), (0, 0, 1, 1)], [(1, 44, 0, 0), (0, 0, 1, 1)]
    found = replay(requests, counts([*before, *rows, *after]))
    assert found is not None and (found.begin, found.end) == (3, 3 + len(rows))


def test_what_speculates_or_does_not_fit_is_not_known() -> None:
    requests = [Wanted(50, 9)]
    assert replay(requests, counts([(1, 50, 0, 0), *[(0, 0, 1, 3)] * 3])) is None
    assert replay(requests, counts([(1, 20, 7, 7)] * 30)) is None
    assert replay([], counts([(1, 20, 7, 7)])) is None


def test_an_iteration_ends_before_its_tokens_and_before_the_next_begins() -> None:
    lengths = np.array([10, 10, 10, 10], np.int64)
    before = np.array([NEVER, 55, NEVER, 62], np.int64)
    known = np.full(4, NEVER)
    assert ends(lengths, before, known).tolist() == [32, 42, 52, 62]
    known[2] = 60
    assert ends(lengths, before, known).tolist() == [32, 42, 60, 62]
    assert (ends(lengths, np.full(4, NEVER), np.full(4, NEVER)) >= NEVER).all()


def test_members_counted_back_from_last_tokens() -> None:
    """Ten iterations of 10 ms; tokens leave 0.7 ms after their end."""
    end = np.arange(1, 11, dtype=np.int64) * 10_000_000
    late = 700_000
    answers = [Answer(int(end[0]) + late, int(end[4]) + late, 5), Answer(int(end[2]) + late, int(end[9]) + late, 8)]
    generating = np.array([0, 1, 1, 2, 2, 1, 1, 1, 1, 1], np.int64)
    context = np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 0], np.int64)
    found = counted_back(answers, end, generating, context)
    assert found is not None and found.confidence == 1.0 and found.delay_ns <= late
    assert spread(found.segments) == {
        (0, 0, PREFILL, 0), *((at, 0, DECODE, at) for at in range(1, 5)),
        (2, 1, PREFILL, 0), *((at, 1, DECODE, at - 2) for at in range(3, 10)),
    }  # fmt: skip
    wrong = counted_back(answers, end, np.full(10, 7, np.int64), context)
    assert wrong is not None and wrong.confidence == 0.0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("execute_context_2(512)_generation_3(3)", ("mixed", 2, 512, 3, 3)),
        ("execute_context_0(0)_generation_4(4)", ("decode", 0, 0, 4, 4)),
        ("execute_515_context_2(sq512sk900sqsq9sqsk9)_generation_3(sq3sk70sqsq3sqsk70)", ("mixed", 2, 512, 3, 3)),
        ("step[DECODE bs=32]", ("decode", 0, 0, 32, 32)),
        ("step[EXTEND bs=2 toks=1024 forward_id=7]", ("prefill", 2, 1024, None, None)),
        ("step[TARGET_VERIFY bs=4]", ("decode", 0, 0, 4, None)),
        ("step[IDLE bs=0]", ("dummy", 0, 0, 0, 0)),
        ("execute_model", None),
    ],
)
def test_annotations_of_engines(name: str, told: tuple[object, ...] | None) -> None:
    assert annotated_counts(name) == told
