"""Faults of the device: what was planted is in the loaded tables, found by plain SQL, and costs what it was meant to.

Nothing here asks a detector. The twin without the fault draws the same noise, so kernels can be compared one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from npulens import ingest
from npulens.collectors.planting.__main__ import replicate
from npulens.collectors.planting.plant import Case, Options, plan, write
from npulens.collectors.scenarios.unfused import FAMILIES, WRITTEN_OUT
from npulens.collectors.simulator.job import Job, Kernel, Span
from npulens.collectors.simulator.simulate import simulate
from npulens.ingest.store import runs

DEVICE = ("unfused", "copy_exposed", "aicpu", "layout_conversion", "slow_tail", "frequency_drop", "idle_cores",
          "comm_exposed", "low_efficiency", "pipe_stall")  # fmt: skip
STEPS = 2
CASES = [(name, seed, fmt) for name in DEVICE for seed, fmt in ((1, "text"), (2, "db"))]


@pytest.fixture(scope="module", params=CASES, ids=lambda p: "-".join(map(str, p)))
def planted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    name, seed, fmt = request.param
    case = plan([name], seed, Options(ranks=2, steps=STEPS, level=2, format=fmt, missing_ranks=0, skew_ns=0))
    home = tmp_path_factory.mktemp(name)
    write(case, home)
    run = ingest.load(home / "capture", home / "store").runs[0]
    assert run.run_id, run.error
    return Planted(name, case, runs.open_run(home / "store", run.run_id))


class Planted:
    def __init__(self, name: str, case: Case, con: duckdb.DuckDBPyConnection) -> None:
        self.name, self.case, self.con = name, case, con
        self.fault, self.truth = case.faults[0], case.truths[0]
        self.twin = simulate(case.config)
        self.ranks = range(case.config.ranks) if self.fault.rank is None else (self.fault.rank,)

    def ask(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.con.execute(sql, parameters).fetchall()


def kernels(job: Job, rank: int) -> list[tuple[Span, Kernel]]:
    return [(s, s.detail) for s in job.ranks[rank].of("kernel", "memset") if isinstance(s.detail, Kernel)]


def test_the_gain_is_a_share_worth_finding(planted: Planted) -> None:
    case = planted.case
    assert [truth.fault.cause for truth in case.truths] == [planted.name]
    assert 0.025 * case.step_ns < planted.truth.gain_ns < 0.5 * case.step_ns
    assert {window.rank for window in planted.truth.windows} >= set(planted.ranks)


def test_the_step_grew_by_what_the_slowest_rank_got_more_to_do(planted: Planted) -> None:
    """The job is bound by the device, so the gain is the work that was added (communication apart)."""
    more = []
    for rank in planted.ranks:
        kinds = ("kernel", "memset", "memcpy")
        after, before = (sum(s.dur_ns for s in job.ranks[rank].of(*kinds)) for job in (planted.case.job, planted.twin))
        more.append((after - before) / planted.case.config.steps)
    if planted.name != "comm_exposed":  # it adds no work; its transfers are compared below
        assert planted.truth.gain_ns == pytest.approx(max(more), rel=0.05)


@pytest.mark.parametrize("name", DEVICE)
def test_the_same_seed_writes_the_same_bytes(name: str, tmp_path: Path) -> None:
    for where in ("one", "two"):
        write(plan([name], 7, Options(ranks=2, steps=1, level=1, format="text")), tmp_path / where)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) > 8
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_a_long_capture_repeats_steps_kernels_and_truth(tmp_path: Path) -> None:
    """Laid end to end: the same kernels and types in each lap, where the truth says, and no session in between."""
    case = plan(["aicpu"], 3, Options(ranks=2, steps=2, level=1, format="text", missing_ranks=0, skew_ns=0))
    truth = replicate(case, tmp_path, laps=3)
    con = runs.open_run(tmp_path / "store", str(ingest.load(tmp_path / "capture", tmp_path / "store").runs[0].run_id))
    slow = con.execute("SELECT s.rank, ts_ns, dur_ns FROM span s JOIN kernel USING (span_id) WHERE core = 'AI_CPU'")
    windows = truth["faults"][0]["windows"]
    found, ranks = slow.fetchall(), range(2)
    once = sum(s.dur_ns for rank in ranks for s, k in kernels(case.job, rank) if k.core == "AI_CPU")
    assert sum(row[2] for row in found) == 3 * once
    for rank, ts, ns in found:
        assert any(w["rank"] == rank and w["ts_ns"] <= ts and ts + ns <= w["ts_ns"] + w["dur_ns"] for w in windows)
    assert con.execute("SELECT rank, count(*), count(DISTINCT step) FROM step GROUP BY 1 ORDER BY 1").fetchall() == [
        (rank, 6, 6) for rank in ranks
    ]
    assert con.execute("SELECT count(*) FROM kernel WHERE op_type IS NULL").fetchall() == [(0,)]
    assert con.execute("SELECT count(*) FROM span WHERE name LIKE 'PROFILING%'").fetchall() == [(0,)]


def test_the_signature_is_in_the_tables(planted: Planted) -> None:
    SIGNATURES[planted.name](planted)


def aicpu(planted: Planted) -> None:
    found = planted.ask("SELECT rank, sum(dur_ns), min(block_num), max(block_num) FROM span JOIN kernel "
                        "USING (span_id, rank) WHERE core = 'AI_CPU' GROUP BY 1 ORDER BY 1")  # fmt: skip
    assert [row[0] for row in found] == list(planted.ranks)
    for rank, total, least, most in found:
        assert total == sum(s.dur_ns for s, k in kernels(planted.case.job, rank) if k.core == "AI_CPU")
        assert (least, most) == (1, 1)
        assert total == pytest.approx(planted.truth.gain_ns * STEPS, rel=0.03)
    assert not planted.ask("SELECT 1 FROM kernel JOIN pmu USING (span_id) WHERE core = 'AI_CPU'")
    assert not [k for rank in range(2) for _, k in kernels(planted.twin, rank) if k.core == "AI_CPU"]


def layout_conversion(planted: Planted) -> None:
    found = planted.ask("SELECT rank, sum(dur_ns) FROM span JOIN kernel USING (span_id, rank) "
                        "WHERE op_type IN ('TransData', 'Cast', 'Transpose') "
                        "AND (input_shapes, input_dtypes, input_formats) <> "
                        "(output_shapes, output_dtypes, output_formats) GROUP BY 1 ORDER BY 1")  # fmt: skip
    assert [row[0] for row in found] == list(planted.ranks)
    for _, total in found:
        assert total == pytest.approx(planted.truth.gain_ns * STEPS, rel=0.03)


def slow_tail(planted: Planted) -> None:
    """Outliers of a name and shape on a rank, by the median of their kind."""
    found = planted.ask(
        "WITH k AS (SELECT rank, dur_ns, median(dur_ns) OVER (PARTITION BY rank, name, input_shapes) AS usual "
        "FROM span JOIN kernel USING (span_id, rank)) SELECT rank, count(*), sum(dur_ns - usual) FROM k "
        "WHERE dur_ns > 1.7 * usual AND usual > 20000 GROUP BY 1 ORDER BY 1"
    )
    assert [row[0] for row in found] == list(planted.ranks)
    for rank, count, more in found:
        pairs = zip(kernels(planted.case.job, rank), kernels(planted.twin, rank), strict=True)
        assert count == sum(one.dur_ns > 1.5 * other.dur_ns for (one, _), (other, _) in pairs)
        assert more == pytest.approx(planted.truth.gain_ns * STEPS, rel=0.05)


def frequency_drop(planted: Planted) -> None:
    (_, first, last, mhz), *_ = planted.fault.changes["clocks"]
    for rank in range(2):
        sql = "SELECT value FROM sample WHERE counter = 'AI Core Freq' AND rank = ? ORDER BY ts_ns"
        values = planted.ask(sql, rank)
        if rank not in planted.ranks:
            assert {value for (value,) in values} == {1800}
            continue
        assert {value for (value,) in values} == {1800, mhz}
        low = planted.ask(
            "WITH f AS (SELECT rank, ts_ns, value, lead(ts_ns) OVER (PARTITION BY rank ORDER BY ts_ns) AS until "
            "FROM sample WHERE counter = 'AI Core Freq') SELECT s.dur_ns FROM span s JOIN kernel k USING (span_id) "
            "JOIN f ON f.rank = s.rank AND f.ts_ns <= s.ts_ns AND s.ts_ns < f.until "
            "WHERE s.rank = ? AND value < 1800 AND op_type = 'MatMulV2' ORDER BY s.ts_ns",
            rank,
        )
        usual = [s.dur_ns for s, k in kernels(planted.twin, rank) if k.op_type == "MatMulV2"]
        share = (last - first + 1) / STEPS
        assert len(low) == round(share * len(usual))
        steps = slice(round((first - planted.case.config.first_step) / STEPS * len(usual)), None)
        for (slow,), ns in zip(low, usual[steps], strict=False):
            assert slow == pytest.approx(ns * 1800 / mhz, rel=1e-4)


def idle_cores(planted: Planted) -> None:
    found = planted.ask("SELECT rank, op_type, block_num, sum(dur_ns) FROM span JOIN kernel USING (span_id, rank) "
                        "WHERE block_num BETWEEN 1 AND 8 GROUP BY ALL ORDER BY 1")  # fmt: skip
    assert [row[0] for row in found] == list(planted.ranks)
    for rank, op_type, blocks, total in found:
        usual = [(s.dur_ns, k.block_num) for s, k in kernels(planted.twin, rank) if k.op_type == op_type]
        before, cores = sum(ns for ns, _ in usual), usual[0][1]
        assert total - before == pytest.approx(planted.truth.gain_ns * STEPS, rel=0.05)
        assert 0.55 < total / before / (cores / blocks) <= 1.05


def low_efficiency(planted: Planted) -> None:
    """Products of one shape reach less than two fifths of the 353.9 TFLOP/s of the cube; those of the twin reach it."""
    sql = ("SELECT s.rank, input_shapes, sum(dur_ns), count(*), avg(dur_ns) FROM span s JOIN kernel USING (span_id) "
           "WHERE op_type = 'MatMulV2' GROUP BY ALL")  # fmt: skip
    more = dict.fromkeys(planted.ranks, 0)
    slow = set()
    for rank, shapes, total, count, each in planted.ask(sql):
        (m, k), (_, n) = (map(int, side.split(",")) for side in shapes.strip('"').split(";"))
        usual = [s.dur_ns for s, kernel in kernels(planted.twin, rank) if kernel.inputs.shapes == shapes.strip('"')]
        share, before = (2 * m * k * n / 353.9e12 * 1e9 / ns for ns in (each, sum(usual) / len(usual)))
        assert len(usual) == count and 0.6 < before <= 1
        if share < 0.4:
            slow.add((rank, shapes))
            more[rank] += total - sum(usual)
        else:
            assert share == pytest.approx(before, rel=0.01)
    assert {rank for rank, _ in slow} == set(planted.ranks) and len({shapes for _, shapes in slow}) == 1
    for rank in planted.ranks:
        assert more[rank] == pytest.approx(planted.truth.gain_ns * STEPS, rel=0.05)


def pipe_stall(planted: Planted) -> None:
    """Kernels of one type whose pipes that compute and move are not busy for half of the time, but for mte2 alone."""
    found = planted.ask(
        "WITH k AS (SELECT span_id, max(value) FILTER (metric SIMILAR TO 'ai._(mac|vec)_ratio') AS computes, "
        "max(value) FILTER (metric NOT SIMILAR TO 'ai._(mac|vec)_ratio') AS other FROM pmu "
        "WHERE metric LIKE '%_ratio' GROUP BY 1) SELECT s.rank, op_type, sum(dur_ns), max(other) FROM k "
        "JOIN span s USING (span_id) JOIN kernel USING (span_id) WHERE computes < 0.47 GROUP BY ALL ORDER BY 1"
    )
    assert [row[0] for row in found] == list(planted.ranks) and len({row[1] for row in found}) == 1
    for rank, op_type, total, other in found:
        before = sum(s.dur_ns for s, k in kernels(planted.twin, rank) if k.op_type == op_type)
        assert total - before == pytest.approx(planted.truth.gain_ns * STEPS, rel=0.05)
        assert other < 0.5 or other > 0.75
    healthy = [dict(k.pmu) for rank in range(2) for _, k in kernels(planted.twin, rank) if k.pmu]
    assert min(max(value for name, value in pmu.items() if name.endswith("_ratio")) for pmu in healthy) > 0.6


def copy_exposed(planted: Planted) -> None:
    """Copies of more than a megabyte between host and device, with nothing computed meanwhile."""
    found = planted.ask("SELECT rank, sum(dur_ns) FROM span JOIN transfer USING (span_id, rank) "
                        "WHERE direction IN ('h2d', 'd2h') AND bytes > 1000000 GROUP BY 1 ORDER BY 1")  # fmt: skip
    assert [row[0] for row in found] == list(planted.ranks)
    for _, total in found:
        assert total == pytest.approx(planted.truth.gain_ns * STEPS, rel=0.05)
    beside = planted.ask("SELECT count(*) FROM span c JOIN transfer t USING (span_id) JOIN span k ON k.rank = c.rank "
                         "AND k.kind = 'kernel' AND k.ts_ns < c.ts_ns + c.dur_ns AND c.ts_ns < k.ts_ns + k.dur_ns "
                         "JOIN kernel USING (span_id) WHERE t.bytes > 1000000 AND core <> 'DSA_SQE'")  # fmt: skip
    assert beside == [(0,)]


def comm_exposed(planted: Planted) -> None:
    """Time of collectives that no kernel covers, per rank: it is what the step got longer by."""
    for rank in range(2):
        spans = planted.ask("SELECT ts_ns, ts_ns + dur_ns, kind = 'comm_op' FROM span WHERE rank = ? "
                            "AND kind IN ('comm_op', 'kernel') ORDER BY 1", rank)  # fmt: skip
        exposed = uncovered([row[:2] for row in spans if row[2]], [row[:2] for row in spans if not row[2]])
        assert exposed == pytest.approx(planted.truth.gain_ns * STEPS, rel=0.1)


def unfused(planted: Planted) -> None:
    for rank in planted.ranks:
        types = [row[0] for row in planted.ask(
            "SELECT op_type FROM span JOIN kernel USING (span_id) WHERE span.rank = ? AND stream = 2 ORDER BY ts_ns",
            rank,
        )]
        usual = [k.op_type for _, k in kernels(planted.twin, rank)]
        gone = [kind for family in FAMILIES for kind in family if kind in usual and kind not in types]
        assert gone
        for kind in gone:
            inside = {other: occurrences(chain(other), chain(kind)) for other in gone}  # one formula may hold another
            assert occurrences(types, chain(kind)) == sum(usual.count(other) * n for other, n in inside.items()), kind


def chain(kind: str) -> list[str]:
    return [piece.op_type for piece in WRITTEN_OUT[kind]]


def occurrences(types: list[str], wanted: list[str]) -> int:
    return sum(types[at : at + len(wanted)] == wanted for at in range(len(types)))


def uncovered(spans: list[tuple[int, int]], by: list[tuple[int, int]]) -> int:
    """What of disjoint spans no other covers, moment by moment."""
    edges = sorted([(t, 0, d) for a, b in spans for t, d in ((a, 1), (b, -1))]
                   + [(t, 1, d) for a, b in by for t, d in ((a, 1), (b, -1))])  # fmt: skip
    depth, total, before = [0, 0], 0, 0
    for ts, which, change in edges:
        total += (ts - before) * (depth[0] > 0 and depth[1] == 0)
        depth[which] += change
        before = ts
    return total


SIGNATURES = {test.__name__: test for test in (
    aicpu, layout_conversion, slow_tail, frequency_drop, idle_cores, copy_exposed, comm_exposed, unfused,
    low_efficiency, pipe_stall)}  # fmt: skip
