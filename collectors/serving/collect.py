"""`collect serve`: a load on a server, its spans, its log, its figures and a window of its profiler, as one folder."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.collectors.serving import http
from npulens.collectors.serving.client import Client, Sent
from npulens.collectors.serving.load import Ask, Lengths, mooncake, poisson
from npulens.collectors.serving.receiver import Receiver
from npulens.collectors.serving.window import Cost, Window, cost

_SCRAPE_S = 1.0
#: A batch of spans leaves a server every five seconds.
_SPANS_S = 8.0
_LEAST_PORT, _MOST_PORT = 1, 65535


@dataclass(frozen=True)
class Asked:
    """What was asked for, checked."""

    url: http.Url
    output: Path
    model: str | None
    seed: int
    vocabulary: int | None
    port: int
    log: Path | None
    profile: int
    profile_dir: Path | None
    profile_seconds: float


@dataclass
class Left:
    """What a collection left."""

    sent: Sequence[Sent]
    receiver: Receiver
    window: Window | None
    scrapes: int
    without_spans: int


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb and its options."""
    serve = verbs.add_parser("serve", help="send a load to a serving engine and keep what all sides tell of it")
    serve.set_defaults(run=_serve)
    serve.add_argument("--url", required=True)
    serve.add_argument("-o", "--output", type=Path, required=True)
    serve.add_argument("--model")
    serve.add_argument("--trace", type=Path)
    serve.add_argument("--speed", type=float, default=1.0)
    serve.add_argument("--rate", type=float, default=1.0)
    serve.add_argument("--requests", type=int)
    serve.add_argument("--prompt", default="64:256")
    serve.add_argument("--answer", default="32:128")
    serve.add_argument("--vocabulary", type=int)
    serve.add_argument("--seed", type=int, default=0)
    serve.add_argument("--otlp-port", type=int, default=4318)
    serve.add_argument("--log", type=Path)
    serve.add_argument("--profile", type=int, default=0)
    serve.add_argument("--profile-dir", type=Path)
    serve.add_argument("--profile-seconds", type=float, default=60.0)


def _serve(arguments: argparse.Namespace) -> int:
    asked, asks = _checked(arguments)
    asked.output.mkdir(parents=True, exist_ok=True)
    if any(asked.output.iterdir()):
        raise ValueError(f"{asked.output} is not empty")
    left = asyncio.run(_collected(asked, asks))
    answer = _told(asked, left)
    about = {"what": "a load on a serving engine", "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    (asked.output / "manifest.json").write_text(json.dumps({**about, **answer}, indent=2) + "\n", encoding="utf-8")
    print("\n" + json.dumps({"directory": str(asked.output), **answer}), flush=True)
    return 1 if answer["status"] == "failed" else 0


def _checked(arguments: argparse.Namespace) -> tuple[Asked, tuple[Ask, ...]]:
    count = arguments.requests
    for name, value, least, most in (
        ("--rate", arguments.rate, 1e-6, 1e6), ("--speed", arguments.speed, 1e-6, 1e6),
        ("--requests", 1 if count is None else count, 1, 10_000_000), ("--profile", arguments.profile, 0, 1_000_000),
        ("--otlp-port", arguments.otlp_port, _LEAST_PORT, _MOST_PORT),
        ("--vocabulary", arguments.vocabulary or 11, 11, 1 << 24),
        ("--profile-seconds", arguments.profile_seconds, 0.1, 86_400),
    ):  # fmt: skip
        if not least <= value <= most:
            raise ValueError(f"{name} is from {least:g} to {most:g}")
    if arguments.log is not None and not arguments.log.is_file():
        raise ValueError(f"{arguments.log} is no file: --log is where the server writes its log")
    if arguments.profile_dir is not None and not arguments.profile_dir.is_dir():
        raise ValueError(f"{arguments.profile_dir} is no folder: --profile-dir is where the server writes traces")
    if arguments.trace is not None:
        asks = mooncake(arguments.trace, count, arguments.speed)
    else:
        lengths = Lengths.parse(arguments.prompt), Lengths.parse(arguments.answer)
        asks = poisson(arguments.rate, 100 if count is None else count, *lengths, arguments.seed)
    return Asked(
        http.Url.parse(arguments.url), arguments.output, arguments.model, arguments.seed, arguments.vocabulary,
        arguments.otlp_port, arguments.log, arguments.profile, arguments.profile_dir, arguments.profile_seconds,
    ), asks  # fmt: skip


async def _collected(asked: Asked, asks: Sequence[Ask]) -> Left:
    """Sends the load; what else tells of it is gathered beside it and after it."""
    receiver = Receiver(asked.output)
    await receiver.open(asked.port)
    try:
        model = asked.model or await _model(asked.url)
        window = Window(asked.profile, asked.profile_seconds) if asked.profile else None
        began = 0 if asked.log is None else asked.log.stat().st_size
        there = _traces(asked.profile_dir)
        client = Client(asked.url, model, asked.seed, asked.vocabulary, window.heard if window else _nobody)
        scraping = asyncio.ensure_future(_scrape(asked.url, asked.output / "metrics.prom"))
        loading = asyncio.ensure_future(client.run(asks, f"n{time.time_ns() // 1_000_000_000 % 10**6:06d}-"))
        if window is not None:
            # A third of the load shows what is without the profiler, before its first call.
            await asyncio.wait({loading}, timeout=asks[-1].at_ns / 3e9)
            await window.record(asked.url, None if asked.profile_dir is None else str(asked.profile_dir.resolve()))
        await loading
        ended = [one.id for one in client.sent if one.error is None]
        missing = await receiver.wait(set(ended), _SPANS_S)
        scraping.cancel()
        with suppress(asyncio.CancelledError):
            await scraping
    finally:
        await receiver.close()
    (asked.output / "client.json").write_text(json.dumps([one.as_dict() for one in client.sent]), encoding="utf-8")
    if asked.log is not None:
        _tail(asked.log, began, asked.output / "iterations.log")
    for path in sorted(_traces(asked.profile_dir) - there):
        shutil.copyfile(path, asked.output / path.name)
    return Left(client.sent, receiver, window, _scrapes(asked.output / "metrics.prom"), missing)


def _nobody(_: Sent) -> None:
    """Nobody counts messages without a window."""


async def _model(url: http.Url) -> str:
    """The first model that the server has."""
    try:
        async with http.asked(url.at("/v1/models")) as answer:
            said = json.loads(await answer.body())
        return str(said["data"][0]["id"])
    except (OSError, http.Refused) as error:
        raise ValueError(f"nothing answers at {url}: {error}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{url}/v1/models names no model: --model does") from error


async def _scrape(url: http.Url, path: Path) -> None:
    """The server's figures once a second, each time with its moment; nothing where it has none."""
    while True:
        try:
            async with http.asked(url.at("/metrics")) as answer:
                body = await answer.body()
                status = answer.status
        except (OSError, http.Refused):
            status, body = 0, b""
        if status == 404:
            return
        if status == 200 and body.startswith(b"#"):
            with path.open("ab") as file:
                file.write(f"# scraped_at_ns {time.time_ns()}\n".encode() + body.rstrip(b"\n") + b"\n")
        await asyncio.sleep(_SCRAPE_S)


def _scrapes(path: Path) -> int:
    return path.read_bytes().count(b"# scraped_at_ns ") if path.exists() else 0


def _traces(folder: Path | None) -> set[Path]:
    """What a profiler has written by now. vLLM's front end has a trace of its own, which is none of the engine's."""
    found = () if folder is None else folder.rglob("*.json*")
    return {path for path in found if path.is_file() and ".async_llm." not in path.name}


def _tail(log: Path, began: int, target: Path) -> None:
    """The lines of iterations that the log got since; one that was cut and begun anew is taken whole."""
    size = log.stat().st_size
    with log.open("rb") as file, target.open("wb") as out:
        file.seek(began if size >= began else 0)
        for line in file:
            if b"Iteration(" in line:
                out.write(line)
    if not target.stat().st_size:
        target.unlink()


def _told(asked: Asked, left: Left) -> dict[str, Any]:
    """What came of it, and what is missing and why."""
    failed = [one for one in left.sent if one.error is not None]
    done = len(left.sent) - len(failed)
    notices: list[dict[str, Any]] = []

    def notice(name: str, values: dict[str, Any]) -> None:
        notices.append({"name": name, "values": values})

    if failed:
        notice("serve_failed_requests", {"failed": len(failed), "of": len(left.sent), "reason": failed[0].error})
    if left.receiver.grpc:
        notice("serve_spans_by_grpc", {})
    elif not left.receiver.exports:
        notice("serve_no_spans", {"port": asked.port})
    elif left.without_spans and done:
        notice("serve_spans_missing", {"missing": left.without_spans, "of": done})
    if not (asked.output / "iterations.log").exists():
        notice("serve_no_iterations", {})
    late = max((one.late_ns for one in left.sent), default=0)
    found: Cost | None = None
    if left.window is not None:
        found = cost(left.window, left.sent)
        if left.window.reason:
            notice("serve_window", {"reason": left.window.reason})
    status = "failed" if not done else "partial" if failed or (left.window and not found) else "complete"
    return {
        "status": status, "reason": failed[0].error if failed and not done else "", "url": str(asked.url),
        "requests": len(left.sent), "done": done, "late_ns": late, "exports": left.receiver.exports,
        "scrapes": left.scrapes, "files": sorted(path.name for path in asked.output.iterdir()),
        "window": None if found is None or left.window is None else {
            "iterations": left.window.iterations, "start_ns": left.window.start_ns, "end_ns": left.window.stop_ns,
        },
        "cost": None if found is None else found.as_dict(), "notices": notices,
    }  # fmt: skip
