"""A window of the server's own profiler, bounded in iterations, and what it cost the requests.

vLLM and SGLang start and stop their profilers by `/start_profile` and `/stop_profile`. A request that is answered gets
a message in each iteration. So the messages of one request after the other count iterations.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from npulens.collectors.serving import http
from npulens.collectors.serving.client import Sent

#: A call that writes a trace of an hour may take many minutes.
_CALL_S = 1800.0


@dataclass
class Window:
    """When the profiler's calls began and ended, in ns since 1970, and what was counted between."""

    wanted: int
    seconds: float
    start_ns: int = 0
    started_ns: int = 0
    stop_ns: int = 0
    stopped_ns: int = 0
    iterations: int = 0
    reason: str | None = None  # why there is no window, or why it is shorter

    def __post_init__(self) -> None:
        self._followed: Sent | None = None
        self._full = asyncio.Event()

    def heard(self, sent: Sent) -> None:
        """A message of some request. Each after the first of the one that is followed is of an iteration of its own.

        The first may be of an iteration before the window, or of the same as the last one of whom was followed before.
        """
        if not self.started_ns or self.stop_ns:
            return
        if self._followed is None or self._followed.end_ns is not None or self._followed.error:
            self._followed = sent
        elif sent is self._followed:
            self.iterations += 1
            if self.iterations >= self.wanted:
                self._full.set()

    async def record(self, url: http.Url, folder: str | None) -> None:
        """Starts the profiler, waits for as many iterations as are wanted, and stops it."""
        self.start_ns = time.time_ns()
        more: dict[str, Any] = {"num_steps": self.wanted}  # SGLang's; vLLM looks at no body
        if folder:
            more["output_dir"] = folder
        said = await _call(url.at("/start_profile"), more)
        if said is not None:
            self.reason = f"/start_profile: {said}"
            return
        self.started_ns = time.time_ns()
        try:
            await http.within(self.seconds, self._full.wait())
        except http.Refused:
            self.reason = f"{self.iterations} of {self.wanted} iterations within {self.seconds:.0f} s"
        self.stop_ns = time.time_ns()
        said = await _call(url.at("/stop_profile"), None)
        self.stopped_ns = time.time_ns()
        if said is not None and "status" not in said:  # one that has stopped by itself refuses to stop again
            self.reason = f"/stop_profile: {said}"


async def _call(url: http.Url, body: dict[str, Any] | None) -> str | None:
    """None, or why the server did not do it."""

    async def call() -> str | None:
        async with http.asked(url, "POST", json.dumps(body or {}).encode()) as answer:
            text = (await answer.body())[:200].decode("utf-8", "replace").strip()
            return None if answer.status < 300 else f"status {answer.status} {text}".strip()

    try:
        return await http.within(_CALL_S, call())
    except (OSError, http.Refused) as error:
        return str(error) or type(error).__name__


@dataclass(frozen=True)
class Cost:
    """What the window cost. Times are in ns; None: nothing was measured."""

    itl_without_ns: int | None  # median time between two messages of a request, without the profiler
    itl_with_ns: int | None  # while it recorded
    start_ns: int  # how long the call took that starts it
    export_ns: int  # and that stops it, and writes what was recorded
    silence_ns: int  # the longest time without a message to an open request while these calls ran
    silence_without_ns: int | None  # the same before the first and after the last call
    hurt: int  # requests that were open during these calls

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def cost(window: Window, sent: Sequence[Sent]) -> Cost | None:
    """What the messages of all requests say of it; None without a window."""
    if not window.stopped_ns:
        return None
    calls = ((window.start_ns, window.started_ns), (window.stop_ns, window.stopped_ns))
    pairs = [pair for one in sent for pair in zip(one.tokens_ns, one.tokens_ns[1:]) if pair[1] > pair[0]]
    within = [b - a for a, b in pairs if window.started_ns <= a and b <= window.stop_ns]
    without = [b - a for a, b in pairs if b <= window.start_ns or window.stopped_ns <= a]
    across = [b - a for a, b in pairs if any(a < end and begin < b for begin, end in calls)]
    hurt = sum(
        any(one.send_ns < end and begin < (one.end_ns or end) for begin, end in calls) for one in sent if one.send_ns
    )
    return Cost(
        _median(without), _median(within), window.started_ns - window.start_ns, window.stopped_ns - window.stop_ns,
        max(across, default=0), max(without, default=None), hurt,
    )  # fmt: skip


def _median(values: Iterable[int]) -> int | None:
    held = list(values)
    return int(statistics.median(held)) if held else None
