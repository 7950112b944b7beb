"""Where the profiler's sums are of far more work than was read, what was read is told to be a part."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from npulens.analysis.engine import check
from npulens.analysis.quality import quality
from npulens.analysis.run import Run
from npulens.analysis.work.partly import partly_read, told, too_little
from npulens.app.commands.check import lines
from tests.tablecase import connection

#: 40 us of kernels, by sums of type and core, and the split of a step: computing, bare communication, free (us).
SPANS: list[dict[str, Any]] = [
    {"id": 1, "kind": "kernel", "name": "a", "at": 0, "for": 30, "kernel": {"core": "AI_CORE"}},
    {"id": 2, "kind": "kernel", "name": "b", "at": 30, "for": 10, "kernel": {"core": "AI_CORE"}},
]


def run_of(operators: list[tuple[str, str, int]], split: tuple[int, int, int] | None = None) -> Run:
    con: duckdb.DuckDBPyConnection = connection({"spans": SPANS})
    for name, core, us in operators:
        con.execute(
            "INSERT INTO summary (rank, source, name, category, count, total_ns) "
            "VALUES (0, 'op_statistic', ?, ?, 1, ?)", [name, core, us * 1000],
        )  # fmt: skip
    if split:
        con.execute(
            "INSERT INTO profiler_step (rank, step, computing_ns, communication_not_overlapped_ns, free_ns, source) "
            "VALUES (0, 1, ?, ?, ?, 'step_trace_time.csv')", [us * 1000 for us in split],
        )  # fmt: skip
    return Run(con)


def test_a_small_part_of_what_the_profiler_added_up_is_told_with_its_sums() -> None:
    """40 of 400 us: 10 %. Of 1000 us 600 are free, 50 bare communication. 40 of 400 us are on the AI CPU."""
    run = run_of([("MatMul", "AI_CORE", 360), ("Sort", "AI_CPU", 30), ("Cast", "AI_CPU", 10)], (350, 50, 600))
    assert [en for en, _ in told(run)] == [
        # 40 of the 350 us of the split are more than 40 of 400, so that counts: 11.4 %
        "rank 0: the kernels read take 40.0 µs of the 350 µs that step_trace_time.csv adds up (11.4 %). All other "
        "figures here are of this part of the job",
        "the profiler's own split of all 1.00 ms of rank 0: free 600 µs (60.0 %), communication that nothing hides "
        "50.0 µs (5.0 %), computing 350 µs (35.0 %)",
        "the profiler's own sum of all operators of rank 0, 400 µs: MatMul 360 µs (90.0 %), Sort 30.0 µs (7.5 %), "
        "Cast 10.0 µs (2.5 %). On the AI CPU: 40.0 µs (10.0 %), most of it Sort (30.0 µs)",
    ]
    assert quality(run).doubts[0].name == "part"
    why = too_little(run)
    assert why and why[0] == "the kernels read are 11.4 % of what step_trace_time.csv adds up; the rest may have it"


@pytest.mark.parametrize(
    ("operators", "split"),
    [([("MatMul", "AI_CORE", 40)], None), ([("MatMul", "AI_CORE", 49)], None), ([], None),
     ([("MatMul", "AI_CORE", 400)], (45, 0, 100))],
)  # fmt: skip
def test_where_one_sum_agrees_nothing_is_a_part(
    operators: list[tuple[str, str, int]], split: tuple[int, int, int] | None
) -> None:
    """40 of 49 us are 82 %, 40 of 45 us 89 %."""
    run = run_of(operators, split)
    assert partly_read(run) is None and too_little(run) is None and list(told(run)) == []


def test_it_is_said_with_the_answer_and_nothing_of_kernels_is_clean() -> None:
    said = check(run_of([("MatMul", "AI_CORE", 400)]).con)
    assert [line for line in lines(said, "en", "x") if line.startswith("Rank 0: the kernels read take 40.0 µs")]
    assert [line for line in lines(said, "zh", "x") if line.startswith("rank 0：读到的算子共 40.0 µs")]
    assert not [one.detector for one in said.outcomes if one.outcome == "clean"]
