"""An open-loop client: every request is sent when its time has come, whatever became of those before it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from npulens.collectors.serving import http
from npulens.collectors.serving.load import Ask, body

#: A request that has not ended so long after the last one was sent is given up.
PATIENCE_S = 120.0
_SHOWN = 200


@dataclass
class Sent:
    """A request as its client saw it; stamps in ns since 1970."""

    id: str
    ask: Ask
    send_ns: int = 0
    late_ns: int = 0  # sent so long after its time had come
    tokens_ns: list[int] = field(default_factory=list)
    end_ns: int | None = None
    prompt: int | None = None  # tokens, as the server counts them
    output: int = 0  # the same of the answer, where it says so
    cached: int | None = None  # tokens of the prompt that it had in its cache
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As the file of a client holds it."""
        return {
            "id": self.id, "prompt": self.prompt or self.ask.prompt, "max_tokens": self.ask.output,
            "send_ns": self.send_ns, "tok_ns": self.tokens_ns, "end_ns": self.end_ns,
            "cached": self.cached, "output_tokens": max(self.output, len(self.tokens_ns)), "error": self.error,
        }  # fmt: skip


class Client:
    """Sends a load to a server."""

    def __init__(
        self, url: http.Url, model: str, seed: int, vocabulary: int | None, heard: Callable[[Sent], None]
    ) -> None:
        self.url, self.model, self.seed, self.vocabulary = url, model, seed, vocabulary
        self.heard = heard  # is told of every message with tokens
        self.sent: list[Sent] = []

    async def run(self, asks: Sequence[Ask], prefix: str) -> None:
        """All of a load, to its last answer."""
        posted = [
            json.dumps(body(ask, number, self.model, self.seed, self.vocabulary)).encode()
            for number, ask in enumerate(asks)
        ]
        self.sent = [Sent(f"{prefix}{number:05d}", ask) for number, ask in enumerate(asks)]
        begin, tasks = time.monotonic_ns() + 50_000_000, []
        for one, text in zip(self.sent, posted):
            ahead = begin + one.ask.at_ns - time.monotonic_ns()
            if ahead > 0:
                await asyncio.sleep(ahead / 1e9)
            one.late_ns = max(0, time.monotonic_ns() - begin - one.ask.at_ns)
            tasks.append(asyncio.ensure_future(self._one(one, text)))
        _, left = await asyncio.wait(tasks, timeout=PATIENCE_S)
        for task in left:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in self.sent:
            if one.end_ns is None and one.error is None:
                one.error = f"no end within {PATIENCE_S:.0f} s after the last request"

    async def _one(self, one: Sent, text: bytes) -> None:
        one.send_ns = time.time_ns()
        try:
            async with http.asked(
                self.url.at("/v1/completions"), "POST", text, {"X-Request-Id": one.id, "Accept": "text/event-stream"}
            ) as answer:
                if answer.status != 200:
                    said = (await answer.body())[:_SHOWN].decode("utf-8", "replace")
                    raise http.Refused(f"status {answer.status}: {said}")
                async for at, data in http.events(answer):
                    self._take(one, at, data)
            one.end_ns = time.time_ns()
        except (OSError, http.Refused) as error:
            one.error, one.end_ns = str(error) or type(error).__name__, time.time_ns()

    def _take(self, one: Sent, at: int, data: bytes) -> None:
        """One message: its tokens, and what it says of the request's length."""
        if data == b"[DONE]":
            return
        try:
            said = json.loads(data)
        except ValueError as error:
            raise http.Refused("a message of the stream is no JSON") from error
        if not isinstance(said, dict):
            raise http.Refused("a message of the stream is no JSON object")
        if "error" in said:
            raise http.Refused(f"the server ends the stream: {json.dumps(said['error'])[:_SHOWN]}")
        usage = said.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        counted, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
        if isinstance(prompt, int):
            one.prompt = prompt
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict) and isinstance(details.get("cached_tokens"), int):
            one.cached = details["cached_tokens"]
        if isinstance(counted, int):
            one.output = min(max(0, counted), one.ask.output)
        choices = said.get("choices")
        new = 1 if isinstance(choices, list) and choices and _holds_tokens(choices[0]) else 0
        if isinstance(counted, int) and (choices or not one.tokens_ns):  # the server counts in every message
            new = max(0, counted - len(one.tokens_ns))
        one.tokens_ns += [at] * min(new, one.ask.output)
        if new:
            self.heard(one)


def _holds_tokens(choice: object) -> bool:
    """A message without text may still hold a token, of which a tokenizer makes no letter yet; the last holds none."""
    return isinstance(choice, dict) and (bool(choice.get("text")) or not choice.get("finish_reason"))
