"""The serving engine without a device, in real time and over HTTP on loopback: an iteration is a wait of its length.

It answers as vLLM does: `/v1/completions` with a stream, `/v1/models`, `/metrics`, `/start_profile`, `/stop_profile`.
It exports a span for each request, writes the log of its iterations, and a trace when its profiler is stopped.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npulens.collectors.serving import http
from npulens.collectors.serving.engine import Asked, Iteration, Scheduler, Served, Setup, iteration_ns
from npulens.collectors.serving.writers import export, line, trace

MODEL = "npulens/none"
_EXPORT_S = 0.05


@dataclass
class Engine:
    """One engine and its front end."""

    setup: Setup
    folder: Path  # gets `server.log` and traces
    spans_to: http.Url | None
    export_s: float = 0.0  # how long a stop of the profiler stops the engine
    seed: int = 0
    every: list[Served] = field(default_factory=list)
    iterations: list[Iteration] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin_ns, self._begin = time.time_ns(), time.monotonic_ns()
        self.scheduler = Scheduler(self.setup, self.every, [])
        self._streams: dict[int, asyncio.Queue[int]] = {}
        self._came = asyncio.Event()
        self._done: list[Served] = []
        self._window: int | None = None
        self._stopping = 0.0
        self._draw = random.Random(self.seed)

    async def run(self, port: int) -> None:
        """Until it is cancelled."""
        server = await http.served(self._answer, port)
        exporting = asyncio.ensure_future(self._export())
        try:
            await self._iterate()
        finally:
            exporting.cancel()
            server.close()

    def _now(self) -> int:
        return time.monotonic_ns() - self._begin

    async def _iterate(self) -> None:
        while True:
            self.scheduler.read(self._now())
            if self._stopping:
                await asyncio.sleep(self._stopping)
                self._stopping = 0.0
            if not self.scheduler.work():
                self._came.clear()
                await self._came.wait()
                continue
            begin = self._now()
            decoders, context = self.scheduler.schedule(begin)
            tokens = sum(many for _, many in context)
            ns, graph, padded = iteration_ns(self.setup, tokens, len(decoders))
            await asyncio.sleep(ns * self._draw.lognormvariate(0.0, self.setup.scatter) / 1e9)
            length = self._now() - begin
            one = self.scheduler.iteration(0, (begin, length), decoders, context, (graph, padded))
            self.scheduler.end(begin + length, decoders, context)
            self.iterations.append(one)
            with (self.folder / "server.log").open("a") as log:
                log.write(line(one, self.begin_ns))
            for at in [*decoders, *(at for at, _ in context)]:
                self._tell(at)

    def _tell(self, at: int) -> None:
        """The front end passes on a token, where the iteration made one."""
        one, stream = self.every[at], self._streams[at]
        if one.computed in (one.whole - 1, 0):  # its context was whole, or it has ended
            stream.put_nowait(len(one.tokens_ns))

    async def _answer(self, question: http.Question, writer: asyncio.StreamWriter) -> None:
        if question.path == "/v1/models":
            http.say(writer, 200, json.dumps({"data": [{"id": MODEL}]}).encode(), "application/json")
        elif question.path == "/metrics":
            text = f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {len(self.scheduler.running)}\n"
            http.say(writer, 200, text.encode())
        elif question.path == "/start_profile":
            self._window = len(self.iterations)
            http.say(writer, 200, b"")
        elif question.path == "/stop_profile":
            await self._write(writer)
        elif question.path == "/v1/completions":
            await self._complete(question, writer)
        else:
            http.say(writer, 404, b"there is no such path")

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        """The window's trace; nothing is computed while it is written."""
        if self._window is None:
            return http.say(writer, 500, b"the profiler does not run")
        self._stopping = self.export_s
        await asyncio.sleep(self.export_s)
        told = trace(self.iterations[self._window :], self.begin_ns)
        (self.folder / f"rank0.{time.time_ns()}.pt.trace.json").write_text(json.dumps(told))
        self._window = None
        return http.say(writer, 200, b"")

    async def _complete(self, question: http.Question, writer: asyncio.StreamWriter) -> None:
        said: dict[str, Any] = json.loads(question.body)
        prompt = said["prompt"]
        tokens = len(prompt.split()) if isinstance(prompt, str) else len(prompt)
        now = self._now()
        one = Served(Asked(question.headers["x-request-id"], now, tokens, said["max_tokens"]))
        at, stream = len(self.every), asyncio.Queue[int]()
        self.every.append(one)
        self._streams[at] = stream
        self.scheduler.coming.append((now, at))
        self._came.set()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        many = 0
        while many < one.asked.output:
            many = await stream.get()
            choice = {"text": "a ", "finish_reason": "length" if many == one.asked.output else None}
            _event(writer, {"choices": [choice], "usage": {"prompt_tokens": tokens, "completion_tokens": many}})
            await writer.drain()
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        self._done.append(one)

    async def _export(self) -> None:
        """Spans of requests that have ended, in one export after the other."""
        while self.spans_to is not None:
            await asyncio.sleep(_EXPORT_S)
            done, self._done = self._done, []
            if not done:
                continue
            text = json.dumps(export(done, self.setup, self._draw, self.begin_ns)).encode()
            with suppress(OSError):
                async with http.asked(self.spans_to, "POST", text) as answer:
                    await answer.body()


def _event(writer: asyncio.StreamWriter, said: dict[str, Any]) -> None:
    _chunk(writer, b"data: " + json.dumps(said).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, piece: bytes) -> None:
    writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
