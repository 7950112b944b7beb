"""Files of serving engines, clients and RL jobs, and what is made of two of them together.

An input is one or two files: a name on the first line, the content, a line of three dashes.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from npulens.ingest.readers.serving.found import SERVING
from npulens.ingest.serving.join import join
from tests.fuzz import change
from tests.fuzz.reading import read
from tests.test_serving_formats import T0, answered, export, line, protobuf

_NEXT = b"\n---\n"


def seeds() -> list[bytes]:
    sent = [{"id": "r1", "prompt": 7, "send_ns": T0 - 10**6, "tok_ns": [T0 + n * 10**7 for n in range(10, 20)]}]
    log = "\n".join([line(4, 1, 7, 0), *(line(5 + n, 0, 0, 1) for n in range(9))])
    spans = json.dumps(export(answered("1" * 16, T0)))
    batch = "name,res_list,start_time(ms),batch_type,during_time(ms)\nmodelExec,[],1795413600000.5,Prefill,1\n"
    made = [
        [("o.jsonl", spans), ("log", log)], [("o.jsonl", spans), ("client.json", json.dumps(sent))],
        [("client.json", json.dumps(sent)), ("log", log)], [("batch.csv", batch)],
        [("step.log", "step:3 - timing_s/gen:2.5 - a/b:1")], [("m.prom", "# TYPE a:b gauge\na:b{c=\"d\"} 1\n")],
    ]  # fmt: skip
    files = [[(name, text.encode()) for name, text in several] for several in made]
    files.append([("spans.pb", protobuf())])
    return [_NEXT.join(name.encode() + b"\n" + content for name, content in several) for several in files]


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
