"""Runs and nights as spans: what a receiver gets, decoded by the official classes of the protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import judged
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.app.cli import main
from npulens.app.nightly.journal import Journal
from npulens.app.nightly.night import NAME as NIGHT

trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("otlp")
    ingest.load(judged.capture(directory / "trace.json", "gemm"), directory / "store", label="night")
    judged.folder(directory)
    return directory


class Receiver(BaseHTTPRequestHandler):
    """Takes what OTLP over HTTP sends; ``got`` is all of it, ``status`` what it answers."""

    got: list[Any] = []
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        self.got.append(trace_service.ExportTraceServiceRequest.FromString(body))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(trace_service.ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[str]:
    Receiver.got, Receiver.status = [], 200
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def spans() -> list[Any]:
    return [span for request in Receiver.got for one in request.resource_spans
            for scope in one.scope_spans for span in scope.spans]  # fmt: skip


def about(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def export(place: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.chdir(place)  # where npulens.toml lies
    return CliRunner().invoke(main, ["export", *words, "--store", str(place / "store"), "--json"])


def test_a_run_reaches_a_receiver(place: Path, receiver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = export(place, monkeypatch, "night", "--otlp", receiver)
    assert done.exit_code == 0, done.output
    found = spans()
    assert json.loads(done.stdout)["spans"] == len(found)
    ids = {span.span_id: span for span in found}
    assert len(ids) == len(found) and len({span.trace_id for span in found}) == 1
    (root,) = [span for span in found if not span.parent_span_id]
    assert root.name == "night" and len(root.trace_id) == 16 and len(root.span_id) == 8
    for span in found:
        if span is not root:
            parent = ids[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    steps = sorted((span for span in found if "npulens.step" in about(span)), key=lambda one: one.start_time_unix_nano)
    assert len(steps) == judged.STEPS and all(ids[step.parent_span_id].name == "rank 0" for step in steps)
    assert [b.start_time_unix_nano - a.start_time_unix_nano for a, b in zip(steps, steps[1:], strict=False)] == [
        judged.STEP_NS
    ] * (judged.STEPS - 1)
    assert about(steps[0])["npulens.computing_ns"] == 40_000
    windows = [span for span in found if "npulens.finding" in about(span)]
    assert len(windows) == judged.STEPS
    assert {span.end_time_unix_nano - span.start_time_unix_nano for span in windows} == {judged.OPERATOR_NS}
    assert about(windows[0])["npulens.cause"] == "slow_tail" and about(windows[0])["npulens.saving_ns"] == 40_000


def test_a_file_is_one_message_and_twice_the_same(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.pb", "b.pb"):
        assert export(place, monkeypatch, "night", "--otlp", str(tmp_path / name)).exit_code == 0
    whole = (tmp_path / "a.pb").read_bytes()
    assert whole == (tmp_path / "b.pb").read_bytes()
    assert trace_service.ExportTraceServiceRequest.FromString(whole).resource_spans
    redacted = export(place, monkeypatch, "night", "--redact", "--otlp", str(tmp_path / "c.pb"))
    assert redacted.exit_code == 0 and (tmp_path / "c.pb").stat().st_size


def test_what_cannot_be_sent_is_one_sentence(place: Path, receiver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Receiver.status = 503
    refused = export(place, monkeypatch, "night", "--otlp", receiver)
    assert refused.exit_code == 2 and "the receiver took no spans: HTTP 503" in refused.stderr
    nobody = export(place, monkeypatch, "night", "--otlp", "http://127.0.0.1:1")
    assert nobody.exit_code == 2 and "the receiver took no spans" in nobody.stderr
    nowhere = export(place, monkeypatch, "night", "--otlp", str(place / "no" / "a.pb"))
    assert nowhere.exit_code == 2 and "Traceback" not in nowhere.output
    assert export(place, monkeypatch, "night").exit_code == 2


def test_a_night_has_its_steps_and_what_it_told(place: Path, receiver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place / "lab" / "2026-11-26"
    folder.mkdir(parents=True)
    facts, second = Journal(folder / "journal.jsonl"), 10**9
    facts.add({"what": "night", "label": folder.name, "at_ns": 0, "clock_ns": 100 * second})
    facts.add({"what": "begin", "step": "train/1", "clock_ns": 101 * second})
    facts.add({"what": "step", "step": "train/1", "clock_ns": 111 * second, "ok": True})
    facts.add({"what": "begin", "step": "train/2", "clock_ns": 112 * second})  # the night died in it
    facts.add({"what": "end", "clock_ns": 130 * second})
    row = {"task": "train", "identity": "x", "where": "", "metric": "step_ns", "unit": "ns", "better": "lower",
           "by": "history", "verdict": "regressed", "value": 110.0, "ratio": 1.1, "fresh": True}  # fmt: skip
    told = {"name": "lab", "label": folder.name, "at_ns": 0, "began": "1970-01-01T00:01:40+00:00",
            "ended": "1970-01-01T00:02:10+00:00", "seconds": 30, "budget_s": 60, "tasks": [],
            "rows": [row]}  # fmt: skip
    (folder / NIGHT).write_text(json.dumps(told), "utf-8")
    done = export(place, monkeypatch, str(folder), "--otlp", receiver)
    assert done.exit_code == 0, done.output
    root, step = spans()
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (100 * second, 130 * second)
    assert (step.name, step.start_time_unix_nano, step.end_time_unix_nano) == ("train/1", 101 * second, 111 * second)
    assert step.parent_span_id == root.span_id and about(step)["npulens.ok"] is True
    (event,) = root.events
    assert event.name == "regressed" and about(event)["npulens.metric"] == "step_ns"
    assert about(root)["npulens.outcome"] == "regressed"
    empty = export(place, monkeypatch, str(place / "own") + "/", "--otlp", receiver)
    assert empty.exit_code == 2 and "the folder holds no night" in empty.stderr
