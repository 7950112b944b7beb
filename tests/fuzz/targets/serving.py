"""Files of serving engines, clients and RL jobs, and what is made of two of them together.

An input is one or two files: a name on the first line, the content, a line of three dashes.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from npulens.ingest.readers.serving.found import SERVING
from npulens.ingest.serving.join import join
from tests.fuzz import change
from tests.fuzz.reading import read
from tests.test_serving_formats import T0, answered, database, export, line, protobuf

_NEXT = b"\n---\n"


def seeds() -> list[bytes]:
    sent = [{"id": "r1", "prompt": 7, "send_ns": T0 - 10**6, "tok_ns": [T0 + n * 10**7 for n in range(10, 20)]}]
    log = "\n".join([line(4, 1, 7, 0), *(line(5 + n, 0, 0, 1) for n in range(9))])
    spans = json.dumps(export(answered("1" * 16, T0)))
    batch = "name,res_list,start_time(ms),batch_type,during_time(ms)\nmodelExec,[],1795413600000.5,Prefill,1\n"
    request = ("http_rid,start_time(ms),recv_token_size,reply_token_size,execution_time(ms),queue_wait_time(ms),"
               "first_token_latency(ms),cache_hit_rate\nm1,1795413600000,8,2,40,1,20,0.5\n")  # fmt: skip
    marks = ("message,domain,rid,name,start_time,end_time,event_type\n"
             "\"{'rid': 'm1', '=recvTokenSize': 4}\",h,m1,httpReq,1795413600000000,1795413600000000,x\n"
             "\"{'rid': [{'rid': 'm1', 'iter': 0}]}\",h,,modelExec,1795413600010000,1795413600010016,x\n")  # fmt: skip
    bench = {"date": "20261123-060000", "backend": "vllm", "num_prompts": 1, "request_rate": 1.0, "input_lens": [7],
             "output_lens": [2], "ttfts": [0.102], "itls": [[0.09]], "start_times": [77.0], "errors": [""]}  # fmt: skip
    perf = {"metadata": {"x_request_id": "p1", "request_start_ns": T0, "request_end_ns": T0 + 150 * 10**6},
            "metrics": {"time_to_first_token": {"value": 100.0, "unit": "ms"},
                        "inter_chunk_latency": {"value": [25.0, 25.0], "unit": "ms"}}, "error": None}  # fmt: skip
    passed = {"schema": "dynamo.fpm.trace.v1", "timestamp_ns": T0, "fpm": {
        "counter_id": 5, "wall_time": 0.02, "worker_id": "w", "dp_rank": 1, "scheduled_requests": {
            "num_prefill_requests": 1, "sum_prefill_tokens": 64, "num_decode_requests": 3}}}  # fmt: skip
    told = {"request_parameters": "{\"rid\": \"s1\"}", "prompt_tokens": 7, "completion_tokens": 3,
            "e2e_latency": 0.25, "queue_time": 0.05, "request_received_ts": T0 / 1e9,
            "response_sent_to_client_ts": T0 / 1e9 + 0.25}  # fmt: skip
    role = {"name": "rollout_replica_0", "role": "rollout", "rank_id": 0, "start_time_ms": T0 / 1e6,
            "end_time_ms": T0 / 1e6 + 5}  # fmt: skip
    task = {"cat": "task::update_weights", "cname": "x", "ph": "X", "ts": T0 / 1000, "dur": 5000, "pid": "n",
            "tid": "rank 2", "args": {"task_id": "t"}, "name": "update_weights"}  # fmt: skip
    ascend = f"<<<Action: receive request; Timestamp:{T0 // 10**9}.001; RequestID:v1; Role:prefill_10.0.0.1\n"
    made = [
        [("request.csv", request), ("batch.csv", batch)], [("tx_data_df.csv", marks)],
        [("status.csv", "time,metrics,=a,+b\n1795413600000000,m,1,2\n")], [("result.json", json.dumps(bench))],
        [("export.jsonl", json.dumps(perf))], [("fpm.jsonl", json.dumps(passed))], [("sgl.log", json.dumps(told))],
        [("roles.json", json.dumps([role]))], [("timeline.json", json.dumps([task]))], [("log_pid.log", ascend)],
        [("o.jsonl", spans), ("log", log)], [("o.jsonl", spans), ("client.json", json.dumps(sent))],
        [("client.json", json.dumps(sent)), ("log", log)], [("batch.csv", batch)],
        [("step.log", "step:3 - timing_s/gen:2.5 - a/b:1")], [("m.prom", "# TYPE a:b gauge\na:b{c=\"d\"} 1\n")],
    ]  # fmt: skip
    files = [[(name, text.encode()) for name, text in several] for several in made]
    files.append([("spans.pb", protobuf())])
    files.append([("service.db", _database())])
    return [_NEXT.join(name.encode() + b"\n" + content for name, content in several) for several in files]


def _database() -> bytes:
    """A raw database of msServiceProfiler."""
    meta = {"cpu_frequency": 1e8, "cntvct": 0, "collection_time_begin": T0 // 1000, "host_clock_monotonic_raw": 5,
            "start_clock_monotonic_raw": 5}  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        return database(Path(place) / "ms_service_1.db", dict(meta)).read_bytes()


def mutate(data: bytes, draw: Random) -> bytes:
    files = data.split(_NEXT)
    at = draw.randrange(len(files))
    name, _, content = files[at].partition(b"\n")
    content = draw.choice((change.json_text, change.csv_text, change.anything))(content, draw)
    files[at] = name + b"\n" + content
    return _NEXT.join(files)


def check(data: bytes, scratch: Path) -> None:
    root = scratch / "upload"
    root.mkdir()
    for number, each in enumerate(data.split(_NEXT)[:2]):
        (root / f"file{number}").write_bytes(each.partition(b"\n")[2])
    parts = [part for part in read([root], scratch).parts if SERVING in part.facts]
    joined = join(parts, [], scratch / "joined")
    if joined is None:
        return
    tables = {name: pq.read_table(Path(joined.directory) / f"{name}.parquet") for name in joined.rows}
    requests, iterations = (set(tables[name][name].to_pylist()) for name in ("request", "iteration"))
    assert len(requests) == len(tables["request"]) and len(iterations) == len(tables["iteration"])
    for row in tables["member"].to_pylist():
        assert row["request"] in requests and row["iteration"] in iterations, "a member of nothing"
        assert 0 <= row["confidence"] <= 1 and (row["tokens"] is None or row["tokens"] >= 0)
    for row in tables["request_event"].to_pylist():
        assert row["request"] in requests and row["dur_ns"] >= 0
    for row in tables["request"].to_pylist():
        assert row["dur_ns"] is None or row["dur_ns"] >= 0
