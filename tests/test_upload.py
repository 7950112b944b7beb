"""Uploads and the loads that follow: only granted files arrive, whole, in their folder, and nothing of them stays."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import hostile_capture
import pytest
from starlette.applications import Starlette

from npulens.app.intake import drop_folders, http_upload, invitations, load_queue
from npulens.app.intake.signed_tokens import Refused
from npulens.app.text import i18n
from npulens.ingest.store import runs

Headers = list[tuple[bytes, bytes]]


def call(method: str, target: str, token: str, pieces: list[bytes], length: int | None = None,
         silent: bool = False) -> tuple[int, bytes]:  # fmt: skip
    """One request against the routes, its body in pieces; the status and body of the answer."""
    path, _, query = target.partition("?")
    announced = sum(map(len, pieces)) if length is None else length
    shown = invitations.TOKEN_HEADER.lower().encode()
    headers: Headers = [(shown, token.encode()), (b"content-length", b"%d" % announced)]
    scope = {"type": "http", "method": method, "path": unquote(path), "raw_path": path.encode(),
             "query_string": query.encode(),
             "headers": headers, "http_version": "1.1", "scheme": "http", "root_path": ""}  # fmt: skip
    waiting = iter(pieces if silent else [*pieces, b""])
    answer: dict[str, object] = {"body": b""}

    async def receive() -> dict[str, object]:
        piece = next(waiting, None)
        if piece is None and silent:
            await asyncio.sleep(3600)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": piece != b""}

    async def send(message: Mapping[str, object]) -> None:
        answer.update(message)

    asyncio.run(Starlette(routes=http_upload.routes())(scope, receive, send))
    return int(str(answer["status"])), bytes(answer["body"])  # type: ignore[call-overload]


@pytest.fixture(autouse=True)
def _served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store whose routes are asked."""
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path))


@pytest.fixture
def granted(tmp_path: Path) -> Iterator[tuple[str, drop_folders.Grant]]:
    """A grant for two files of ten bytes together."""
    token, given = drop_folders.grant(tmp_path, 2, 10)
    yield token, given
    drop_folders.discard(given)


def test_a_drop_arrives_byte_for_byte_and_its_token_ends(granted: tuple[str, drop_folders.Grant]) -> None:
    token, given = granted
    assert call("PUT", "/api/upload/file?path=cap/a%20b.json", token, [b"123", b"456"])[0] == 200
    assert call("POST", "/api/upload/done", token, [])[0] == 409
    assert call("PUT", "/api/upload/file?path=cap/sub/c.csv", token, [b"7890"])[0] == 200
    assert call("POST", "/api/upload/done", token, [])[0] == 200
    assert (given.folder / "cap" / "a b.json").read_bytes() == b"123456"
    assert (given.folder / "cap" / "sub" / "c.csv").read_bytes() == b"7890"
    assert given.capture == given.folder / "cap"
    assert call("PUT", "/api/upload/file?path=late", token, [b""])[0] == 403


@pytest.mark.parametrize("token", ["", "forged", "ImFiYyI.aaaa.bbbb"])
def test_nobody_uploads_without_a_signed_token(token: str, granted: tuple[str, drop_folders.Grant]) -> None:
    assert call("PUT", "/api/upload/file?path=a", token, [b"1"])[0] == 403
    assert not list(granted[1].folder.iterdir())


@pytest.mark.parametrize(
    "path",
    ["", "..%2F..%2Fevil", "%2Fetc%2Fpasswd%00", "a%2F..%2Fb", "a%0Ab", "%5C..%5Cevil", "x" * 300, "a%2F" * 40 + "b"],
)
def test_a_path_stays_within_the_drop(path: str, granted: tuple[str, drop_folders.Grant]) -> None:
    token, given = granted
    assert call("PUT", f"/api/upload/file?path={path}", token, [b"1"])[0] == 400
    assert not list(given.folder.rglob("*")) and given.arrived == (0, 0)


def test_an_absolute_path_lands_inside(granted: tuple[str, drop_folders.Grant]) -> None:
    token, given = granted
    assert call("PUT", "/api/upload/file?path=/etc/passwd", token, [b"1"])[0] == 200
    assert (given.folder / "etc" / "passwd").read_bytes() == b"1"


def test_more_than_was_announced_is_refused(granted: tuple[str, drop_folders.Grant]) -> None:
    token, given = granted
    assert call("PUT", "/api/upload/file?path=a", token, [b"x" * 11])[0] == 413
    assert call("PUT", "/api/upload/file?path=a", token, [b"x" * 9], length=3)[0] == 400
    assert not list(given.folder.iterdir()) and given.arrived == (0, 0)


def test_a_broken_file_leaves_nothing_and_may_come_again(granted: tuple[str, drop_folders.Grant]) -> None:
    token, given = granted
    assert call("PUT", "/api/upload/file?path=a", token, [b"xx"], length=5)[0] == 400
    assert not list(given.folder.iterdir())
    assert call("PUT", "/api/upload/file?path=a", token, [b"xxxxx"])[0] == 200
    assert call("PUT", "/api/upload/file?path=a", token, [b"yyyyy"])[0] == 409
    assert (given.folder / "a").read_bytes() == b"xxxxx"


@pytest.mark.parametrize(
    ("files", "size", "key"), [(0, 0, "nothing"), (10**6, 5, "too_many_files"), (1, 10**15, "too_large")]
)
def test_a_grant_is_refused_with_a_sentence(files: int, size: int, key: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        drop_folders.grant(tmp_path, files, size)
    assert refused.value.key == key and i18n.known(f"upload.{key}")


def test_the_routes_hang_below_a_base_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_upload.config, "get_option", {"server.baseUrlPath": "/team/npulens/"}.get)
    assert [route.path for route in http_upload.routes()] == [
        f"/team/npulens/api/upload/{end}" for end in ("file", "done", "capture/{name:path}")
    ]


def test_a_token_without_traffic_ends(granted: tuple[str, drop_folders.Grant]) -> None:
    token, given = granted
    long_ago = time.time() - drop_folders.IDLE_S - 1
    os.utime(given.folder.with_name(f"{given.id}.count"), (long_ago, long_ago))
    assert call("PUT", "/api/upload/file?path=a", token, [b"1"])[0] == 403


def test_an_upload_that_falls_silent_is_over_and_leaves_nothing(
    granted: tuple[str, drop_folders.Grant], monkeypatch: pytest.MonkeyPatch
) -> None:
    token, given = granted
    alone = http_upload.team_file.current()
    monkeypatch.setattr(http_upload.team_file, "current", lambda: replace(alone, idle_s=1))
    assert call("PUT", "/api/upload/file?path=a", token, [b"123"], 10, silent=True)[0] == 408
    assert list(given.folder.iterdir()) == [] and given.arrived == (0, 0)


def test_an_upload_is_streamed_not_collected(tmp_path: Path) -> None:
    size, piece = 96_000_000, b"x" * 96_000
    token, given = drop_folders.grant(tmp_path, 1, size)
    tracemalloc.start()
    try:
        assert call("PUT", "/api/upload/file?path=big", token, [piece] * 1000)[0] == 200
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert (given.folder / "big").stat().st_size == size
        drop_folders.discard(given)
    assert peak < 12_000_000


def finished(load: load_queue.Load) -> load_queue.Outcome:
    assert load_queue.submit(load).done.wait(60), "the load did not end"
    outcome = load.outcome()
    assert outcome is not None
    return outcome


def test_an_uploaded_capture_is_loaded_by_a_child_and_removed(tmp_path: Path) -> None:
    _, given = drop_folders.grant(tmp_path, 1, 0)
    hostile_capture.write(given.folder / "trace.json")
    outcome = finished(load_queue.Load(given, tmp_path, "trace.json"))
    assert outcome.error is None
    assert [run.run_id for run in runs.runs(tmp_path)] == [outcome.runs[0]["run_id"]]
    assert list((tmp_path / drop_folders.FOLDER).iterdir()) == []
    assert runs.runs(tmp_path)[0].label == "trace.json", "a run that has no name is called after what was dropped"


def test_a_capture_nobody_knows_is_refused_with_its_reason(tmp_path: Path) -> None:
    _, given = drop_folders.grant(tmp_path, 1, 0)
    (given.folder / "poem.txt").write_text("no capture at all")
    outcome = finished(load_queue.Load(given, tmp_path, "poem.txt"))
    assert runs.runs(tmp_path) == []
    assert [run["run_id"] for run in outcome.runs] == [None]
    assert "poem.txt" in str(outcome.runs[0]) and str(tmp_path) not in str(outcome.runs[0])


@pytest.fixture
def spares(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The children that wait for a capture in this test; after a load there is one again."""
    mine: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(load_queue, "_spares", mine)
    yield mine
    for _ in range(200):
        if mine:
            break
        time.sleep(0.05)
    for spare in mine:
        assert spare.stdin is not None
        spare.stdin.close()
        spare.wait(20)


def test_a_spare_waits_is_used_and_ends_with_its_server(tmp_path: Path, spares: list[subprocess.Popen[bytes]]) -> None:
    load_queue.ready()
    load_queue.ready()
    [waiting] = spares
    _, given = drop_folders.grant(tmp_path, 1, 0)
    hostile_capture.write(given.folder / "t.json")
    load = load_queue.Load(given, tmp_path, "t.json")
    assert finished(load).run_ids and load.process is waiting
    load_queue.ready()
    [another] = spares
    assert another.pid != waiting.pid and another.stdin is not None and another.poll() is None
    another.stdin.close()
    assert another.wait(20) == 0


def test_a_spare_that_was_killed_is_not_asked(tmp_path: Path, spares: list[subprocess.Popen[bytes]]) -> None:
    load_queue.ready()
    spares[0].kill()
    spares[0].wait(20)
    _, given = drop_folders.grant(tmp_path, 1, 0)
    hostile_capture.write(given.folder / "t.json")
    assert finished(load_queue.Load(given, tmp_path, "t.json")).run_ids


@pytest.mark.usefixtures("spares")
def test_a_child_that_dies_is_a_sentence_not_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, given = drop_folders.grant(tmp_path, 1, 0)
    (given.folder / "a").write_text("")
    monkeypatch.setattr(load_queue.sys, "executable", "/bin/false")
    assert finished(load_queue.Load(given, tmp_path, "a")).error == "exit status 1"
