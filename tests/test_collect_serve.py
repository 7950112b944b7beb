"""`npulens collect serve` against the engine without a device, over HTTP on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis.serving.parts import pieces_of
from npulens.analysis.serving.recorded import iterations, members, requests
from npulens.app.cli import main
from npulens.collectors.serving import http
from npulens.collectors.serving.engine import Setup
from npulens.collectors.serving.http import Url
from npulens.collectors.serving.load import mooncake, prompt
from npulens.collectors.serving.receiver import Receiver, _unpacked
from npulens.ingest.store import runs
from tests.serving.live import Engine
from tests.test_serving_formats import protobuf

#: Iterations of some ms, so that a load takes a second.
FAST = Setup(base_ns=3e6, context_ns=2e5, context_token_ns=1e4, decoder_ns=1e5, scatter=0.05, front_ns=0)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def running(make: Callable[[], Any]) -> Iterator[None]:
    """A coroutine on a loop and thread of its own, until it is no longer needed."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(make())

    def go() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            return

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


@contextmanager
def serving(folder: Path, export_s: float = 0.0) -> Iterator[tuple[str, int, Engine]]:
    """A server's address, the port that it sends spans to, and its engine."""
    folder.mkdir(exist_ok=True)
    (folder / "server.log").write_text("INFO 11-27 01:00:00 [x.py:1] Application startup complete.\n")
    port, spans = free_port(), free_port()
    engine = Engine(FAST, folder, Url.parse(f"http://127.0.0.1:{spans}/v1/traces"), export_s)
    with running(lambda: engine.run(port)):
        yield f"http://127.0.0.1:{port}", spans, engine


def collect(store: Path, *words: str) -> tuple[dict[str, Any], str, int]:
    """The answer, what is said beside it, and the status."""
    done = CliRunner().invoke(main, ["collect", "serve", *words, "--store", str(store), "--json"])
    return (json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}), done.stderr, done.exit_code


def spans(name: bytes) -> bytes:
    """An export of one request, which has this id."""
    return protobuf().replace(b"cmpl-r1-0", b"cmpl-" + name + b"-0").replace(b"\xbb" * 8, name * 4)


def test_a_window_and_all_files_become_one_run(tmp_path: Path) -> None:
    folder, home = tmp_path / "server", tmp_path / "bundle"
    with serving(folder, export_s=0.3) as (url, spans, engine):
        said, err, status = collect(
            tmp_path / "store", "--url", url, "-o", str(home), "--otlp-port", str(spans), "--rate", "40",
            "--requests", "40", "--prompt", "20:40", "--answer", "10:20", "--log", str(folder / "server.log"),
            "--profile", "30", "--profile-dir", str(folder),
        )  # fmt: skip
    assert (status, said["status"], said["done"], said["notices"]) == (0, "complete", 40, []), err
    assert {"client.json", "otlp.jsonl", "iterations.log", "metrics.prom"} <= set(said["files"])
    (run,) = said["runs"]
    with runs.open_run(tmp_path / "store", run["run_id"]) as con:
        found, iterated, who = requests(con), iterations(con), members(con)
        taken = pieces_of(con, [one.key for one in found])
    true = {one.asked.name: one for one in engine.every}
    assert {one.id for one in found} == set(true)
    for one in found:
        assert one.output_tokens == true[one.id].asked.output and one.prompt_tokens == true[one.id].asked.prompt
        assert one.send_ns is not None and one.arrival_ns is not None and one.arrival_ns >= one.send_ns
    logged = [one for one in iterated if one.number is not None]
    assert [(one.ctx_tokens, one.gen_requests) for one in logged] == [
        (sum(tokens for _, tokens in one.context), len(one.decoders)) for one in engine.iterations
    ]
    marked = sum(one.rank is not None for one in iterated)
    assert said["window"]["iterations"] == 30 <= marked < len(engine.iterations)
    assert len(who.request) and who.how == "counts"
    for one in found:
        assert sum(part.dur_ns for part in taken[one.key]) == one.done_ns - one.begin_ns
    cost = said["cost"]
    assert cost["export_ns"] >= 0.3e9 and cost["silence_ns"] >= 0.25e9 > cost["silence_without_ns"]
    assert 0 < cost["hurt"] <= 40


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with serving(tmp_path / "server") as (url, _, _):
        done = CliRunner().invoke(main, [
            "collect", "serve", "--url", url, "-o", str(tmp_path / "bundle"), "--otlp-port", str(free_port()),
            "--rate", "100", "--requests", "3", "--answer", "2", "--store", str(tmp_path / "store"), "--lang", "zh",
        ])  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "没有收到 span" in done.stdout and "没有迭代日志" in done.stdout


def test_a_trace_of_mooncake_is_sent_as_it_says(tmp_path: Path) -> None:
    rows = [(5000, 30, 3, [7]), (5100, 30, 4, [7]), (5020, 600, 2, [7, 8])]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(
        json.dumps({"timestamp": at, "input_length": tokens, "output_length": answer, "hash_ids": hashes}) + "\n"
        for at, tokens, answer, hashes in rows
    ))  # fmt: skip
    asks = mooncake(path, None, 2.0)
    assert [(one.at_ns, one.prompt, one.output) for one in asks] == [
        (0, 30, 3), (10_000_000, 600, 2), (50_000_000, 30, 4),
    ]  # fmt: skip
    first, second, third = (prompt(one, number, 0, 2048) for number, one in enumerate(asks))
    assert first == third == second[:30] and len(second) == 600  # the same hash is the same text
    assert len(str(prompt(asks[0], 0, 0, None)).split()) == 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no requests"),
        ("{", "line 1: no JSON object"),
        ('{"timestamp": 1, "input_length": "9", "output_length": 1}', "input_length is no number"),
        ('{"timestamp": 1, "input_length": 9, "output_length": 1e99}', "output_length is no number"),
        ('{"timestamp": NaN, "input_length": 9, "output_length": 1}', "timestamp is no number"),
    ],
)
def test_a_trace_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "trace.jsonl").write_text(text)
    with pytest.raises(ValueError, match=said):
        mooncake(tmp_path / "trace.jsonl", None, 1.0)


def test_nobody_there_is_one_sentence(tmp_path: Path) -> None:
    _, err, status = collect(tmp_path / "store", "--url", f"http://127.0.0.1:{free_port()}", "-o",
                                str(tmp_path / "bundle"), "--otlp-port", str(free_port()))  # fmt: skip
    assert status == 2 and len(err.strip().splitlines()) == 1
    assert err.strip().startswith("npulens: nothing answers at http://127.0.0.1")


@pytest.mark.parametrize("packed", [False, True])
def test_exports_of_protobuf_are_kept_and_others_refused(tmp_path: Path, packed: bool) -> None:
    port = free_port()

    async def go() -> list[int]:
        receiver = Receiver(tmp_path)
        await receiver.open(port)
        statuses = []
        try:
            for body, kind in (
                (spans(b"a1"), "application/x-protobuf"), (spans(b"a2"), "application/x-protobuf"),
                (b"{broken", "application/json"), (b"\xff" * 9, "application/x-protobuf"), (b"x", "text/plain"),
            ):  # fmt: skip
                told = gzip.compress(body) if packed else body
                headers = {"Content-Type": kind, "Content-Encoding": "gzip"} if packed else {"Content-Type": kind}
                async with http.asked(Url.parse(f"127.0.0.1:{port}/v1/traces"), "POST", told, headers) as answer:
                    statuses.append(answer.status)
            assert await receiver.wait({"a1", "a2"}, 0.1) == 0
            assert await receiver.wait({"a3"}, 0.1) == 1
        finally:
            await receiver.close()
        return statuses

    assert asyncio.run(go()) == [200, 200, 400, 400, 415]
    if not packed:
        return  # what is kept is the same
    home = tmp_path / "only"
    home.mkdir()
    (tmp_path / "otlp.pb").rename(home / "otlp.pb")
    (run,) = ingest.load(home, tmp_path / "store").runs
    assert run.run_id is not None, run.reason
    with runs.open_run(tmp_path / "store", run.run_id) as con:
        assert [one.id for one in requests(con)] == ["a1", "a2"]


def test_a_bomb_within_an_export_is_refused() -> None:
    bomb = gzip.compress(b"\n" * (65 << 20), 1)
    assert _unpacked(http.Question("POST", "/v1/traces", {"content-encoding": "gzip"}, bomb)) is None
