"""A server answers questions with a small decoder of text: open traffic, mixed lengths, a KV cache, one batch for all.

Questions come at moments drawn beforehand, whether the server keeps up or not. Each is text; its words become numbers
first. Every step reads the whole of one new question, or makes the next word of all answers that are under way. An
answer's time runs from the moment when the question should have come.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from npulens.collectors.harness.quantiles import quantiles
from npulens.collectors.jobs import job
from npulens.collectors.jobs._llama import Cache, Llama, Sizes
from npulens.collectors.jobs.job import Plant

PLANTS = {
    "prepares_between": Plant(
        "a question becomes numbers between two steps of the model, each time anew",
        "another thread prepares the next ones, and questions that came before are kept", ("host_late",),
    ),
    # Of a step that makes one word it is too small a part to come first: calling the operators takes longer.
    "attention_by_hand": Plant("attention and norms are written out", "the operators that do each at once", ()),
    "one_at_a_time": Plant(
        "every answer is made alone", "one step for all answers that are under way", ("launch_overhead", "host_late"),
        active=40,
    ),
    "no_cache": Plant("every word reads the whole text again", "keys and values are kept", ()),
}  # fmt: skip
SIZES = Sizes(width=384, layers=3, heads=6, groups=2, hidden=1024)
_TEXTS, _HOT = 8, 6
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


@dataclass
class Question:
    """One question and what became of it; moments in ns from the beginning of the traffic."""

    number: int
    text: str
    asked_ns: int
    answer: int  # words that it gets
    words: list[int] = field(default_factory=list)
    made: list[int] = field(default_factory=list)
    row: int = -1
    done_ns: int = 0


def traffic(seed: int, count: int, rate: float) -> list[Question]:
    """Seeded: moments as of many people who know nothing of each other, short and long texts, some again and again."""
    numbers, at = random.Random(seed), 0.0

    def text() -> str:
        length = min(96, max(6, round(numbers.lognormvariate(3.2, 0.6))))
        return " ".join("".join(numbers.choices(_SYLLABLES, k=3)) for _ in range(length))

    hot, found = [text() for _ in range(_HOT)], list[Question]()
    for number in range(count):
        at += numbers.expovariate(rate)
        asked = numbers.choice(hot) if numbers.random() < 0.7 else text()
        found.append(Question(number, asked, round(at * 1e9), min(32, max(4, round(numbers.lognormvariate(2.3, 0.5))))))
    return found


def prepared(text: str) -> list[int]:
    """The words as numbers. Each goes through a slow hash, as a real tokeniser is slow; it leaves others running."""
    found = list[int]()
    for word in text.split():
        digest = hashlib.pbkdf2_hmac("sha256", word.encode(), b"words", 3000)
        found.append(int.from_bytes(digest[:4], "big") % SIZES.words)
    return found


class Kept:
    """Prepared questions by their text: who asks again waits for nothing."""

    def __init__(self, prepare: Callable[[str], list[int]]) -> None:
        self._prepare, self._found = prepare, dict[str, list[int]]()

    def __call__(self, text: str) -> list[int]:
        if text not in self._found:
            self._found[text] = self._prepare(text)
        return self._found[text]


@dataclass(frozen=True)
class Call:
    """What the model is asked at once: words, each answer's own, and where in its text they begin."""

    words: Sequence[Sequence[int]]
    begins: Sequence[int]
    whose: Sequence[Question]


class Turn(nn.Module):
    """One step of the server: a question read, or the next word of all answers, however many calls that takes."""

    def __init__(self, told: job.Asked) -> None:
        super().__init__()
        self._device = told.device
        self._model = Llama(SIZES, told.wrong("attention_by_hand")).to(told.device).eval()
        self._cache = Cache.of(SIZES, _TEXTS, told.device)

    def forward(self, calls: Sequence[Call]) -> None:
        for call in calls:
            given = torch.tensor(call.words, device=self._device)
            places = torch.tensor(call.begins, device=self._device)[:, None]
            places = places + torch.arange(given.shape[1], device=self._device)
            rows = torch.tensor([one.row for one in call.whose], device=self._device)
            scores = self._model(given, places, self._cache.keys, self._cache.values, rows)
            for one, word in zip(call.whose, scores.argmax(-1).tolist()):
                one.made.append(word)


class Server:
    """Answers with one model, turn after turn."""

    def __init__(self, told: job.Asked) -> None:
        self._told, self._turn = told, Turn(told)
        self._under_way, self._free = list[Question](), list(range(_TEXTS))
        self._steps_ns = list[int]()

    def serve(self, questions: Sequence[Question]) -> list[int]:
        """Until every question has its answer; what each turn took, in ns."""
        waiting: queue.SimpleQueue[Question] = queue.SimpleQueue()
        begun = time.perf_counter_ns()
        ahead = not self._told.wrong("prepares_between")
        coming = threading.Thread(target=self._come, args=(questions, waiting, begun, ahead), daemon=True)
        coming.start()
        left = len(questions)
        with torch.no_grad():
            while left:
                one = None
                if self._free:
                    with contextlib.suppress(queue.Empty):
                        one = waiting.get(block=not self._under_way)
                if one is not None and not ahead:
                    one.words = prepared(one.text)
                calls = self._read(one) if one is not None else self._next()
                turn_ns = time.perf_counter_ns()
                self._turn(calls)
                self._steps_ns.append(time.perf_counter_ns() - turn_ns)
                left -= self._finish(time.perf_counter_ns() - begun)
        coming.join()
        return self._steps_ns

    def _come(
        self, questions: Sequence[Question], waiting: queue.SimpleQueue[Question], begun: int, ahead: bool
    ) -> None:
        """The world: questions come when they come. With ``ahead`` they are prepared here, beside the model."""
        kept = Kept(prepared)
        for one in questions:
            late = begun + one.asked_ns - time.perf_counter_ns()
            if late > 0:
                time.sleep(late / 1e9)
            if ahead:
                one.words = kept(one.text)
            waiting.put(one)

    def _read(self, one: Question) -> list[Call]:
        """The whole question at once; it gives the first word of the answer."""
        one.row = self._free.pop()
        self._under_way.append(one)
        return [Call([one.words], [0], [one])]

    def _next(self) -> list[Call]:
        """One more word of all answers, or of one after another."""
        if self._told.wrong("no_cache"):
            return [Call([one.words + one.made], [0], [one]) for one in self._under_way]
        last = [Call([one.made[-1:]], [len(one.words) + len(one.made) - 1], [one]) for one in self._under_way]
        if self._told.wrong("one_at_a_time"):
            return last
        return [Call([call.words[0] for call in last], [call.begins[0] for call in last], self._under_way)]

    def _finish(self, now_ns: int) -> int:
        """Answers that are whole leave their place of the cache."""
        done = [one for one in self._under_way if len(one.made) >= one.answer]
        for one in done:
            one.done_ns = now_ns
            self._free.append(one.row)
        self._under_way = [one for one in self._under_way if len(one.made) < one.answer]
        return len(done)


def main() -> None:
    parser = job.parser("serving", __doc__, PLANTS, 60)
    parser.description = (parser.description or "") + "\n--steps are questions here."
    parser.add_argument("--rate", type=_positive, default=40.0, help="questions a second")
    parser.add_argument("--objective", type=_positive, default=500.0, help="ms that 99 of 100 answers may take")
    given = parser.parse_args()
    told = job.asked("serving", given)
    questions = traffic(told.seed, told.steps, given.rate)
    server = Server(told)
    took = server.serve(questions)
    times = sorted(one.done_ns - one.asked_ns for one in questions)
    middle, tail = quantiles(times, (0.5, 0.99))
    within = sum(each <= given.objective * 1e6 for each in times) / len(times)
    second = max(one.done_ns for one in questions) / 1e9
    job.say(told, took, float(sum(sum(one.made) for one in questions)), {
        "rate": given.rate, "p50_ns": middle.value, "p99_ns": tail.value, "p99_low_ns": tail.low,
        "p99_high_ns": tail.high, "objective_ns": round(given.objective * 1e6), "within_objective": within,
        "words_per_s": sum(len(one.made) for one in questions) / second,
    })  # fmt: skip


def _positive(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise argparse.ArgumentTypeError("a number above zero")
    return found


if __name__ == "__main__":
    main()
