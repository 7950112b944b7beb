"""A trace cut anywhere keeps exactly its complete events and says that it was cut.

12 of 2,000 seeded offsets in `make test`, all in `make torture`.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from npulens import ingest
from npulens.ingest.errors import IngestError
from npulens.ingest.readers import readers
from npulens.ingest.store import runs as stores
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.finish import finish

EPOCH_US = 1_780_000_000_000_000
OFFSETS, SEED = 2_000, 20261120


def trace_view() -> tuple[str, bytes, list[int]]:
    head = [{"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "Python"}}]
    spans = [
        {"ph": "X", "name": f'op "{i}" \\ é 算子 {{[', "pid": 7, "tid": i % 3, "ts": f"{EPOCH_US + i}.{i:03d}",
         "dur": 0.5,
         "cat": "cpu_op", "args": {"Sequence number": i, "Call stack": "a.py(1): f;\r\nb.py(2): g"}}
        for i in range(300)
    ]  # fmt: skip
    return ("trace_view.json", *joined("[", [*head, *spans], "]"))


def kineto() -> tuple[str, bytes, list[int]]:
    spans = [
        {"ph": "X", "cat": "cpu_op", "name": f'op "{i}" }}] é', "pid": 7, "tid": "main", "ts": EPOCH_US + i / 4,
         "dur": 1,
         "args": {"External id": i, "Input Dims": [[i, 2], []]}}
        for i in range(300)
    ]  # fmt: skip
    return ("trace.json", *joined('{"schemaVersion": 1, "traceEvents": [', spans, '], "traceName": "x"}'))


def joined(head: str, events: list[dict[str, object]], tail: str) -> tuple[bytes, list[int]]:
    """The file, and where each span event ends in it."""
    data, ends = head.encode(), []
    for i, event in enumerate(events):
        data += (",\n " if i else "").encode() + json.dumps(event, ensure_ascii=i % 2 == 0).encode()
        if event["ph"] == "X":
            ends.append(len(data))
    return data + tail.encode(), ends


def check(kind: str, offsets: list[int], tmp_path: Path) -> None:
    name, data, ends = trace_view() if kind == "torch_npu_text" else kineto()
    for offset in offsets:
        directory = tmp_path / str(offset)
        directory.mkdir(exist_ok=True)
        (directory / name).write_bytes(data[:offset])
        reader = readers()[kind]
        claim = reader.sniff(directory if kind == "torch_npu_text" else directory / name)
        complete = sum(end <= offset for end in ends)
        if claim is None:
            assert complete == 0, f"cut at {offset}: nobody reads {complete} complete events"
            continue
        draft = Draft(directory / "draft", 0)
        try:
            reader.read(claim, draft)
        except IngestError as error:
            assert complete == 0, f"cut at {offset}: {complete} complete events refused: {error}"
            continue
        part = finish(draft, directory / "out")
        draft.close()
        assert part.rows["span"] == complete, f"cut at {offset}"
        assert part.reasons, f"cut at {offset}: not said to be partial"


def offsets(count: int) -> list[int]:
    size = min(len(trace_view()[1]), len(kineto()[1]))
    dice = random.Random(SEED)
    return [dice.randrange(200, size - 30) for _ in range(OFFSETS)][:count]


@pytest.mark.parametrize("kind", ["torch_npu_text", "kineto"])
def test_cut_at_12_offsets(kind: str, tmp_path: Path) -> None:
    check(kind, offsets(12), tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["torch_npu_text", "kineto"])
def test_cut_at_every_offset(kind: str, tmp_path: Path) -> None:
    check(kind, offsets(OFFSETS), tmp_path)


SAMPLE = Path(__file__).resolve().parents[1] / "sample_traces" / "kineto"
WORK = """SELECT step.step, step.dur_ns, count(*), sum(span.dur_ns) FROM step JOIN span
    ON span.rank = step.rank AND span.kind IN ('kernel', 'memset', 'memcpy') AND span.ts_ns >= step.ts_ns
    AND span.ts_ns < step.ts_ns + step.dur_ns GROUP BY ALL ORDER BY 1"""


def steps_of(capture: Path, store: Path) -> tuple[list[tuple[int, ...]], set[str]]:
    """Each stored step with its length and the device's work in it, and what is said of steps."""
    (run,) = ingest.load(capture, store).runs
    assert run.run_id, run.reason
    with stores.open_run(store, run.run_id) as con:
        told = con.execute("SELECT reason FROM coverage WHERE table_name = 'step'").fetchall()
        return con.execute(WORK).fetchall(), {str(reason) for (reason,) in told}


@pytest.mark.parametrize("share", [0.25, 0.35, 0.5, 0.65, 0.8, 0.9, 0.99])
def test_a_step_whose_work_lies_behind_the_cut_is_none(share: float, tmp_path: Path) -> None:
    """A profiler writes marks and frames of Python of a step before its kernels: the rest of it would look idle."""
    (packed,) = SAMPLE.glob("*.json.gz")
    data = gzip.decompress(packed.read_bytes())
    for name, length in (("whole", len(data)), ("cut", int(share * len(data)))):
        (tmp_path / f"{name}.pt.trace.json").write_bytes(data[:length])
    true, _ = steps_of(tmp_path / "whole.pt.trace.json", tmp_path / "store")
    left, told = steps_of(tmp_path / "cut.pt.trace.json", tmp_path / "store")
    assert len(true) == 3 and left == true[: len(left)]
    assert any("behind the cut" in one for one in told) == (len(left) < 3)
