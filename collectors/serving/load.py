"""What is asked of a server, and when: at random moments, or as a trace of a service says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Short words that most tokenizers know: a prompt of n of them has about n tokens. What the server counts is kept.
_WORDS = (
    "the", "of", "and", "to", "in", "is", "was", "for", "that", "on", "as", "with", "by", "at", "from", "his", "it",
    "an", "are", "which", "this", "be", "has", "had", "not", "or", "but", "were", "one", "all", "who", "some", "new",
)  # fmt: skip
#: Tokens that one hash of a Mooncake trace stands for.
_BLOCK = 512
#: Longest prompt and answer that are believed.
_LONGEST = 1 << 21


@dataclass(frozen=True)
class Ask:
    """One request: when it is sent, and how long it and its answer are."""

    at_ns: int  # since the first
    prompt: int
    output: int
    hashes: tuple[int, ...] = ()  # what its blocks hold; the same hash is the same text


@dataclass(frozen=True)
class Lengths:
    """From so many tokens to so many, each as likely."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> Lengths:
        low, _, high = text.partition(":")
        if not low.isdecimal() or (high and not high.isdecimal()) or not 0 < int(low) <= int(high or low) <= _LONGEST:
            raise ValueError(f"{text} is no number of tokens: 128, or 64:256")
        return cls(int(low), int(high or low))


def poisson(rate: float, count: int, prompt: Lengths, output: Lengths, seed: int) -> tuple[Ask, ...]:
    """Requests that know nothing of each other, so many a second on average."""
    draw = random.Random(seed)
    at, asks = 0.0, []
    for _ in range(count):
        asks.append(Ask(int(at), draw.randint(prompt.least, prompt.most), draw.randint(output.least, output.most)))
        at += draw.expovariate(rate) * 1e9
    return tuple(asks)


def mooncake(path: Path, count: int | None, speed: float) -> tuple[Ask, ...]:
    """Requests of a trace, a JSON object a line: `timestamp` in ms, `input_length`, `output_length`, `hash_ids`."""
    asks: list[Ask] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip() and (count is None or len(asks) < count):
                asks.append(_one(line, f"{path.name}, line {number}", speed))
    if not asks:
        raise ValueError(f"{path.name} holds no requests")
    first = min(one.at_ns for one in asks)
    moved = (Ask(one.at_ns - first, one.prompt, one.output, one.hashes) for one in asks)
    return tuple(sorted(moved, key=lambda one: one.at_ns))


def _one(line: str, where: str, speed: float) -> Ask:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: no JSON object") from error
    said = said if isinstance(said, dict) else {}
    values = []
    for name, most in (("timestamp", 1e12), ("input_length", _LONGEST), ("output_length", _LONGEST)):
        value = said.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
            raise ValueError(f"{where}: {name} is no number from 0 to {most:.0f}")
        values.append(value)
    at, prompt, output = values
    hashes = said.get("hash_ids")
    known = tuple(each for each in hashes if isinstance(each, int)) if isinstance(hashes, list) else ()
    return Ask(int(at * 1e6 / speed), max(1, int(prompt)), max(1, int(output)), known)


def prompt(ask: Ask, number: int, seed: int, vocabulary: int | None) -> str | list[int]:
    """A request's prompt: words, or with the size of a vocabulary its numbers of tokens."""
    tokens = list(_drawn(ask, f"{seed}/{number}", vocabulary or len(_WORDS)))
    return [10 + token % max(1, vocabulary - 10) for token in tokens] if vocabulary else _text(tokens)


def _text(tokens: Sequence[int]) -> str:
    return " ".join(_WORDS[token] for token in tokens)


def _drawn(ask: Ask, own: str, size: int) -> Iterator[int]:
    """Numbers below a size: those of its blocks' hashes first, then its own."""
    left = ask.prompt
    for each in [*ask.hashes, None]:
        draw = random.Random(own if each is None else f"block {each}")
        many = left if each is None else min(left, _BLOCK)
        yield from (draw.randrange(size) for _ in range(many))
        left -= many


def body(ask: Ask, number: int, model: str, seed: int, vocabulary: int | None) -> dict[str, Any]:
    """What is posted to `/v1/completions`: an answer of just that length, as a stream that counts its tokens."""
    return {
        "model": model, "prompt": prompt(ask, number, seed, vocabulary), "max_tokens": ask.output,
        "ignore_eos": True, "temperature": 0.0, "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }  # fmt: skip
