"""Files of a serving run that come later: the run is made again of its kept captures and of what came."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.ingest.loading.mend import remade
from npulens.ingest.store import raw, runs

SENT = 1_795_000_000_000_000_000
MS = 10**6


def spans(path: Path, many: int = 3) -> Path:
    """Requests as vLLM tells of them: arrival 1 ms after sending, 30 ms until the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        for at in range(many):
            begin = SENT + at * 100 * MS + MS
            attributes: list[dict[str, Any]] = [
                {"key": "gen_ai.request.id", "value": {"stringValue": f"cmpl-r{at}-0"}},
                {"key": "gen_ai.usage.prompt_tokens", "value": {"intValue": "7"}},
                {"key": "gen_ai.usage.completion_tokens", "value": {"intValue": "2"}},
                {"key": "gen_ai.latency.time_to_first_token", "value": {"doubleValue": 0.01}},
                {"key": "gen_ai.latency.e2e", "value": {"doubleValue": 0.03}},
            ]
            span = {
                "traceId": f"{at:032x}", "spanId": f"{at + 1:016x}", "name": "llm_request", "kind": 2,
                "startTimeUnixNano": str(begin), "endTimeUnixNano": str(begin + 30 * MS), "attributes": attributes,
            }  # fmt: skip
            out.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n")
    return path


def client(path: Path, many: int = 3) -> Path:
    """The same requests as their client saw them: tokens after 12 and 32 ms."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for at in range(many):
        sent = SENT + at * 100 * MS
        rows.append({"id": f"r{at}", "prompt": 7, "max_tokens": 2, "send_ns": sent,
                     "tok_ns": [sent + 12 * MS, sent + 32 * MS], "end_ns": sent + 33 * MS})  # fmt: skip
    path.write_text(json.dumps(rows))
    return path


def only(report: ingest.LoadReport) -> str:
    (run,) = report.runs
    assert run.run_id is not None, run.reason
    return run.run_id


def sources(store: Path, run_id: str) -> list[tuple[str, str]]:
    con = runs.open_run(store, run_id)
    return con.execute("SELECT request_id, source FROM request ORDER BY ALL").fetchall()


def test_what_comes_later_gives_the_run_that_all_at_once_would(tmp_path: Path) -> None:
    otlp, results = spans(tmp_path / "in" / "otlp.jsonl"), client(tmp_path / "in" / "client.json")
    first = only(ingest.load(otlp, tmp_path / "store", label="monday"))
    joined = only(ingest.load(results, tmp_path / "store", join="monday"))
    assert sources(tmp_path / "store", joined) == [(f"r{at}", "otlp, client") for at in range(3)]
    assert joined == only(ingest.load([otlp, results], tmp_path / "at_once"))
    assert sources(tmp_path / "store", first) == [(f"r{at}", "otlp") for at in range(3)]  # it stays as it was
    assert runs.resolve(tmp_path / "store", joined).label == "monday (2)"
    again = ingest.load(results, tmp_path / "store", join=first).runs[0]
    assert (again.run_id, again.stored) == (joined, "exists")


def test_it_does_not_matter_where_the_later_files_lie_or_that_some_come_again(tmp_path: Path) -> None:
    first = only(ingest.load(spans(tmp_path / "a" / "otlp.jsonl"), tmp_path / "store"))
    shutil.copy(tmp_path / "a" / "otlp.jsonl", tmp_path / "copied.jsonl")
    results = client(tmp_path / "b" / "c" / "client.json")
    joined = only(ingest.load([results, tmp_path / "copied.jsonl"], tmp_path / "store", join=first))
    assert sources(tmp_path / "store", joined) == [(f"r{at}", "otlp, client") for at in range(3)]
    assert runs.open_run(tmp_path / "store", joined).execute("SELECT count(*) FROM request").fetchall() == [(3,)]


def test_two_files_of_one_name_are_both_read(tmp_path: Path) -> None:
    first = only(ingest.load(spans(tmp_path / "a" / "told"), tmp_path / "store"))
    joined = only(ingest.load(client(tmp_path / "b" / "told"), tmp_path / "store", join=first))
    assert sources(tmp_path / "store", joined) == [(f"r{at}", "otlp, client") for at in range(3)]


def test_a_joined_run_is_made_again_of_what_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = only(ingest.load(spans(tmp_path / "in" / "otlp.jsonl"), store))
    joined = only(ingest.load(client(tmp_path / "in" / "client.json"), store, join=first))
    before = sources(store, joined)
    shutil.rmtree(tmp_path / "in")
    table = store / joined / "request.parquet"
    table.write_bytes(table.read_bytes()[:-7])
    assert remade(store, joined, "damaged") is None
    assert sources(store, joined) == before
    assert len(raw.captures(store, joined)) == 2


def test_without_its_captures_the_run_says_what_to_do(tmp_path: Path) -> None:
    first = only(ingest.load(spans(tmp_path / "in" / "otlp.jsonl"), tmp_path / "store", raw=raw.OFF))
    with pytest.raises(ingest.IngestError, match=f"captures of {first} were not kept.*load all of its files"):
        ingest.load(client(tmp_path / "in" / "client.json"), tmp_path / "store", join=first)


def test_a_damaged_capture_is_no_capture(tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = only(ingest.load(spans(tmp_path / "in" / "otlp.jsonl"), store))
    (blob,) = (store / raw.FOLDER).glob("*.zst")
    blob.write_bytes(b"no")
    with pytest.raises(ingest.IngestError, match="otlp.jsonl"):
        ingest.load(client(tmp_path / "in" / "client.json"), store, join=first)
