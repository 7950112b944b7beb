"""Files of serving engines made by hand from what their formats say, for no real ones are at hand, and hostile ones."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from pathlib import Path
from typing import Any

import duckdb
import pytest

from npulens.analysis.serving.recorded import Request, iterations, members, requests
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import capture
from npulens.ingest.loading.parsing import put_together
from npulens.ingest.serving.join import join

#: 2026-11-23 06:00 UTC, in ns.
T0 = 1_795_413_600 * 10**9
MS = 10**6
SECRET = "tell me of the merger"


def loaded(tmp_path: Path, *files: tuple[str, bytes | str]) -> duckdb.DuckDBPyConnection:
    """One run of some files, read and joined as a load does it, in this process."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name, content in files:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    found = capture.find([folder])
    assert found.refused == () and len(found.sources) == len(files)
    parts = [put_together(each, tmp_path / f"part{at}", lambda done: None) for at, each in enumerate(found.sources)]
    joined = join(parts, [], tmp_path / "joined")
    assert joined is not None
    con = duckdb.connect()
    for path in Path(joined.directory).glob("*.parquet"):
        con.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
    con.execute("CREATE TABLE said(table_name VARCHAR, dropped BIGINT, reason VARCHAR)")
    for row in joined.coverage:
        con.execute("INSERT INTO said VALUES (?, ?, ?)", [row["table"], row["dropped"], row["reason"]])
    con.execute(f"CREATE TABLE origin AS SELECT {joined.origin_ns} AS ns")
    return con


def refused(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "file"
    path.write_bytes(content)
    found = capture.find([path])
    errors = list(found.refused)
    for at, source in enumerate(found.sources):
        with pytest.raises(IngestError) as error:
            put_together(source, tmp_path / f"part{at}", lambda done: None)
        errors.append(error.value)
    (said,) = {str(error.message) for error in errors}
    assert said and "\n" not in said
    return said


def attributes(said: dict[str, object]) -> list[dict[str, object]]:
    tags = {str: "stringValue", float: "doubleValue", int: "intValue"}
    return [{"key": key, "value": {tags[type(value)]: str(value) if type(value) is int else value}}
            for key, value in said.items()]  # fmt: skip


def span(name: str, ident: str, begin: int, end: int, trace: str = "aa" * 16, **more: Any) -> dict[str, Any]:
    return {"traceId": trace, "spanId": ident, "name": name, "startTimeUnixNano": str(begin),
            "endTimeUnixNano": str(end), **more}  # fmt: skip


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {"attributes": attributes({"service.name": "s"})},
                               "scopeSpans": [{"spans": list(spans)}]}]}  # fmt: skip


def answered(ident: str, begin: int, request: str = "r1", **more: object) -> dict[str, Any]:
    """A request of vLLM: 100 ms to the first token, then 9 more in 90 ms."""
    said: dict[str, object] = {
        "gen_ai.request.id": f"cmpl-{request}-0", "gen_ai.usage.prompt_tokens": 7,
        "gen_ai.usage.completion_tokens": 10, "gen_ai.latency.time_to_first_token": 0.1,
        "gen_ai.latency.time_in_model_decode": 0.09, "gen_ai.latency.time_in_queue": 0.02,
        "gen_ai.latency.time_in_model_prefill": 0.07, "gen_ai.latency.e2e": 0.19, **more,
    }  # fmt: skip
    return span("llm_request", ident, begin, begin + 190 * MS, trace=ident * 2, attributes=attributes(said), kind=2)


def one(con: duckdb.DuckDBPyConnection) -> Request:
    (found,) = requests(con)
    return found


@pytest.mark.parametrize("form", ["lines", "array", "indented", "snake", "gzip"])
def test_spans_in_every_spelling_are_the_same_request(tmp_path: Path, form: str) -> None:
    said = export(answered("1" * 16, T0))
    text = json.dumps(said)
    if form == "array":
        text = json.dumps([said])
    elif form == "indented":
        text = json.dumps(said, indent=2)
    elif form == "snake":
        for camel, snake in (("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"),
                             ("startTimeUnixNano", "start_time_unix_nano"), ("endTimeUnixNano", "end_time_unix_nano"),
                             ("traceId", "trace_id"), ("spanId", "span_id")):  # fmt: skip
            text = text.replace(camel, snake)
    content = gzip.compress(text.encode()) if form == "gzip" else text
    found = one(loaded(tmp_path, ("spans.any", content)))
    assert (found.id, found.prompt_tokens, found.output_tokens) == ("r1", 7, 10)
    assert (found.arrival_ns, found.first_token_ns, found.last_token_ns) == (0, 100 * MS, 190 * MS)
    assert (found.queue_ns, found.prefill_ns, found.decode_ns) == (20 * MS, 70 * MS, 90 * MS)


def field(number: int, value: bytes | int | float) -> bytes:
    """A field of protobuf, written by hand."""
    if isinstance(value, float):
        return bytes([number << 3 | 1]) + struct.pack("<d", value)
    if isinstance(value, int):
        return bytes([number << 3 | 1]) + struct.pack("<Q", value)
    size, head = len(value), bytes([number << 3 | 2])
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + value


def protobuf() -> bytes:
    pairs = [(b"gen_ai.request.id", field(1, b"cmpl-r1-0")), (b"gen_ai.latency.time_to_first_token", field(4, 0.1)),
             (b"gen_ai.usage.prompt_tokens", b"\x18\x07")]  # fmt: skip
    told = b"".join(field(9, field(1, key) + field(2, value)) for key, value in pairs)
    made = field(1, b"\xaa" * 16) + field(2, b"\xbb" * 8) + field(5, b"llm_request") + field(7, T0)
    resource = field(1, field(1, field(1, b"service.name") + field(2, field(1, b"s"))))
    return field(1, resource + field(2, field(2, made + field(8, T0 + 190 * MS) + told)))


def test_protobuf_alone_and_behind_its_length(tmp_path: Path) -> None:
    for number, content in enumerate((protobuf(), len(protobuf()).to_bytes(4, "big") + protobuf())):
        (tmp_path / str(number)).mkdir()
        found = one(loaded(tmp_path / str(number), ("spans.pb", content)))
        assert (found.id, found.prompt_tokens, found.first_token_ns) == ("r1", 7, 100 * MS)
    (tmp_path / "cut").mkdir()
    cut = protobuf()[:-3] + b"\xff"
    assert refused(tmp_path / "cut", cut)


def test_spans_twice_out_of_order_and_of_none(tmp_path: Path) -> None:
    late, early = answered("1" * 16, T0 + 500 * MS, "late"), answered("2" * 16, T0, "early")
    child = span("lost", "3" * 16, T0, T0 + MS, trace="cc" * 16)
    lines = [json.dumps(export(each)) for each in (late, early, late, child)]
    con = loaded(tmp_path, ("o.jsonl", "\n".join([*lines, "{cut"])))
    assert [found.id for found in requests(con)] == ["early", "late"]
    told = dict(con.execute("SELECT table_name, dropped FROM said WHERE dropped > 0").fetchall())
    assert told == {"request": 2, "request_event": 1}  # one span twice, one line that is cut; one of no request


def test_a_prompt_within_attributes_is_nowhere(tmp_path: Path) -> None:
    con = loaded(tmp_path, ("o.jsonl", json.dumps(export(answered("1" * 16, T0, **{"gen_ai.prompt": SECRET * 80})))))
    for (table,) in con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall():
        assert SECRET not in str(con.execute(f'FROM "{table}"').fetchall())


def test_several_answers_and_a_retry_of_one_id_stay_apart(tmp_path: Path) -> None:
    second = answered("2" * 16, T0, **{"gen_ai.request.id": "cmpl-r1-1"})
    again = answered("3" * 16, T0 + 900 * MS)
    sent = [{"id": "r1", "prompt": 7, "send_ns": T0 - 2 * MS, "tok_ns": [T0 + 101 * MS], "end_ns": T0 + 200 * MS},
            {"id": "r1", "prompt": 7, "send_ns": T0 + 899 * MS, "tok_ns": [], "error": "reset"}]  # fmt: skip
    con = loaded(tmp_path, ("o", json.dumps(export(answered("1" * 16, T0), second, again))), ("c", json.dumps(sent)))
    found = [(each.id, each.source, each.send_ns, each.error) for each in requests(con)]
    assert found == [
        ("r1", "otlp, client", 0, None),
        ("r1-1", "otlp", None, None),
        ("r1", "otlp, client", 901 * MS, "reset"),
    ]


def test_clocks_hours_apart_are_joined_by_causality(tmp_path: Path) -> None:
    hour = 3600 * 10**9
    sent = [{"id": f"q{n}", "prompt": 7, "send_ns": at - 5 * MS, "tok_ns": [at + 103 * MS], "end_ns": at + 200 * MS}
            for n in range(4) for at in [T0 + hour + n * 10**9]]  # fmt: skip
    spans = [answered(str(n + 1) * 16, T0 + n * 10**9, f"q{n}") for n in range(4)]
    con = loaded(tmp_path, ("o", json.dumps(export(*spans))), ("c", json.dumps(sent)))
    ((offset, low, high, how),) = con.execute("SELECT offset_ns, low_ns, high_ns, how FROM clock_join").fetchall()
    assert (low, high, how) == (-hour - 3 * MS, -hour + 5 * MS, "causality") and low <= offset <= high
    assert all(abs((each.arrival_ns or 0) - (each.send_ns or 0)) <= 9 * MS for each in requests(con))


def test_a_clock_that_jumps_once_stays_one_clock(tmp_path: Path) -> None:
    """The server's clock is set back by 20 ms before the last of twelve requests."""
    sent = [{"id": f"q{n}", "prompt": 7, "send_ns": at - 5 * MS, "tok_ns": [at + 103 * MS], "end_ns": at + 200 * MS}
            for n in range(12) for at in [T0 + n * 10**9]]  # fmt: skip
    back = [20 * MS if n == 11 else 0 for n in range(12)]
    spans = [answered(f"{n + 1:016x}", T0 + n * 10**9 - back[n], f"q{n}") for n in range(12)]
    con = loaded(tmp_path, ("o", json.dumps(export(*spans))), ("c", json.dumps(sent)))
    told = con.execute("SELECT offset_ns, low_ns, median_ns, how FROM clock_join").fetchall()
    assert told == [(0, -15 * MS, 5 * MS, "unix")]


def line(number: int, context: int, tokens: int, generating: int, second: int = 0, engine: int = 0) -> str:
    return (f"INFO 11-23 14:00:{second:02d} [loggers.py:199] Engine {engine:03d}: Iteration({number}): "
            f"{context} context requests, {tokens} context tokens, {generating} generation requests, "
            f"{generating} generation tokens, "
            "iteration elapsed time: 10.00 ms, GPU KV cache usage: 12.5%")  # fmt: skip


def test_a_log_in_another_zone_gets_the_times_of_its_requests(tmp_path: Path) -> None:
    """The server's log is eight hours ahead, as in China; ten tokens take one prefill and nine iterations."""
    lines = [line(4, 1, 7, 0), *(line(5 + n, 0, 0, 1) for n in range(9)), "INFO: a line of something else"]
    con = loaded(tmp_path, ("server.log", "\n".join(lines)), ("o.json", json.dumps(export(answered("1" * 16, T0)))))
    every = iterations(con)
    assert [row.number for row in every] == list(range(4, 14)) and every[0].kv_used == 0.125
    assert every[0].end_ns == 100 * MS and every[-1].end_ns == 190 * MS
    assert [row.ts_ns for row in every] == [90 * MS + n * 10 * MS for n in range(10)]
    said = members(con)
    assert (said.how, said.confidence, said.token.tolist()) == ("counts", 1.0, list(range(10)))


def test_a_log_alone_has_no_time_and_no_members(tmp_path: Path) -> None:
    con = loaded(tmp_path, ("server.log", line(1, 1, 7, 0) + "\n" + line(2, 0, 0, 1)))
    assert [(row.ts_ns, row.dur_ns) for row in iterations(con)] == [(None, 10 * MS), (None, 10 * MS)]
    assert not len(members(con).request)


def test_counts_of_another_run_give_no_members(tmp_path: Path) -> None:
    lines = [line(n, 1, 50 + n, 9) for n in range(40)]
    con = loaded(tmp_path, ("log", "\n".join(lines)), ("o", json.dumps(export(answered("1" * 16, T0)))))
    assert not len(members(con).request)
    told = con.execute("SELECT reason FROM said WHERE table_name = 'member'").fetchall()[0][0]
    assert "not known" in told


def test_sglang_batches_are_recorded_members(tmp_path: Path) -> None:
    def scheduled(ident: str, trace: str, batches: list[tuple[int, str, int]]) -> dict[str, Any]:
        events = [{"name": "schedule", "timeUnixNano": str(T0 + at * MS),
                   "attributes": attributes({"bid": bid, "batch_size": 2, "forward_mode": mode})}
                  for bid, mode, at in batches]  # fmt: skip
        return span("Scheduler [TP 0]", ident, T0, T0 + 90 * MS, trace=trace, events=events)

    spans = [
        scheduled("1" * 16, "aa" * 16, [(3, "EXTEND", 10), (4, "DECODE", 20)]),
        span("Req 1a2b", "2" * 16, T0, T0 + 100 * MS, attributes=attributes({"rid": "1a2b3c"})),
        span("prefill_waiting", "4" * 16, T0 + MS, T0 + 9 * MS),
        span("Req 9f", "3" * 16, T0 + MS, T0 + 100 * MS, trace="bb" * 16, attributes=attributes({"rid": "9f"})),
        scheduled("5" * 16, "bb" * 16, [(3, "EXTEND", 10), (4, "DECODE", 20)]),
    ]
    con = loaded(tmp_path, ("spans.jsonl", "\n".join(json.dumps(export(each)) for each in spans)))
    assert [each.id for each in requests(con)] == ["1a2b3c", "9f"]
    assert [(row.number, row.kind, row.ts_ns) for row in iterations(con)] == [
        (3, "prefill", 10 * MS),
        (4, "decode", 20 * MS),
    ]
    said = members(con)
    assert said.how == "recorded" and len(said.request) == 4
    assert con.execute("SELECT name FROM request_event WHERE kind = 'queue'").fetchall() == [("prefill_waiting",)]


def test_sglang_request_metrics_keep_no_prompt(tmp_path: Path) -> None:
    said = {"request_parameters": json.dumps({"rid": "s1", "text": SECRET}), "prompt_tokens": 7, "cached_tokens": 4,
            "completion_tokens": 3, "e2e_latency": 0.25, "queue_time": 0.05, "request_received_ts": T0 / 1e9,
            "response_sent_to_client_ts": T0 / 1e9 + 0.25, "finish_reason": {"type": "stop"}}  # fmt: skip
    con = loaded(tmp_path, ("sglang-request-metrics-20261123_06.log", json.dumps(said)))
    found = one(con)
    assert (found.id, found.cached_tokens, found.queue_ns, found.finish) == ("s1", 4, 50 * MS, "stop")
    assert SECRET not in str(con.execute("FROM request").fetchall())


def test_a_benchmark_without_ids_and_epoch_is_joined_by_its_prompts(tmp_path: Path) -> None:
    result = {"date": "20261123-060000", "backend": "vllm", "num_prompts": 2, "request_rate": 1.0,
              "input_lens": [7, 9], "output_lens": [2, 2], "ttfts": [0.102, 0.102], "itls": [[0.09], [0.09]],
              "start_times": [77.0, 78.0], "errors": ["", ""]}  # fmt: skip
    spans = [answered("1" * 16, T0, "a"), answered("2" * 16, T0 + 10**9, "b", **{"gen_ai.usage.prompt_tokens": 9})]
    con = loaded(tmp_path, ("result.json", json.dumps(result)), ("o.json", json.dumps(export(*spans))))
    found = requests(con)
    assert [each.source for each in found] == ["otlp, bench", "otlp, bench"]
    assert all(each.ttft_ns == 102 * MS for each in found)
    ((low, high, how),) = con.execute("SELECT low_ns, high_ns, how FROM clock_join").fetchall()
    assert how == "causality" and high - low == 2 * MS


def test_a_benchmark_with_sums_only_says_what_to_do(tmp_path: Path) -> None:
    said = {"date": "20261123-060000", "backend": "vllm", "num_prompts": 2, "request_rate": 1.0, "mean_ttft_ms": 3.0}
    assert "--save-detailed" in refused(tmp_path, json.dumps(said).encode())


def test_aiperf_records(tmp_path: Path) -> None:
    said = {"metadata": {"x_request_id": "p1", "request_start_ns": T0, "request_end_ns": T0 + 150 * MS},
            "metrics": {"time_to_first_token": {"value": 100.0, "unit": "ms"}, "input_sequence_length": {"value": 7},
                        "inter_chunk_latency": {"value": [25.0, 25.0], "unit": "ms"},
                        "output_sequence_length": {"value": 3}}, "error": None}  # fmt: skip
    con = loaded(tmp_path, ("profile_export.jsonl", json.dumps(said) + "\n" + json.dumps({"metadata": {}})))
    assert one(con).ttft_ns == 100 * MS and one(con).done_ns == 150 * MS
    assert con.execute("SELECT ts_ns FROM request_event").fetchall() == [(100 * MS,), (125 * MS,), (150 * MS,)]


def test_dynamo_passes(tmp_path: Path) -> None:
    said = {"schema": "dynamo.fpm.trace.v1", "timestamp_ns": T0 + 20 * MS, "fpm": {
        "counter_id": 5, "wall_time": 0.02, "worker_id": "w", "dp_rank": 1,
        "scheduled_requests": {"num_prefill_requests": 1, "sum_prefill_tokens": 64, "num_decode_requests": 3},
        "queued_requests": {"num_prefill_requests": 2, "num_decode_requests": 0}}}  # fmt: skip
    (row,) = iterations(loaded(tmp_path, ("fpm.0.jsonl.gz", gzip.compress(json.dumps(said).encode()))))
    assert (row.number, row.kind, row.dur_ns, row.ctx_tokens, row.gen_requests, row.waiting, row.dp_rank) == (
        5, "mixed", 20 * MS, 64, 3, 2, 1,
    )  # fmt: skip


def test_tables_of_msserviceprofiler(tmp_path: Path) -> None:
    batch = ("name,res_list,start_time(ms),end_time(ms),batch_size,batch_type,during_time(ms),prof_id,"
             "prefill_batch_size,decode_batch_size,total_blocks,used_blocks,kvcache_usage_rate,dp_rank\n"
             f"modelExec,\"[{{'rid': 'm1', 'iter': 0}}]\",{T0 // MS}.5,0,1,Prefill,0.02,1,1,0,100,25,,0\n"
             f"modelExec,\"[{{'rid': 'm1', 'iter': 1}}]\",{T0 // MS + 20}.5,0,1,Decode,0.02,2,0,1,100,25,,0\n"
             )  # fmt: skip
    request = ("http_rid,start_time(ms),recv_token_size,reply_token_size,execution_time(ms),queue_wait_time(ms),"
               f"first_token_latency(ms),cache_hit_rate\n=m1,{T0 // MS},8,2,40,1,20,0.5\n"
               f"m1,{T0 // MS},8,2,40,1,20,0.5\n")  # fmt: skip
    con = loaded(tmp_path, ("batch.csv", batch), ("request.csv", request))
    found = requests(con)
    assert {each.id for each in found} == {"=m1", "m1"}  # a cell is a text, whatever it begins with
    kept = next(each for each in found if each.id == "m1")
    assert (kept.cached_tokens, kept.first_token_ns, kept.queue_ns) == (4, 20 * MS, MS)
    assert [(row.kind, row.ts_ns, row.dur_ns, row.kv_used) for row in iterations(con)] == [
        ("prefill", MS // 2, None, 0.25), ("decode", 20 * MS + MS // 2, None, 0.25),
    ]  # fmt: skip
    said = members(con)
    assert said.how == "recorded" and said.request.tolist() == [kept.key] * 2


def test_a_row_that_ends_early_has_what_it_holds(tmp_path: Path) -> None:
    con = loaded(tmp_path, ("batch.csv", "name,res_list,batch_type,during_time(ms)\nmodelExec\n"))
    assert [(row.ts_ns, row.kind) for row in iterations(con)] == [(None, "mixed")]


def database(path: Path, meta: dict[str, object]) -> Path:
    """ms_service_*.db as it is written: counts of a counter of 100 MHz."""
    con = sqlite3.connect(path)
    con.execute("CREATE TABLE Meta(name TEXT, value TEXT)")
    con.execute("CREATE TABLE Mstx(message TEXT, flag INTEGER, markId INTEGER, timestamp INTEGER, "
                "endTimestamp INTEGER, pid INTEGER, tid INTEGER)")  # fmt: skip
    con.executemany("INSERT INTO Meta VALUES (?, ?)", [(name, str(value)) for name, value in meta.items()])
    said = [({"name": "httpReq", "rid": "d1", "=recvTokenSize": 7}, 1000, 1000),
            ({"name": "modelExec", "rid": [{"rid": "d1", "iter": 0}]}, 2000, 2100),
            ({"name": "ReqState", "rid": "d1", "+RUNNING": -1, "+END": 1}, 1_002_000, 1_002_000)]  # fmt: skip
    con.executemany("INSERT INTO Mstx VALUES (?, 0, 0, ?, ?, 1, 1)",
                    [(json.dumps(message), begin, end) for message, begin, end in said])  # fmt: skip
    con.commit()
    con.close()
    return path


def test_a_raw_database_counts_its_own_clock(tmp_path: Path) -> None:
    meta = {"cpu_frequency": 100_000_000.0, "cntvct": 0, "collection_time_begin": T0 // 1000,
            "host_clock_monotonic_raw": 5, "start_clock_monotonic_raw": 5}  # fmt: skip
    content = database(tmp_path / "ms_service_1.db", meta).read_bytes()
    con = loaded(tmp_path, ("renamed.db", content))
    found = one(con)
    assert con.execute("FROM origin").fetchall() == [(T0 + 10_000,)]  # 1,000 counts of 10 ns
    assert (found.id, found.prompt_tokens, found.first_token_ns) == ("d1", 7, 10_010_000)
    assert [(row.ts_ns, row.dur_ns) for row in iterations(con)] == [(10_000, 10 * MS)]
    del meta["cntvct"]
    (tmp_path / "without").mkdir()
    assert "counter" in refused(tmp_path / "without", database(tmp_path / "2.db", meta).read_bytes())


def test_logs_of_vllm_ascend(tmp_path: Path) -> None:
    lines = [f"<<<Action: {action}; Timestamp:{T0 // 10**9}.{at:03d}; RequestID:v1; Role:prefill_10.0.0.1"
             for action, at in (("start transfer kv", 50), ("receive request", 0), ("finish", 90))]  # fmt: skip
    con = loaded(tmp_path, ("log_pid_1_tid_1.log", "\n".join(lines)))
    assert one(con).id == "v1"
    assert con.execute("SELECT kind, ts_ns FROM request_event ORDER BY ts_ns").fetchall() == [
        ("state", 0), ("transfer", 50 * MS), ("state", 90 * MS),
    ]  # fmt: skip


def test_prometheus_and_ray(tmp_path: Path) -> None:
    scrape = ("# HELP vllm:num_requests_running Running.\n# TYPE vllm:num_requests_running gauge\n"
              'vllm:num_requests_running{engine="0",name="=1+1"} 3.0\n'
              'vllm:ttft_bucket{le="1"} 4\nvllm:num_preemptions_total 49\nbroken line here\n')  # fmt: skip
    con = loaded(tmp_path, ("metrics.txt", scrape))
    assert con.execute("SELECT name, value, ts_ns FROM serving_sample ORDER BY name").fetchall() == [
        ("vllm:num_preemptions_total", 49.0, None), ("vllm:num_requests_running", 3.0, None),
    ]  # fmt: skip
    (tmp_path / "ray").mkdir()
    task = {"cat": "task::update_weights", "cname": "x", "ph": "X", "ts": T0 / 1000, "dur": 5000, "pid": "n",
            "tid": "rank 2", "args": {"task_id": "t"}, "name": "update_weights"}  # fmt: skip
    con = loaded(tmp_path / "ray", ("timeline.json", json.dumps([task])))
    assert con.execute("SELECT name, role, dur_ns, role_rank FROM stage").fetchall() == [
        ("update_weights", "weights", 5 * MS, 2)
    ]


HOSTILE = {
    "otlp_none": json.dumps(export()).encode(),
    "otlp_wrong_kinds": b'{"resourceSpans": {"scopeSpans": [null, 3, {"spans": "x"}]}}',
    "otlp_no_stamps": json.dumps(export(answered("1" * 16, 12))).encode(),
    "otlp_deep": b'{"resourceSpans": ' + b"[" * 100_000,
    "client_none": b'[{"id": 1, "send_ns": "soon", "tok_ns": 5}]',
    "client_floats": b'[{"id": "a", "send_ns": NaN, "tok_ns": [1e999]}]',
    "bench_lists": b'{"date": "x", "num_prompts": 1, "ttfts": [{}], "start_times": ["x"]}',
    "log_words": b"INFO Iteration(1): 1 context requests, x context tokens",
    "tx_cells": b"message,domain,rid,name,start_time,end_time,event_type\n\"{'a': __import__('os')}\",,,,x,y,z\n",
    "tx_short": b"message,domain,rid,name,start_time,end_time,event_type\nx\n",
    "request_short": b"http_rid,recv_token_size,reply_token_size,start_time(ms)\nx\n",
    "roles": b'[{"role": "r", "start_time_ms": "x"}]',
    "verl": b"step:1 - a:b",
    "dynamo": b'{"schema": "dynamo.fpm.trace.v1", "fpm": []}',
    "ascend": b"<<<Action: x; Timestamp: never",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_holds_nothing_is_one_sentence(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, HOSTILE[name])


def test_a_gzip_bomb_ends_in_a_sentence(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"resourceSpans": []}\n' + b" " * (64 << 20))
    assert refused(tmp_path, packed)
