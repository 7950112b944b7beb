"""SQLite databases: what their schema may do, what their values may be, and what may be left of their pages."""

from __future__ import annotations

import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.hostile.planted import Kind, Planted, damaged
from tests.torch_npu_db_files import CANN, NONE, NOW, PYTORCH, Maker

RANKS = Path(__file__).resolve().parents[2] / "sample_traces" / "torch_npu_db"
SAMPLE = next(RANKS.glob("*_200000_*/*/ascend_pytorch_profiler_0.db"))
NAME = "ascend_pytorch_profiler_0.db"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
COLUMNS = ("startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "globalPid", "taskType", "contextId",
           "streamId", "taskId", "modelId")  # fmt: skip


def made(directory: Path, tasks: int = 10, name: str = NAME) -> Maker:
    """A small database: so many kernels on a stream, and a host call."""
    maker = Maker(directory / name)
    maker.con.execute("BEGIN")
    maker.table(PYTORCH, (str(NOW), str(NOW + 5), 77 << 32 | 1, NONE, "aten::add", 50001))
    for number in range(tasks):
        maker.task(number, "KERNEL_AICORE", 100 + 10 * number, 105 + 10 * number)
    maker.con.execute("COMMIT")
    return maker


def finished(maker: Maker) -> Path:
    maker.con.close()
    return maker.path


Schema = Callable[[sqlite3.Connection], object]


def _sql(*statements: str) -> Schema:
    return lambda con: [con.execute(statement) for statement in statements]


AS_TASK = ", ".join(f"i AS {name}" for name in COLUMNS)
ACTING: tuple[Schema, ...] = (
    _sql(f"CREATE VIEW COMMUNICATION_OP AS {ENDLESS.format('i AS startNs, i AS endNs, i AS opName')}"),
    _sql("ALTER TABLE TASK RENAME TO T2", f"CREATE VIEW TASK AS {ENDLESS.format(AS_TASK)}"),
    _sql("ALTER TABLE STRING_IDS RENAME TO S2", f"CREATE VIEW STRING_IDS AS {ENDLESS.format('i AS id, i AS value')}"),
    _sql("CREATE VIEW META_DATA AS SELECT 'a' AS name, printf('%.*c', 500000000, 'x') AS value"),
    _sql("CREATE VIEW HOST_INFO AS SELECT load_extension('/nowhere') AS hostUid, 1 AS hostName"),
    _sql("CREATE VIEW NPU_INFO AS SELECT writefile('/nowhere/x', 'y') AS id, readfile('/etc/passwd') AS name"),
    _sql("CREATE VIEW SESSION_TIME_INFO AS SELECT * FROM SESSION_TIME_INFO2",
         "CREATE VIEW SESSION_TIME_INFO2 AS SELECT * FROM SESSION_TIME_INFO"),
    _sql(f"CREATE TRIGGER t AFTER INSERT ON TASK BEGIN INSERT INTO TASK {ENDLESS.format(', '.join('i' * 11))}; END"),
    _sql("CREATE TRIGGER t2 BEFORE DELETE ON STRING_IDS BEGIN SELECT randomblob(900000000); END"),
    _sql("ALTER TABLE TASK ADD COLUMN big AS (zeroblob(900000000))"),
    _sql("CREATE TABLE MEMCPY_INFO(globalTaskId, size AS (zeroblob(900000000)), memcpyOperation AS (1))"),
    _sql("CREATE TABLE META_DATA(name TEXT, value AS (printf('%.*c', 900000000, 'x')))",
         "INSERT INTO META_DATA(name) VALUES ('parallel_group_info')"),
    _sql("CREATE VIRTUAL TABLE CANN_API USING fts5(name, startNs)", "INSERT INTO CANN_API VALUES ('a', 'b')"),
    _sql("CREATE VIRTUAL TABLE GC_RECORD USING rtree(id, startNs, endNs)"),
    _sql("CREATE INDEX i ON TASK(abs(startNs))", "CREATE INDEX i2 ON TASK(startNs) WHERE endNs > 5"),
    _sql("PRAGMA writable_schema=ON",
         "UPDATE sqlite_master SET sql = 'CREATE TABLE TASK(startNs, endNs DEFAULT (randomblob(900000000)))' "
         "WHERE name = 'TASK'"),
    _sql("PRAGMA writable_schema=ON", "UPDATE sqlite_master SET sql = 'garbage' WHERE name = 'STRING_IDS'"),
    _sql("PRAGMA writable_schema=ON", "UPDATE sqlite_master SET rootpage = 1 WHERE name = 'TASK'"),
    _sql("PRAGMA writable_schema=ON", "UPDATE sqlite_master SET rootpage = 99999999 WHERE name = 'TASK'"),
    _sql("PRAGMA writable_schema=ON", "UPDATE sqlite_master SET name = 'sqlite_x', tbl_name = 'x' WHERE name = 'TASK'"),
    _sql("PRAGMA writable_schema=ON", "UPDATE sqlite_master SET type = 'view' WHERE name = 'TASK'"),
    _sql("PRAGMA writable_schema=ON", "UPDATE sqlite_master SET name = x'ff00fe' WHERE name = 'TASK'"),
    _sql("PRAGMA writable_schema=ON",
         "UPDATE sqlite_master SET sql = 'CREATE TABLE TASK(' || replace(hex(zeroblob(9000)), '00', 'a,') || 'b)' "
         "WHERE name = 'TASK'"),
    _sql(*(f"CREATE TABLE t{i}(a)" for i in range(3000))),
    _sql("CREATE TABLE wide(" + ",".join(f"c{i}" for i in range(1900)) + ")"),
    _sql("CREATE TABLE \"a\nb'c\"\"d<img>\"(\"x\"\"y\")", 'CREATE TABLE "\u202eKSAT"(a)', 'CREATE TABLE ""(a)'),
    _sql("CREATE TABLE sqlite_stat9(a)" .replace("sqlite_stat9", "Task2"), "PRAGMA user_version=-1"),
    _sql("PRAGMA auto_vacuum=FULL", "VACUUM"), _sql("PRAGMA page_size=65536", "VACUUM"),
    _sql("PRAGMA page_size=512", "VACUUM"), _sql("DELETE FROM TASK"), _sql("DROP TABLE STRING_IDS"),
    _sql("DROP TABLE TASK"), _sql("DROP TABLE TASK", "DROP TABLE PYTORCH_API", "DROP TABLE STRING_IDS"),
)  # fmt: skip


def _acting(directory: Path, dice: random.Random, number: int) -> Planted:
    """A schema that would act, lie or never end."""
    maker = made(directory)
    ACTING[number % len(ACTING)](maker.con)
    return Planted(finished(maker))


VALUES: tuple[object, ...] = (
    None, 0, -1, 1.5, 1e300, float("inf"), -float("inf"), "", "x", "12", " 12 ", "1e5", "9223372036854775807",
    "9223372036854775808", 2**63 - 1, -(2**63), 4 * 10**18, 4 * 10**18 + 1, 4294967295, b"", b"\xff\xfe", b"12",
    "\x00", "é", "\u202e", b"\xed\xa0\x80", "x" * 100_000, b"\0" * 100_000, NOW, NOW + 10**15, 2**53 + 1,
)  # fmt: skip


def _values(directory: Path, dice: random.Random, number: int) -> Planted:
    """A column's values are of any type: the row is kept without them, or counted."""
    maker = made(directory)
    for i in range(6):
        cells: list[object] = [NOW + 900 + i, NOW + 950 + i, 3, NONE, 100 + i, 77, 101, NONE, 1, 100 + i, NONE]
        cells[(number + i) % 11] = VALUES[(number // 11 + i) % len(VALUES)]
        maker.con.execute(f"INSERT INTO TASK VALUES ({', '.join('?' * 11)})", cells)
    return Planted(finished(maker), least={"span": 17})


def _texts(directory: Path, dice: random.Random, number: int) -> Planted:
    """Names, calls and sizes that are no text, no number or far too long; ids that repeat or lead nowhere."""
    maker = made(directory)
    for i in range(8):
        value = VALUES[(number * 8 + i) % len(VALUES)]
        maker.con.execute("INSERT INTO STRING_IDS VALUES (?, ?)", (dice.choice((100, 101, 500 + i, None, -1)), value))
        maker.con.execute("INSERT INTO PYTORCH_API VALUES (?, ?, ?, ?, ?, ?)",
                          (NOW + 10 * i, NOW + 10 * i + 5, 77 << 32 | 1, NONE, dice.choice((500 + i, value)), 50001))
        maker.table(CANN, (NOW + i, NOW + i + 5, 20000, 77 << 32 | 2, i, (value,)))
        told = dice.choice(("rank_id", "parallel_group_info", "x"))
        maker.table("META_DATA(name TEXT, value TEXT)", ((told,), (value,)))
        maker.table("RANK_DEVICE_MAP(rankId INTEGER, deviceId INTEGER)", ((value,), (value,)))
        maker.table("COMPUTE_TASK_INFO(name, globalTaskId, blockDim, taskType, opType, inputShapes)",
                    ((value,), i, (value,), "AI_CORE", "MatMul", (value,)))
        maker.table("MEMCPY_INFO(globalTaskId, size, memcpyOperation)", (i, (value,), (value,)))
        maker.table("AICORE_FREQ(deviceId, timestampNs, freq)", (0, (value,), (value,)))
        maker.table("STEP_TIME(id, startNs, endNs)", (i, (value,), NOW + 90))
    return Planted(finished(maker), least={"span": 10 + 1 + 8 + 8})


def _wal(directory: Path, dice: random.Random, number: int) -> Planted:
    """Killed before the checkpoint: most rows are in the log, which may itself be cut, damaged or another file's."""
    maker = made(directory, name="live.db")
    maker.con.execute("PRAGMA journal_mode=WAL")
    maker.con.execute("PRAGMA wal_autocheckpoint=0")
    maker.con.execute("BEGIN")
    for i in range(500):
        maker.task(1000 + i, "KERNEL_AICORE", 10_000 + 10 * i, 10_005 + 10 * i)
    maker.con.execute("COMMIT")
    log = (directory / "live.db-wal").read_bytes()
    shutil.copy(directory / "live.db", directory / NAME)
    maker.con.close()
    (directory / "live.db").unlink()
    rows: dict[str, int] = {}
    match number % 6:
        case 0:
            rows = {"span": 511}
        case 1:
            log = log[: dice.randrange(len(log))]
        case 2 | 3:
            log = damaged(log, dice)
        case 4:
            log, rows = dice.randbytes(5000), {"span": 11}
        case _:
            log = log[:24] + dice.randbytes(8) + log[32:]
    (directory / (NAME + ("-wal" if number % 12 < 11 else "-journal"))).write_bytes(log)
    if number % 12 == 11:
        rows = {}
    return Planted(directory / NAME, rows=rows)


@cache
def _sample() -> bytes:
    return SAMPLE.read_bytes()


def _cut(directory: Path, dice: random.Random, number: int) -> Planted:
    """Cut short: refused, or less than everything and said to be partial."""
    data = _sample()
    (directory / NAME).write_bytes(data[: dice.randrange(1, len(data) - 4096)])
    return Planted(directory / NAME, status=("partial", "refused"))


def _pages(directory: Path, dice: random.Random, number: int) -> Planted:
    """Whole pages zeroed, swapped, filled with noise, or pointing at each other."""
    raw = bytearray(_sample())
    size = 4096
    for _ in range(dice.choice((1, 3, 20))):
        a, b = (dice.randrange(1, len(raw) // size) * size for _ in range(2))
        match dice.randrange(5):
            case 0:
                raw[a : a + size] = bytes(size)
            case 1:
                raw[a : a + size], raw[b : b + size] = raw[b : b + size], raw[a : a + size]
            case 2:
                raw[a : a + size] = dice.randbytes(size)
            case 3:
                raw[a + 3 : a + 5] = struct.pack(">H", dice.choice((0, 65535, 400)))
            case _:
                raw[a] = dice.choice((2, 5, 10, 13))
                raw[a + 8 : a + 12] = struct.pack(">I", dice.choice((1, a // size + 1, b // size + 1, 2**31)))
    (directory / NAME).write_bytes(raw)
    return Planted(directory / NAME)


def _flip(directory: Path, dice: random.Random, number: int) -> Planted:
    (directory / NAME).write_bytes(damaged(_sample(), dice))
    return Planted(directory / NAME)


def _header(directory: Path, dice: random.Random, number: int) -> Planted:
    """The hundred bytes that say how the rest is to be read."""
    raw = bytearray(_sample())
    at, length = ((16, 2), (18, 1), (19, 1), (20, 1), (21, 1), (24, 4), (28, 4), (32, 4), (36, 4), (40, 4), (44, 4),
                  (52, 4), (56, 4), (64, 4), (92, 4), (96, 4), (100, 8))[number % 17]  # fmt: skip
    raw[at : at + length] = dice.choice((bytes(length), b"\xff" * length, b"\x7f" + b"\xff" * (length - 1),
                                         dice.randbytes(length), b"\0" * (length - 1) + b"\1"))
    (directory / NAME).write_bytes(raw)
    return Planted(directory / NAME)


def _huge(directory: Path, dice: random.Random, number: int) -> Planted:
    """Values of many megabytes, very many texts, very many rows of nothing."""
    maker = made(directory)
    size = (1 << 20, 20 << 20, 63 << 20, 65 << 20, 100 << 20)[number % 5]
    match number // 5:
        case 0:
            maker.con.execute("INSERT INTO STRING_IDS VALUES (900, zeroblob(?))", (size,))
        case 1:
            maker.con.execute(f"INSERT INTO TASK SELECT {', '.join(['zeroblob(?1)'] + ['1'] * 10)}", (size,))
        case 2:
            maker.con.execute("CREATE TABLE META_DATA(name TEXT, value TEXT)")
            maker.con.execute("INSERT INTO META_DATA VALUES ('parallel_group_info', printf('%.*c', ?, '['))", (size,))
        case 3:
            maker.con.execute("CREATE TABLE unheard_of(a)")
            maker.con.execute("INSERT INTO unheard_of VALUES (zeroblob(?))", (size,))
        case _:
            rows = ENDLESS.format("i, 'text ' || i") + f" LIMIT {size >> 8}"
            maker.con.execute("INSERT INTO STRING_IDS " + rows.replace("SELECT i,", "SELECT i + 1000,"))
    return Planted(finished(maker))


KINDS = (
    Kind("database acting", 3 * len(ACTING), _acting),
    Kind("database value", 110, _values),
    Kind("database text", 60, _texts),
    Kind("database log", 60, _wal),
    Kind("database cut", 60, _cut),
    Kind("database pages", 80, _pages),
    Kind("database flip", 100, _flip),
    Kind("database header", 85, _header),
    Kind("database huge", 25, _huge),
)
