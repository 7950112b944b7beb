"""As much of HTTP/1.1 as a client with streams and a receiver of spans need, on asyncio alone."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

#: Largest head of a message, and largest body that is read as a whole.
_HEAD, _BODY = 1 << 16, 64 << 20
#: How long a connection may take to open.
_OPEN_S = 10.0


class Refused(ValueError):
    """The other side answers, but not with what was asked for; or it speaks no HTTP/1.1."""


@dataclass(frozen=True)
class Url:
    """Where a server is."""

    host: str
    port: int
    path: str
    secure: bool

    @classmethod
    def parse(cls, text: str) -> Url:
        parts = urlsplit(text if "//" in text else f"http://{text}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{text} is no address of a server: http://HOST:PORT")
        secure = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if secure else 80), parts.path.rstrip("/"), secure)

    def at(self, path: str) -> Url:
        """The same server, another path below the one that was given."""
        return Url(self.host, self.port, self.path + path, self.secure)

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.host}:{self.port}{self.path}"


@dataclass(frozen=True)
class Answer:
    """A status, the headers in small letters, and the body as it comes."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]

    async def body(self) -> bytes:
        held = [piece async for piece in self.pieces]
        return b"".join(held)


@dataclass(frozen=True)
class Question:
    """What somebody asks of a server here."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


#: Answers a question by writing to a stream.
Handler = Callable[[Question, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def asked(
    url: Url, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Answer]:
    """The answer to one question, on a connection of its own."""
    context = ssl.create_default_context() if url.secure else None
    reader, writer = await within(_OPEN_S, asyncio.open_connection(url.host, url.port, ssl=context, limit=_HEAD))
    try:
        lines = [f"{method} {url.path or '/'} HTTP/1.1", f"Host: {url.host}:{url.port}", "Connection: close"]
        of_body = {} if body is None else {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines += [f"{name}: {value}" for name, value in {**of_body, **(headers or {})}.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        await writer.drain()
        first, said = await _head(reader)
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
            raise Refused(f"{url} does not answer with HTTP/1.1")
        yield Answer(int(parts[1]), said, _pieces(reader, said))
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def within(seconds: float, work: Awaitable[T]) -> T:
    """What comes of it, in so many seconds."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise Refused(f"nothing within {seconds:g} s")
        return task.result()
    finally:
        task.cancel()


async def _head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    """The first line and the headers."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise Refused("the connection ended before an answer") from error
    first, *lines = head.split("\r\n")
    said = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            said[name.strip().lower()] = value.strip()
    return first, said


async def _pieces(reader: asyncio.StreamReader, said: Mapping[str, str]) -> AsyncIterator[bytes]:
    """The body piece by piece, as it comes."""
    try:
        if "chunked" in said.get("transfer-encoding", "").lower():
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                yield await reader.readexactly(size)
                await reader.readexactly(2)
        elif "content-length" in said:
            left = int(said["content-length"])
            while left > 0 and (piece := await reader.read(min(left, _HEAD))):
                left -= len(piece)
                yield piece
            if left > 0:
                raise Refused("the connection ended within an answer")
        else:
            while piece := await reader.read(_HEAD):
                yield piece
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise Refused("the connection ended within an answer") from error


async def events(answer: Answer) -> AsyncIterator[tuple[int, bytes]]:
    """Server-sent events: when each came, in ns since 1970, and its data."""
    held = b""
    async for piece in answer.pieces:
        at = time.time_ns()
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield at, line[5:].strip()


async def served(handler: Handler, port: int, host: str = "127.0.0.1") -> asyncio.AbstractServer:
    """A server on loopback; each connection asks once."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            question = await _question(reader)
            await handler(question, writer)
            await writer.drain()
        except Refused as error:
            say(writer, 400, str(error).encode())
        except ConnectionError:
            return
        finally:
            writer.close()

    return await asyncio.start_server(one, host, port, limit=_HEAD)


async def _question(reader: asyncio.StreamReader) -> Question:
    first, said = await _head(reader)
    method, _, rest = first.partition(" ")
    size = said.get("content-length", "0")
    if method == "PRI":
        return Question(method, "*", said, b"")
    if "chunked" in said.get("transfer-encoding", "").lower():
        return Question(method, rest.split(" ")[0], said, await _whole(_pieces(reader, said)))
    if not size.isdecimal() or int(size) > _BODY:
        raise Refused("the body is too large")
    try:
        body = await reader.readexactly(int(size))
    except asyncio.IncompleteReadError as error:
        raise Refused("the connection ended within a question") from error
    return Question(method, rest.split(" ")[0], said, body)


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    held, size = [], 0
    async for piece in pieces:
        size += len(piece)
        if size > _BODY:
            raise Refused("the body is too large")
        held.append(piece)
    return b"".join(held)


def say(writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "text/plain") -> None:
    """A whole answer."""
    head = f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
