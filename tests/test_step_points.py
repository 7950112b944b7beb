"""MindSpore's step trace alone: its parts, its collectives and its queues are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from npulens.analysis.quality import quality
from npulens.analysis.run import Run
from npulens.app.cli import main
from tests.tablecase import connection

#: start, fp, bp, end of each step in us, and the collective. In the second it begins within backward.
STEPS = ((0, 0, 100, 150, 100, 140), (150, 350, 450, 500, 440, 480))


def case(*steps: tuple[int, ...], kernel: bool = False) -> dict[str, Any]:
    spans: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for number, (start, fp, bp, end, begin, done) in enumerate(steps):
        spans += [
            {"id": 10 * number + 1, "kind": "comm_op", "name": "AllReduce", "at": begin, "for": done - begin,
             "comm": {"collective": "allreduce"}},
            {"id": 10 * number + 2, "kind": "device_annotation", "name": "Forward and backward", "at": fp,
             "for": bp - fp},
        ]  # fmt: skip
        lengths = {"iteration_interval": fp - start, "fp_and_bp": bp - fp, "tail": end - bp, "total": end - start}
        samples += [
            {"counter": "Step trace", "series": f"{name} (ns)", "ts_ns": 1000 * start, "value": 1000.0 * value}
            for name, value in lengths.items()
        ]
    spans += [{"id": 99, "kind": "kernel", "name": "a", "at": 0, "for": 9, "kernel": {}}] if kernel else []
    return {"spans": spans, "tables": {"sample": samples}, "absent": [] if kernel else ["kernel"]}


def told(made: dict[str, Any], *queues: tuple[str, object]) -> list[str]:
    con = connection(made)
    con.executemany(
        "INSERT INTO summary (rank, source, name, args) VALUES (0, 'minddata_pipeline', ?, ?)",
        [(name, json.dumps({"output_queue_usage_rate": used})) for name, used in queues] or [("none", "{}")],
    )
    return [one.text[0] for one in quality(Run(con)).doubts if one.name == "sums"]


def test_parts_of_a_step_are_told_without_the_first_which_waited_for_nothing() -> None:
    """Of the second step's 350 us: 200, 100 and 50. Its collective runs for 40, 30 of them after backward."""
    assert told(case(*STEPS), ("Batch", None), ("Shuffle", "0.25"), ("Map", "broken")) == [
        "only the profiler's split was recorded, of rank 0, on average of a step: waiting before the first operator "
        "200 µs (57.1 %), forward and backward 100 µs (28.6 %), tail (communication and update) 50.0 µs (14.3 %). "
        "So long a wait before a step is mostly for its data",
        "collectives run for 40.0 µs of each step. 30.0 µs of that (8.6 % of the step) is outside forward and "
        "backward, which do not hide it",
        "how full the queue behind each operator of the input pipeline is: Shuffle 25.0 %. Near 0 %, what fills it is "
        "too slow",
    ]


def test_a_step_that_is_alone_counts_and_waits_for_nothing() -> None:
    first, *_ = told(case(STEPS[0]))
    assert "operator 0 ns (0.0 %), forward and backward 100 µs (66.7 %)" in first and "for its data" not in first


def test_where_operators_were_recorded_they_are_judged() -> None:
    assert told(case(*STEPS, kernel=True)) == []


def test_a_load_names_the_tables_that_nothing_reads(tmp_path: Path) -> None:
    header = "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "step_trace_raw_6_detail_time.csv").write_text(f"{header}1,100,400,300,100,300,0,200,100\n")
    (tmp_path / "in" / "hccl_raw_6.csv").write_text("step_num,communication_cost,wait_cost\n1,4.5,0\n")
    found = CliRunner().invoke(main, ["load", str(tmp_path / "in"), "--store", str(tmp_path / "store")])
    assert found.exit_code == 0, found.output
    assert "not read: hccl_raw_6.csv. npulens load --files says" in found.output
    alone = tmp_path / "in" / "step_trace_raw_6_detail_time.csv"
    assert "not read" not in CliRunner().invoke(main, ["load", str(alone), "--store", str(tmp_path / "s")]).output
