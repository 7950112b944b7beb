"""How far the simulated job is from real ones: distributions of both, with their distance, and bounds that can fail.

The real captures are twelve rank directories of one job: a small CNN on Ascend 910B, eight data-parallel ranks of
which two were kept, one step each, at three levels, as text and as database. The simulated job is told to be of that
kind: eight ranks, two kept, small tensors, a host 2.5 times as slow as usual whose times vary by factors, kernels that
vary by 6 % and follow each other after 0.8 us. Both are loaded by the same readers and asked the same SQL.

A distance is the Wasserstein distance of the logarithms to base ten, in decades: 0.3 is a factor of two all along, 1.0
a factor of ten. The spread is the distance of the 10 % from the 90 % quantile, in decades too, so that a simulator of
constants fails however well its medians fit.

What differs, and why the bounds are what they are:

- The real job is a CNN whose tensors change format at every layer; the simulated one is a transformer. Kernel lengths
  are compared by class of core only, and loosely; what does not hang on the model (cost of a launch, latency of an idle
  stream, speed of a link, of memory on the chip and of the bus, length of a notification) is held tighter.
- In all real captures a queued kernel starts 88 us after the one before, whatever the level; all were taken with
  l2_cache=True, which is probably why. The simulated profiler does not do that, so only gaps below 20 us are compared.
- The links of the real mesh of eight carried 15 GB/s each, all at once; the simulated ones 28 GB/s.
- The real script was traced with stacks of all modules and hooks: a thousand frames a step, many below 1 us. The
  simulated one has a dozen a layer. Lengths of Python frames are therefore shown but not bounded.
- The real step is 150 ms of which 100 are a wait for a rank that is late. Here nobody is late: the waits inside
  collectives are shown, and bounded by the scenario of that name, not here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pytest

from npulens import ingest
from npulens.collectors.planting.plant import Options, plan
from npulens.collectors.planting.plant import write as write_case
from npulens.collectors.simulator.simulated import AscendOptions, SimConfig, simulate, write_db, write_text
from npulens.ingest.store import runs as store

Values = npt.NDArray[np.float64]

_SELF = (
    "SELECT s.dur_ns - coalesce(inner_ns, 0) FROM span s LEFT JOIN (SELECT parent_id, sum(dur_ns) inner_ns FROM span "
    "GROUP BY parent_id) c ON c.parent_id = s.span_id WHERE s.kind = "
)
_KERNEL = "SELECT s.dur_ns FROM span s JOIN kernel USING (span_id) WHERE core IN "
_TASK = "FROM span s JOIN comm c USING (span_id) WHERE c.task_type IN "
#: Each kernel with the end of the work before it on its stream, and its earliest launch.
_QUEUED = (
    "WITH work AS (SELECT *, lag(ts_ns + dur_ns) OVER stream AS free, lag(kind) OVER stream AS before FROM span "
    "WHERE kind IN ('kernel', 'memset', 'memcpy', 'wait', 'device_other') "
    "WINDOW stream AS (PARTITION BY track ORDER BY ts_ns)), launch AS (SELECT dst_span_id AS span_id, "
    "min(latency_ns) AS ns FROM link WHERE route = 'host_to_device' GROUP BY 1) "
)


class Quantity(NamedTuple):
    name: str
    sql: str
    distance: float | None  # decades at most; None: shown only
    spread: float = 0.0  # at least this share of the real spread


QUANTITIES = (
    Quantity("kernels on cube cores", _KERNEL + "('AI_CORE', 'MIX_AIC')", 0.45, 0.4),
    Quantity("kernels on vector cores", _KERNEL + "('AI_VECTOR_CORE', 'MIX_AIV')", 0.45, 0.4),
    Quantity("kernels of random numbers", _KERNEL + "('DSA_SQE')", 0.2),
    Quantity("host operators, own time", _SELF + "'cpu_op'", 0.45, 0.35),
    Quantity("Python frames, own time", _SELF + "'python'", None),
    Quantity("Enqueue", "SELECT dur_ns FROM span WHERE kind = 'enqueue'", 0.4, 0.5),
    Quantity("Dequeue", "SELECT dur_ns FROM span WHERE kind = 'dequeue'", 0.4, 0.4),
    Quantity("Node@launch", "SELECT dur_ns FROM span WHERE kind = 'runtime' AND name = 'Node@launch'", 0.35, 0.5),
    Quantity("aclnn calls", "SELECT dur_ns FROM span WHERE kind = 'runtime' AND name LIKE '%@aclnn%' "
             "AND name NOT LIKE '%GetWorkspaceSize'", 0.25, 0.5),
    Quantity("latency of an idle stream", _QUEUED + "SELECT ns FROM work JOIN launch USING (span_id) "
             "WHERE kind = 'kernel' AND ts_ns - ns > free + 5000 AND ns > 0", 0.45, 0.4),
    Quantity("gaps of a full queue < 20 us", _QUEUED + "SELECT ts_ns - free FROM work JOIN launch USING (span_id) "
             "WHERE ts_ns - ns < free - 2000 AND ts_ns - free BETWEEN 1 AND 20000 "
             "AND (kind, before) = ('kernel', 'kernel')", 0.3),
    Quantity("bytes per us over a link", f"SELECT bytes / s.dur_ns * 1000 {_TASK} ('Memcpy', 'Reduce_Inline') "
             "AND link_type = 'HCCS' AND bytes > 100000", 0.4),
    Quantity("bytes per us on the chip", f"SELECT bytes / s.dur_ns * 1000 {_TASK} ('Memcpy') "
             "AND link_type = 'ON_CHIP' AND bytes > 100000", 0.25),
    Quantity("transfers of collectives", f"SELECT s.dur_ns {_TASK} ('Memcpy', 'Reduce_Inline') AND bytes > 100000",
             0.6, 0.5),
    Quantity("Notify_Record", f"SELECT s.dur_ns {_TASK} ('Notify_Record')", 0.1),
    Quantity("Notify_Wait", f"SELECT s.dur_ns {_TASK} ('Notify_Wait')", None),
    Quantity("copies from the host < 64 KB", "SELECT s.dur_ns FROM span s JOIN transfer t USING (span_id) "
             "WHERE direction = 'h2d' AND bytes < 65536", 0.15),
)  # fmt: skip

CONFIG = SimConfig(
    seed=3,
    ranks=8,
    steps=1,
    layers=6,
    hidden=768,
    tokens=2048,
    bucket_layers=2,
    jitter=0.06,
    spread=0.7,
    host_scale=2.5,
    gap_ns=800,
    keyed=True,
)


def quantiles(values: Values) -> Values:
    """The logarithms at 1,001 evenly spaced ranks: two samples of any size can be laid side by side."""
    return np.log10(np.quantile(values[values > 0], np.linspace(0, 1, 1001)))


def distance(one: Values, other: Values) -> float:
    """Wasserstein distance in decades."""
    return float(np.mean(np.abs(quantiles(one) - quantiles(other))))


def spread(values: Values) -> float:
    at = quantiles(values)
    return float(at[900] - at[100])


def ask(runs: Iterable[duckdb.DuckDBPyConnection], sql: str) -> Values:
    """The answers of all runs together."""
    return np.array([row[0] for con in runs for row in con.execute(sql).fetchall()], np.float64)


@pytest.fixture(scope="module")
def real(shared_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> list[duckdb.DuckDBPyConnection]:
    base = shared_traces / "Ascend+msinsight/test/data/pytorch"
    return load([base / export / f"level{level}" for export in ("text", "db") for level in (0, 1, 2)], tmp_path_factory)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[duckdb.DuckDBPyConnection]:
    job = simulate(CONFIG)
    home = tmp_path_factory.mktemp("made")
    write_text(job, home / "text", AscendOptions("Level2"), ranks=(0, 1))
    write_db(job, home / "db", AscendOptions("Level2"), ranks=(0, 1))
    return load([home / "text", home / "db"], tmp_path_factory)


def load(captures: list[Path], factory: pytest.TempPathFactory) -> list[duckdb.DuckDBPyConnection]:
    where = factory.mktemp("store")
    runs = [ingest.load(capture, where).runs[0] for capture in captures]
    assert all(run.run_id for run in runs), [run.error for run in runs]
    return [store.open_run(where, str(run.run_id)) for run in runs]


def row(name: str, ours: Values, theirs: Values) -> str:
    """One line of the table: both medians, both spreads, and the distance."""
    shown = [f"{len(v):>7} {np.median(v):>11,.0f} {spread(v):>6.2f}" for v in (theirs, ours)]
    return f"{name:<30} {shown[0]} | {shown[1]} | {distance(ours, theirs):>8.2f}"


HEAD = f"{'ns, or as named':<30} {'real':>7} {'median':>11} {'spread':>6} | {'made':>7} {'median':>11} {'spread':>6}" \
       " | decades"  # fmt: skip


def wrong(quantity: Quantity, ours: Values, theirs: Values) -> list[str]:
    """What of a quantity is not as it should be."""
    found = []
    if quantity.distance is not None and distance(ours, theirs) > quantity.distance:
        found.append(f"{quantity.name}: {distance(ours, theirs):.2f} decades, at most {quantity.distance}")
    if spread(ours) < quantity.spread * spread(theirs):
        found.append(f"{quantity.name}: spread {spread(ours):.2f}, the real one {spread(theirs):.2f}")
    return found


Runs = list[duckdb.DuckDBPyConnection]


@pytest.mark.shared
def test_the_simulated_job_is_like_the_real_one(real: Runs, made: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    lines, failures = [HEAD], []
    for quantity in QUANTITIES:
        ours, theirs = ask(made, quantity.sql), ask(real, quantity.sql)
        lines.append(row(quantity.name, ours, theirs))
        failures += wrong(quantity, ours, theirs)
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert not failures, "\n".join(failures)


@pytest.mark.shared
def test_the_bounds_notice_a_factor_of_ten_and_constants(real: Runs, made: Runs) -> None:
    for quantity in QUANTITIES:
        ours, theirs = ask(made, quantity.sql), ask(real, quantity.sql)
        if quantity.distance is not None:
            assert wrong(quantity, ours * 10, theirs) and wrong(quantity, ours / 10, theirs), quantity.name
        if quantity.spread:
            assert wrong(quantity, np.full_like(ours, np.median(theirs)), theirs), quantity.name


@pytest.mark.shared
def test_a_kernel_repeats_as_exactly_as_a_real_one(
    real: Runs, made: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same kernel on the same shapes by its median: on the real side over captures of the same script."""
    ours, theirs = repeats(made[:1], "0"), repeats(real, "row_number() OVER (PARTITION BY s.rank, name, input_shapes "
                                                         "ORDER BY ts_ns)")  # fmt: skip
    with capsys.disabled():
        print()
        for core in ("AI_CORE", "AI_VECTOR_CORE"):
            print(row(f"{core} by its median, in 1/1000", ours[core], theirs[core]))
    for core in ("AI_CORE", "AI_VECTOR_CORE"):
        assert distance(ours[core], theirs[core]) < 0.03
        assert spread(ours[core]) > 0.3 * spread(theirs[core])


def repeats(runs: Runs, ordinal: str) -> dict[str, Values]:
    """Thousandths of the median of the same kernel, by core."""
    times: dict[tuple[str, ...], list[int]] = {}
    sql = f"SELECT core, name, input_shapes, {ordinal}, dur_ns FROM span s JOIN kernel k USING (span_id) " \
          "WHERE input_shapes IS NOT NULL"  # fmt: skip
    for con in runs:
        for *key, ns in con.execute(sql).fetchall():
            times.setdefault(tuple(key), []).append(ns)
    found: dict[str, list[float]] = {}
    for (core, *_), several in times.items():
        usual = float(np.median(several))
        if usual > 5_000 and len(several) >= 6:
            found.setdefault(core, []).extend(1_000 * ns / usual for ns in several)
    return {core: np.array(shares) for core, shares in found.items()}


# -- dialects ----------------------------------------------------------------------------------------------------------

_LAUNCHED = (
    "SELECT avg((span_id IN (SELECT dst_span_id FROM link WHERE route = 'host_to_device'))::INT) FROM span WHERE "
)
#: What sets a 910A apart, each as one number, and by how much real and made may differ.
OF_910A = (
    ("events, longest ns", "SELECT max(dur_ns) FROM span WHERE name IN ('EVENT_WAIT', 'EVENT_RECORD')", 10),
    ("events with a launch", f"{_LAUNCHED} name IN ('EVENT_WAIT', 'EVENT_RECORD')", 0),
    ("copies with a launch", f"{_LAUNCHED} kind = 'memcpy'", 0),
    ("kernels with a launch", f"{_LAUNCHED} kind = 'kernel' AND name <> 'Other'", 0.05),
    ("tasks named Other with a launch", f"{_LAUNCHED} name = 'Other'", 0),
)


@pytest.mark.shared
@pytest.mark.parametrize("export", ["text", "db"])
def test_a_910a_is_like_the_real_one(
    export: str, shared_traces: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    real = shared_traces.parent / "traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch" / export / "level1"
    if not real.is_dir():
        pytest.skip("the real captures (../shared/traces_2) are not here")
    home = tmp_path_factory.mktemp("made")
    write_case(plan([], 1, Options(ranks=4, steps=2, level=1, format=export, missing_ranks=2, dialect="910a")), home)
    (theirs,), (ours,) = load([real], tmp_path_factory), load([home / "capture"], tmp_path_factory)
    lines, failures = [], []
    for name, sql, most in OF_910A:
        one, other = (float(con.execute(sql).fetchall()[0][0]) for con in (theirs, ours))
        lines.append(f"{name:<34} {one:>8.3f} {other:>8.3f}")
        if abs(one - other) > most:
            failures.append(lines[-1])
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert not failures, "\n".join(failures)
