"""Random nanosecond stamps through every format and back: not one may move.

A tenth of a tenth of the stamps in `make test`, all million in `make torture`.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from npulens import ingest
from npulens.ingest.store import runs

#: 2026, where float64 microseconds move in steps of 0.25 us.
EPOCH = 1_780_000_000_000_000_000
Stamps = list[tuple[int, int]]  # start, duration; ns


def stamps(count: int, seed: int) -> Stamps:
    dice = random.Random(seed)
    return [(EPOCH + dice.randrange(10**12), dice.randrange(10**7)) for _ in range(count)]


def us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def trace_view(path: Path, rows: Stamps) -> Path:
    with (path / "trace_view.json").open("w") as out:
        out.write('[{"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "Python"}}')
        for ts, dur in rows:
            out.write(
                f',{{"ph":"X","name":"op","pid":7,"tid":7,"ts":"{us(ts)}","dur":{us(dur)},"cat":"cpu_op","args":{{}}}}'
            )
        out.write("]")
    return path


def kineto_number(path: Path, rows: Stamps) -> Path:
    with (path / "trace.json").open("w") as out:
        out.write(
            '{"schemaVersion": 1, "traceEvents": [{"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, '
            '"args": {"name": "python"}}'
        )
        for ts, dur in rows:
            out.write(f',{{"ph":"X","cat":"cpu_op","name":"op","pid":7,"tid":7,"ts":{us(ts)},"dur":{us(dur)}}}')
        out.write("]}")
    return path / "trace.json"


def kineto_based(path: Path, rows: Stamps) -> Path:
    with (path / "trace.json").open("w") as out:
        out.write(f'{{"schemaVersion": 1, "baseTimeNanoseconds": {EPOCH}, "traceEvents": [')
        out.write(",".join(
            f'{{"ph":"X","cat":"cpu_op","name":"op","pid":7,"tid":7,"ts":{us(ts - EPOCH)},"dur":{us(dur)}}}'
            for ts, dur in rows
        ))  # fmt: skip
        out.write("]}")
    return path / "trace.json"


def kernel_details(path: Path, rows: Stamps) -> Path:
    with (path / "kernel_details.csv").open("w", newline="") as out:
        out.write("Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim\r\n")
        for ts, dur in rows:
            out.write(f"1,op,N/A,N/A,{us(ts)}\t,{us(dur)},0,1\r\n")
    return path


def database(path: Path, rows: Stamps) -> Path:
    con = sqlite3.connect(path / "ascend_pytorch_profiler_0.db")
    con.execute("CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT)")
    con.execute("CREATE TABLE ENUM_API_TYPE (id INTEGER PRIMARY KEY, name TEXT)")
    con.execute(
        "CREATE TABLE PYTORCH_API (startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, "
        "sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, "
        "type INTEGER)"
    )
    con.execute("INSERT INTO STRING_IDS VALUES (1, 'op')")
    con.execute("INSERT INTO ENUM_API_TYPE VALUES (50001, 'op')")
    con.executemany(
        "INSERT INTO PYTORCH_API VALUES (?, ?, ?, NULL, 1, NULL, NULL, NULL, NULL, NULL, 50001)",
        ((str(ts), str(ts + dur), (7 << 32) | 7) for ts, dur in rows),
    )
    con.commit()
    con.close()
    return path


FORMATS: list[Callable[[Path, Stamps], Path]] = [trace_view, kineto_number, kineto_based, kernel_details, database]


def there_and_back(write: Callable[[Path, Stamps], Path], path: Path, count: int) -> None:
    rows = stamps(count, seed=count)
    run = ingest.load(write(path, rows), path / "store").runs[0]
    assert run.run_id, run.reason
    con = runs.open_run(path / "store", run.run_id)
    origin = con.execute("SELECT origin_ns FROM run").fetchall()[0][0]
    assert origin == min(ts for ts, _ in rows)
    found = con.execute("SELECT ts_ns, dur_ns FROM span").fetchall()
    assert sorted((ts + origin, dur) for ts, dur in found) == sorted(rows)


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_ten_thousand_stamps_there_and_back(write: Callable[[Path, Stamps], Path], tmp_path: Path) -> None:
    there_and_back(write, tmp_path, 10_000)


@pytest.mark.torture
@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_a_million_stamps_there_and_back(write: Callable[[Path, Stamps], Path], tmp_path: Path) -> None:
    there_and_back(write, tmp_path, 1_000_000)
