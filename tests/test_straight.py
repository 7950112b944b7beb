"""What a trace is read into straight is what statements make of it; spans come in order whatever order they lie in."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from npulens.collectors.simulator import simulated
from npulens.ingest.archive.opener import Opener
from npulens.ingest.loading import capture, parsing
from npulens.ingest.loading.quota import Quota
from npulens.ingest.readers.kineto.lanes import Shapes
from npulens.ingest.tables import runs
from npulens.ingest.tables.runs import Block, Ordered, Runs
from tests import twin
from tests.bench.programs import dynamic
from tests.fuzz.targets import kineto, trace_view
from tests.kineto_files import flow, task, x

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
WORDS = ("kernel", "cpu_op", "python", "wait")


def columns(draw: np.random.Generator, way: str, first: int) -> tuple[NDArray[np.int32], Block]:
    """The lanes of some spans, and what they are: nearly in order, many at once, or in no order."""
    many = int(draw.integers(0, 120))
    row = np.sort(draw.choice(np.arange(first, first + 300), many, replace=False)).astype(np.int64)
    ts = {
        "nearly": row * 10 + draw.integers(0, 40, many), "tied": draw.integers(-20, 20, many),
        "any": draw.integers(0, 10**9, many),
    }[way]  # fmt: skip
    whole = Block(row, ts, draw.integers(0, 5, many), draw.integers(0, 7, many).astype(np.int32))
    return draw.integers(0, 6, many).astype(np.int32), whole


@pytest.mark.parametrize("way", ["nearly", "tied", "any"])
@pytest.mark.parametrize("held", [0, 1 << 20])
def test_spans_come_by_track_start_longest_first(
    way: str, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against one sort of all of them, in memory and from a file."""
    monkeypatch.setattr(runs, "_HELD", held)
    monkeypatch.setattr(runs, "_AT_ONCE", 30)
    draw = np.random.default_rng(7)
    for number in range(20):
        made = Runs(tmp_path / f"{number}.runs")
        added = [columns(draw, way, 300 * batch) for batch in range(8)]
        for lane, block in added:
            made.add(lane, block)
        lane = np.concatenate([lane for lane, _ in added])
        row, ts, dur, look = (np.concatenate(column) for column in zip(*(block for _, block in added), strict=True))
        tracks = [(each, each // 2 + 5, 7 * (each % 3 == 0)) for each in range(6)]
        kinds, names = draw.integers(0, 4, 14).astype(np.int8), draw.integers(0, 5, 14).astype(np.int32)
        spans = Ordered(made, tracks, pa.array(WORDS), kinds, pa.array([*"abcde"]), names, 1000)
        look = look + np.where(lane % 3 == 0, 7, 0)
        order = np.lexsort((row, -dur, ts, lane // 2))
        got = [batch.to_pylist() for batch in spans.batches(64)]
        assert {len(batch) for batch in got[:-1]} <= {64}
        assert [row for batch in got for row in batch] == [
            {"span_id": int(row[at]), "track": int(lane[at] // 2 + 5), "kind": WORDS[kinds[look[at]]],
             "name": "abcde"[names[look[at]]], "ts_ns": int(ts[at]) + 1000, "dur_ns": int(dur[at])}
            for at in order
        ]  # fmt: skip
        assert spans.bounds == (min(ts) + 1000, max(ts + dur) + 1000)
        since = int(np.median(ts))
        work = (ts + dur)[(kinds[look] == 0) & (ts >= since)]
        assert spans.worked(since + 1000) == (max(work) + 1000 if len(work) else None)
        made.close()
        assert not (tmp_path / f"{number}.runs").exists()


def test_spans_in_no_order_at_all_are_left_to_a_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that all overlap would all lie in memory; those that follow each other do not."""
    monkeypatch.setattr(runs, "_MOST", 500)
    for gap, orderly in ((0, False), (1000, True)):
        made = Runs(tmp_path / "runs")
        for batch in range(10):
            ts = np.arange(100) + batch * gap
            made.add(np.zeros(100, np.int32), Block(ts, ts, np.ones(100, np.int64), np.zeros(100, np.int32)))
        kinds, names = np.zeros(1, np.int8), np.zeros(1, np.int32)
        assert Ordered(made, [(0, 0, 0)], pa.array(["kernel"]), kinds, pa.array(["a"]), names).orderly is orderly


def test_stretches_hold_every_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_STRETCH", 250)
    made = Runs(tmp_path / "runs")
    for batch in range(10):
        row = np.arange(batch * 100, batch * 100 + 100)
        made.add(np.zeros(100, np.int32), Block(row, row, row, np.zeros(100, np.int32)))
    assert made.cuts == [300, 600, 900]
    kinds, names = np.zeros(1, np.int8), np.zeros(1, np.int32)
    every = Ordered(made, [(0, 0, 0)], pa.array(["kernel"]), kinds, pa.array(["a"]), names)
    assert every.stretches("row") == ["row < 300", "row >= 300 AND row < 600", "row >= 600 AND row < 900", "row >= 900"]
    assert every.stretches("row", 2) == ["row < 600", "row >= 600"]
    assert every.stretches("row", 4) == ["true"]


def test_shapes_are_numbered_as_they_are_met() -> None:
    draw, shapes, known = np.random.default_rng(3), Shapes(), dict[int, int]()
    for _ in range(50):
        met = (draw.integers(0, 30, 40) << 16) | (draw.integers(0, 3, 40) << 2) | draw.integers(0, 2, 40)
        found = shapes.of(met)
        for shape, number in zip(met.tolist(), found.tolist(), strict=True):
            assert known.setdefault(shape, number) == number
    assert list(shapes.keys) == sorted(known, key=known.__getitem__)
    assert sorted(known.values()) == list(range(len(known)))


@pytest.mark.parametrize("sample", ["kineto", "cpu_train_step", "torch_npu_text"])
def test_samples_have_the_same_tables_either_way(sample: str, tmp_path: Path) -> None:
    assert twin.differences(SAMPLES / sample, tmp_path / "scratch") == []


def test_shapes_that_hardly_repeat(tmp_path: Path) -> None:
    """In many small batches, of which few are held."""
    text = io.StringIO()
    dynamic.write(text, 3000)
    path = tmp_path / "rank0.json"
    path.write_text(text.getvalue())
    assert twin.differences(path, tmp_path / "scratch", tiny=True) == []
    (part,) = twin.read(path, tmp_path / "again", statements=False, tiny=True)
    assert not isinstance(part, str)
    assert part.rows["span"] > 1500 and part.rows["kernel"] > 200 and part.rows["link"] > 200


def test_collectives_are_put_together_within_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a rank takes more it is read once more: with 44 MB it was while each argument was asked by itself."""
    path = tmp_path / "rank0.json"
    simulated.write_kineto_file(path, 200_000, 0)
    monkeypatch.setattr(parsing, "_LITTLE", {"kineto": "42MB"})
    monkeypatch.setattr(parsing, "_LARGE", 10**9)
    found = capture.find([path], Opener(tmp_path / "unpacked", Quota()))
    part = parsing.put_together(found.sources[0], tmp_path / "scratch", lambda done: None)
    assert part.rows["comm"] > 500
    assert (tmp_path / "scratch" / "42MB").is_dir()  # what was too little is removed again


def test_what_is_paired_lent_repeated_or_labelled(tmp_path: Path) -> None:
    """Begins and ends, arguments of another kind, a correlation of two calls, a graph, a device that waits."""
    base = 1_736_408_883_000_000
    events = [
        x("user_annotation", "ProfilerStep#1", base, 900),
        *(x("cpu_op", f"aten::op{n % 7}", base + n, 50 - n % 50, {"External id": n, "Input Dims": [[n, 2], []]})
          for n in range(200)),
        *(x("cuda_runtime", "cudaLaunchKernel", base + n, 1, {"correlation": n // 2 * 2, "External id": n})
          for n in range(100, 140)),
        *(task(f"k{n % 3}", base + n + 9, 3, {"correlation": n, "External id": n, "grid": [n, 1, 1]})
          for n in range(100, 150)),
        x("cuda_runtime", "cudaGraphLaunch", base + 300, 2, {"correlation": 500, "External id": 3}),
        *(task("ncclDevKernel_AllReduce", base + 310 + n, 1, {"correlation": 500, "External id": 3, "bytes": n})
          for n in range(9)),
        x("cpu_op", "record_param_comms", base + 299, 9, {"Process Group Name": "7", "dtype": "Float",
                                                         "In msg nelems": 4, "Out msg nelems": 4}),
        x("cpu_op", "strange", base + 400, 3, {"stream": 7, "grid": [1, 2, 3], "Collective name": "x"}),
        {"ph": "B", "name": "b", "cat": "cpu_op", "pid": 100, "tid": 1, "ts": base + 401, "args": {"more": 1}},
        {"ph": "E", "name": "b", "cat": "cpu_op", "pid": 100, "tid": 1, "ts": base + 409},
        {"ph": "E", "name": "without a stamp", "cat": "cpu_op", "pid": 100, "tid": 1, "odd": 7},
        x("mtia_runtime", "call", base + 20, 5, {"correlation": 3}, tid=9, pid=0),
        flow("s", "fwdbwd", 5, base + 3), flow("f", "fwdbwd", 5, base + 60),
    ]  # fmt: skip
    header = {"schemaVersion": 1, "distributedInfo": {"rank": 1, "world_size": 2}}
    for drop in ("", "strange", "b", "cudaGraphLaunch"):
        path = tmp_path / f"{drop or 'all'}.json"
        kept = [event for event in events if event["name"] != drop or not drop]
        path.write_text(json.dumps(header | {"traceEvents": kept}))
        assert twin.differences(path, tmp_path / "scratch", tiny=True) == []


def test_mutated_traces(tmp_path: Path) -> None:
    """`python -m tests.twin --seconds 600` looks at more of them."""
    draw = random.Random(11)
    for target in (kineto, trace_view):
        for number, seed in enumerate(seeds := target.seeds()):
            for data in (seed,) if number % 2 else (target.mutate(draw.choice(seeds), draw),):
                path = twin.planted(data, target, tmp_path / f"{target.__name__}{number}")
                assert twin.differences(path, tmp_path / "scratch", tiny=True) == []
