"""Captures come in: by a link, by curl with a token, in a queue, over two servers; refusals explain themselves."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import archives_made
import hostile_capture
import pytest
from streamlit.testing.v1 import AppTest
from test_upload import call

from npulens.app.context import Context
from npulens.app.intake import drop_folders, invitations, load_queue, signed_tokens, tray
from npulens.app.intake.load_queue import Outcome
from npulens.app.intake.signed_tokens import Refused
from npulens.app.intake.visitor_drops import Ended
from npulens.app.text import i18n
from npulens.ingest.store import runs as stores

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that the routes serve."""
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def capture(path: Path, world: int = 4) -> bytes:
    hostile_capture.write(path)
    return path.read_bytes().replace(b'"world_size": 4', b'"world_size": %d' % world)


def elsewhere(place: Path, program: str) -> str:
    """What a process of its own prints: another server over the same store."""
    command = [sys.executable, "-c", "import sys; from pathlib import Path; place = Path(sys.argv[1])\n" + program]
    done = subprocess.run([*command, str(place)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_secret_is_the_owners_alone_and_made_once(place: Path) -> None:
    mint = "from npulens.app.intake import invitations; print(invitations.mint(place, 1, 1, 10, 1)[0])"
    token = elsewhere(place, mint)
    secret = place / ".secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    before = secret.read_bytes()
    assert invitations.ticket(place, token).bytes == 10, "a token of one process is good in every other"
    assert elsewhere(place, mint) and secret.read_bytes() == before
    signed_tokens.revoke(place)
    with pytest.raises(Refused, match="bad_token"):
        invitations.ticket(place, token)


def test_a_token_of_another_store_or_kind_opens_nothing(place: Path, tmp_path: Path) -> None:
    foreign, _ = invitations.mint(tmp_path / "other", 1, 1, 10, 1)
    of_a_drop, given = drop_folders.grant(place, 1, 10)
    mine, _ = invitations.mint(place, 1, 1, 10, 1)
    for token in (foreign, of_a_drop, mine[:-1], mine + "A", "", "é"):
        with pytest.raises(Refused, match="bad_token"):
            invitations.ticket(place, token)
    with pytest.raises(Refused, match="bad_token"):
        drop_folders.admit(place, mine)
    drop_folders.discard(given)


def test_a_ticket_ends_with_its_hours(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, given = invitations.mint(place, 1, 1, 10, 0.5)
    now = time.time
    monkeypatch.setattr(invitations.time, "time", lambda: now() + 1801)
    with pytest.raises(Refused, match="ticket_over"):
        invitations.ticket(place, token)


@pytest.mark.parametrize(
    ("captures", "files", "size", "hours"),
    [(0, 1, 1, 1), (2, 1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0), (1, 10**9, 1, 1), (1, 1, 10**15, 1), (1, 1, 1, 9e9)],
)
def test_a_ticket_may_not_allow_more_than_the_server(captures: int, files: int, size: int, hours: float) -> None:
    with pytest.raises(Refused, match="bad_ticket"):
        invitations.mint(Path("/nonexistent"), captures, files, size, hours)


def test_a_ticket_is_counted_once_by_many_at_a_time(place: Path) -> None:
    _, given = invitations.mint(place, 5, 100, 100, 1)
    passed: list[int] = []

    def spend() -> None:
        try:
            invitations.spend(place, given, 1, 1)
            passed.append(1)
        except Refused as refused:
            assert refused.key == "ticket_used"

    threads = [threading.Thread(target=spend) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 5 and invitations.left(place, given) == (0, 95, 95)
    invitations.give_back(place, given, 1, 1)
    assert invitations.left(place, given) == (1, 96, 96)


def test_a_drop_granted_by_one_server_arrives_at_another(place: Path) -> None:
    program = "from npulens.app.intake import drop_folders; print(drop_folders.grant(place, 1, 3)[0])"
    token = elsewhere(place, program)
    assert call("PUT", "/api/upload/file?path=a", token, [b"abc"])[0] == 200
    assert call("POST", "/api/upload/done", token, [])[0] == 200
    [count] = (place / drop_folders.FOLDER).glob("*.count")
    given = drop_folders.Grant(count.stem, count.with_suffix(""), 1, 3)
    assert given.whole and given.closed and given.capture.read_bytes() == b"abc"


def test_curl_loads_and_is_told_the_run(place: Path, tmp_path: Path) -> None:
    token, given = invitations.mint(place, 2, 2, 10**6, 1)
    status, body = call("PUT", "/api/upload/capture/big%20one.json", token, [capture(tmp_path / "x")])
    said = json.loads(body)
    run = stores.runs(place)[0]
    assert (status, said["run_id"], said["status"]) == (200, run.run_id, "complete")
    assert said["url"].endswith(f"/?run={run.run_id}") and said["error"] is None
    assert run.label == said["runs"][0]["label"] == "big one.json"
    assert invitations.left(place, given)[:2] == (1, 1)


def test_curl_sends_an_archive(place: Path, tmp_path: Path) -> None:
    trace = capture(tmp_path / "x")
    packed = archives_made.tar_of(tmp_path / "a.tgz", [("job/t.json", trace), ("job/notes.txt", b"x")], "w:gz")
    token, _ = invitations.mint(place, 2, 2, 10**6, 1)
    status, body = call("PUT", "/api/upload/capture/job.tgz", token, [packed.read_bytes()])
    said = json.loads(body)
    assert (status, said["status"], [run["label"] for run in said["runs"]]) == (200, "complete", ["job.tgz"])
    bomb = archives_made.gzip_bomb(tmp_path / "b.gz", 90).read_bytes()
    status, body = call("PUT", "/api/upload/capture/b.gz", token, [bomb])
    said = json.loads(body)
    assert (status, said["runs"][0]["error"]["kind"]) == (422, "archive_bomb") and str(place) not in body.decode()
    assert not any((place / ".staging").iterdir()) and not any((place / drop_folders.FOLDER).glob("*.count"))


def test_what_nobody_can_read_is_422_and_does_not_use_up_the_ticket_but_its_bytes(place: Path) -> None:
    token, given = invitations.mint(place, 1, 1, 100, 1)
    status, body = call("PUT", "/api/upload/capture/poem.json", token, [b"no capture"])
    said = json.loads(body)
    assert (status, said["run_id"], said["status"], said["url"]) == (422, None, "refused", None)
    assert said["runs"][0]["error"]["kind"] == "unknown_format" and "poem.json" in said["error"]
    assert str(place) not in body.decode()
    assert invitations.left(place, given) == (1, 1, 90)


def test_a_spent_ticket_is_refused_in_a_sentence_and_takes_nothing(place: Path, tmp_path: Path) -> None:
    token, given = invitations.mint(place, 1, 1, 10**6, 1)
    assert call("PUT", "/api/upload/capture/a", token, [capture(tmp_path / "x")])[0] == 200
    status, body = call("PUT", "/api/upload/capture/b", token, [b"1"])
    assert status == 403 and json.loads(body)["refused"] == "ticket_used"
    assert "Ask for a new one" in json.loads(body)["message"]
    small, _ = invitations.mint(place, 1, 1, 3, 1)
    assert call("PUT", "/api/upload/capture/b", small, [b"1234"])[0] == 413
    assert [path for path in (place / drop_folders.FOLDER).iterdir() if path.is_dir()] == []


def test_a_broken_capture_may_come_again(place: Path) -> None:
    token, given = invitations.mint(place, 1, 1, 100, 1)
    assert call("PUT", "/api/upload/capture/a", token, [b"12"], length=5)[0] == 400
    assert call("PUT", "/api/upload/capture/..", token, [b"12"])[0] == 400
    assert invitations.left(place, given) == (1, 1, 100)
    assert [path for path in (place / drop_folders.FOLDER).iterdir() if path.is_dir()] == []


def test_more_loads_than_places_wait_their_turn_and_all_end(place: Path, tmp_path: Path) -> None:
    loads = []
    for world in range(2, 2 + load_queue.AT_ONCE + 2):
        _, given = drop_folders.grant(place, 1, 10**6)
        (given.folder / "trace.json").write_bytes(capture(tmp_path / "x", world))
        loads.append(load_queue.submit(load_queue.Load(given, place, "trace.json")))
    assert any(load.waiting for load in loads)
    loads[-1].stop()
    assert all(load.done.wait(120) for load in loads)
    assert [bool((load.outcome() or Outcome((), "")).run_ids) for load in loads] == [True] * (len(loads) - 1) + [False]
    names = sorted(run.label or "" for run in stores.runs(place))
    assert names == ["trace.json", "trace.json (2)", "trace.json (3)"]


@pytest.mark.parametrize("broken", ["ready", "discard"])
def test_the_queue_goes_on_when_the_machine_has_nothing_left_for_a_moment(
    broken: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(load_queue, broken, short)
    for _ in range(load_queue.AT_ONCE + 1):
        assert came(place, tmp_path).run_ids


def test_a_defect_of_one_load_is_told_and_the_next_one_comes(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(load_queue, "_take", wrong)
        for _ in range(load_queue.AT_ONCE):
            assert came(place, tmp_path).error == "a defect"
    assert came(place, tmp_path).run_ids


def came(place: Path, tmp_path: Path) -> Outcome:
    _, given = drop_folders.grant(place, 1, 10**6)
    (given.folder / "trace.json").write_bytes(capture(tmp_path / "x"))
    load = load_queue.submit(load_queue.Load(given, place, "trace.json"))
    assert load.done.wait(60)
    return load.outcome() or Outcome((), "no outcome")


def test_every_refusal_has_what_it_is_and_what_to_do_in_both_languages(tmp_path: Path) -> None:
    kinds = {key.removeprefix("upload.kind_") for key in i18n.texts() if key.startswith("upload.kind_")}
    assert {f"upload.remedy_{kind}" for kind in kinds} <= set(i18n.texts())
    for lang in i18n.LANGUAGES:
        ctx = Context(lang, tmp_path, (), None, None)
        for kind in kinds:
            run = {"run_id": None, "error": {"kind": kind, "message": "the very words", "path": "x\u202e.zip"}}
            row = Ended("1", "drop", "refused", run)
            said = "\n".join(tray.lines(ctx, row))
            assert i18n.say(lang, f"upload.remedy_{kind}") in said and "the very words" not in said, "said twice"
            assert "the very words" in tray.detail(ctx, row) and "\u202e" not in said


def courier_page() -> None:
    import streamlit as st

    from npulens.app.intake import courier_page as courier

    courier.show(st.query_params["drop"])


@pytest.fixture
def some_run(place: Path, tmp_path: Path) -> Iterator[str]:
    from npulens import ingest

    (tmp_path / "trace.json").write_bytes(capture(tmp_path / "x"))
    ingest.load(tmp_path / "trace.json", place, label="the secret project")
    yield "the secret project"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_colleague_sees_what_may_come_and_nothing_else(lang: str, place: Path, some_run: str) -> None:
    token, given = invitations.mint(place, 1, 50, 10**9, 1)
    page = AppTest.from_function(courier_page, default_timeout=60)
    page.query_params["drop"], page.query_params["lang"] = token, lang
    page.run()
    assert not page.exception
    shown = "\n".join(element.value for element in page.text)
    assert "1 GB" in shown and some_run not in shown and not page.dataframe
    page.query_params["drop"] = "forged"
    page.run()
    assert [element.value for element in page.text] == [i18n.say(lang, "upload.bad_token")]
    invitations.spend(place, given, 1, 1)
    page.query_params["drop"] = token
    page.run()
    assert [element.value for element in page.text] == [i18n.say(lang, "upload.ticket_used")]


def test_the_command_line_mints_the_very_curl_command(place: Path) -> None:
    command = [sys.executable, "-m", "npulens.app.cli", "token", "--store", str(place), "--files", "3", "--hours", "2",
               "--bytes", "1000", "--url", "http://npu-box:8501/", "--json"]  # fmt: skip
    said = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert said["curl"] == (
        f"curl -T CAPTURE -H '{invitations.TOKEN_HEADER}: {said['token']}' http://npu-box:8501/api/upload/capture/"
    )
    assert said["link"] == f"http://npu-box:8501/?drop={said['token']}"
    given = invitations.ticket(place, said["token"])
    assert (given.captures, given.files, given.bytes) == (3, 3, 1000) and 7190 < given.until - time.time() < 7210
    refused = subprocess.run([*command, "--hours", "99999"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "744 hours" in refused.stderr
