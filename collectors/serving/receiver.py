"""Receives the spans that a server exports by OTLP over HTTP, and keeps them as they came."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from pathlib import Path

from npulens.collectors.serving import http

_GZIP = 31
#: Largest export after unpacking.
_LARGEST = 64 << 20
#: What an exporter takes for "received", as JSON and as protobuf.
_RECEIVED = {"application/json": b"{}", "application/x-protobuf": b""}


class Receiver:
    """A server on loopback that writes `otlp.jsonl` and `otlp.pb` as exports come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exports = self.refused = 0
        self.grpc = False  # somebody exports by gRPC
        self.last_ns = 0
        self._waited: set[bytes] = set()
        self._server: asyncio.AbstractServer | None = None

    async def open(self, port: int) -> None:
        try:
            self._server = await http.served(self._take, port)
        except OSError as error:
            raise ValueError(f"port {port} for spans is taken: --otlp-port says another") from error

    async def wait(self, ids: set[str], seconds: float) -> int:
        """Until spans of these requests have come, for so long at most; how many are still missing."""
        self._waited = {one.encode() for one in ids}
        for name in ("otlp.jsonl", "otlp.pb"):
            if (self.folder / name).exists():
                self._seen((self.folder / name).read_bytes())
        end = time.monotonic() + seconds
        while self._waited and time.monotonic() < end:
            await asyncio.sleep(0.05)
        return len(self._waited)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _take(self, question: http.Question, writer: asyncio.StreamWriter) -> None:
        if question.method == "PRI":  # how HTTP/2 begins
            self.grpc = True
            return
        kind = question.headers.get("content-type", "").split(";")[0].strip().lower()
        if question.method != "POST" or kind not in _RECEIVED:
            return http.say(writer, 415, b"spans come here by POST, as JSON or as protobuf")
        body = _unpacked(question)
        if body is None or not self._keep(kind, body):
            self.refused += 1
            return http.say(writer, 400, b"the export cannot be read")
        self.exports += 1
        self.last_ns = time.time_ns()
        self._seen(body)
        http.say(writer, 200, _RECEIVED[kind], kind)

    def _keep(self, kind: str, body: bytes) -> bool:
        if kind == "application/json":
            try:
                said = json.loads(body)
            except (ValueError, RecursionError):
                return False
            if not isinstance(said, dict) or not isinstance(said.get("resourceSpans"), list):
                return False
            with (self.folder / "otlp.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(said) + "\n")
            return True
        if body[:1] != b"\n":  # the tag of the one field that an export has
            return not body
        with (self.folder / "otlp.pb").open("ab") as file:  # several of these messages in a row are one
            file.write(body)
        return True

    def _seen(self, body: bytes) -> None:
        self._waited = {one for one in self._waited if one not in body}


def _unpacked(question: http.Question) -> bytes | None:
    """The body without its packing; None where that is damaged, unknown or too large."""
    packing = question.headers.get("content-encoding", "identity").lower()
    if packing == "identity":
        return question.body
    if packing not in ("gzip", "deflate"):
        return None
    stream = zlib.decompressobj(_GZIP if packing == "gzip" else zlib.MAX_WBITS)
    try:
        body = stream.decompress(question.body, _LARGEST)
    except zlib.error:
        return None
    return None if stream.unconsumed_tail or not stream.eof else body
