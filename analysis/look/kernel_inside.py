"""What goes on inside a kernel: its pipes, its caches, what it moves, how even its blocks are, its hottest lines.

`msprof op` counts block by block, the simulator of it instruction by instruction, and a profiled job kernel by kernel.
Each is a unit here: a share is that of the units' whole time, beside the highest of any unit.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import duckdb

from npulens.analysis.device.abilities import UNNAMED, Device, device
from npulens.analysis.run import Run
from npulens.analysis.work.operators import PIPES

#: A pipe that is busy for less than this is not what a kernel is bound by.
BUSY = 0.5
#: The slowest unit over the mean, from which on blocks are told to be uneven.
UNEVEN = 1.2
_MOST = 50
_KIB, _MS = 1024, 1e3
_PIPE = re.compile(r"(?:(aic|aiv)_)?(mac|cube|vec|scalar|mte1|mte2|mte3|fixpipe)(?:_exe)?_ratio")
_TIME = re.compile(r"(?:(aic|aiv)_)?time\(us\)")
_STALL = re.compile(r"(?:(aic|aiv)_)?(scalar_\w*(?:stall|wait)\w*)_time\(us\)")
_WAIT = re.compile(r"(?:(aic|aiv)_)?(\w+_(?:wait|cflt)_ratio|icache_miss_rate)")
_CACHE = re.compile(r"(?:(aic|aiv)_)?(?:r\d_)?(read|write)_(?:cache_|close_|far_)(hit|miss)(?:_allocate)?")
_HIT = re.compile(r"(?:(aic|aiv)_)?l2_cache_hit_rate\(%\)")
_MOVED = re.compile(r"(\w+?)_datas\(KB\)(?:\(estimate\))?")
_RATE = re.compile(r"(?:(aic|aiv)_)?(\w+?_bw(?:_\w+)?)\(GB/s\)")
#: Lanes of the simulator -> a pipe as counters call it.
_LANES = {"VECTOR": "vec", "CUBE": "cube", "MTE1": "mte1", "MTE2": "mte2", "MTE3": "mte3", "FIXP": "fixpipe",
          "SCALAR": "scalar"}  # fmt: skip
Rows = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Cores:
    """The units of one kind of core, and how even they are."""

    core: str  # 'aic' (cube), 'aiv' (vector); '' where the device has one kind
    units: int
    mean_ns: float
    most_ns: float
    slowest: str  # which unit
    uneven: float  # the slowest over the mean


@dataclass(frozen=True)
class Pipe:
    """How busy a pipe is."""

    core: str
    pipe: str
    kind: str  # compute, memory, scalar
    share: float  # of the units' whole time
    most: float  # of any unit
    busy_ns: float  # of a unit, on average


@dataclass(frozen=True)
class Wait:
    """What units waited for, as the profiler names it."""

    core: str
    name: str
    share: float
    most: float


@dataclass(frozen=True)
class Cache:
    """Accesses of the L2 cache."""

    core: str
    access: str  # read, write, all
    hits: int | None
    misses: int | None
    share: float


@dataclass(frozen=True)
class Path:
    """What was moved from one memory to another, by all units."""

    name: str
    bytes: int
    bytes_per_s: float | None  # over the kernel's time
    used: float | None  # of the path's peak, as the profiler says; mean of the units


@dataclass(frozen=True)
class Rate:
    """A bandwidth as the profiler wrote it: GB/s of one unit, mean and highest."""

    core: str
    name: str
    mean: float
    most: float


@dataclass(frozen=True)
class Line:
    """A source line or an instruction, over all cores. A line holds what it calls as well."""

    name: str
    of: str | None  # the source of a line, the pipe of an instruction
    cores: int
    calls: int | None
    cycles: int | None
    ns: int | None
    most_ns: int | None  # on one core
    bytes: int | None
    hit: float | None  # of the L2 cache


@dataclass(frozen=True)
class Inside:
    """One kernel, or all kernels of a name."""

    name: str | None
    op_type: str | None
    unit: str  # block, kernel, core
    kernels: int
    dur_ns: float  # of one; of the simulator's longest core
    blocks: int | None
    mix_blocks: int | None
    mhz: float | None
    rated_mhz: float | None
    device: str | None
    memory_peak: float | None  # bytes per second
    cores: tuple[Cores, ...]
    pipes: tuple[Pipe, ...]
    waits: tuple[Wait, ...]
    caches: tuple[Cache, ...]
    paths: tuple[Path, ...]
    rates: tuple[Rate, ...]
    lines: tuple[Line, ...]
    instructions: tuple[Line, ...]

    @property
    def simulated(self) -> bool:
        return self.unit == "core"

    @property
    def busiest(self) -> Pipe | None:
        """The pipe that is busy for longest: a core may be done long before the others."""
        return max(self.pipes, key=lambda one: one.busy_ns, default=None)

    @property
    def busy_share(self) -> float | None:
        """How busy it is, of the time in which any core runs."""
        if self.busiest is None or not self.cores:
            return None if self.busiest is None else self.busiest.share
        return self.busiest.busy_ns / max(one.mean_ns for one in self.cores)

    @property
    def bound(self) -> str | None:
        """The kind of the busiest pipe; 'none' where no pipe is busy for long; None where none was counted."""
        if self.busiest is None or self.busy_share is None:
            return None
        return self.busiest.kind if self.busy_share >= BUSY else "none"

    @property
    def outside_ns(self) -> float | None:
        """Of a block's kernel, the time in which no core runs: its start and its end."""
        if self.unit != "block" or not self.cores:
            return None
        return max(0.0, self.dur_ns - max(one.most_ns for one in self.cores))

    @property
    def memory_share(self) -> float | None:
        """What was read from and written to main memory, of the device's peak."""
        moved = [one.bytes_per_s for one in self.paths if one.name in ("read_main_memory", "write_main_memory")]
        if not moved or self.memory_peak is None or any(one is None for one in moved):
            return None
        return sum(one or 0.0 for one in moved) / self.memory_peak

    def as_dict(self) -> dict[str, object]:
        """For JSON: the fields and what follows from them."""
        return {
            **asdict(self), "bound": self.bound, "busiest": None if self.busiest is None else asdict(self.busiest),
            "busy_share": self.busy_share, "outside_ns": self.outside_ns, "memory_share": self.memory_share,
        }  # fmt: skip


def choices(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Operators with counters, those with most time first: their type, or else their name."""
    return tuple(
        row[0]
        for row in con.execute(
            """SELECT coalesce(k.op_type, s.name) AS op FROM kernel k JOIN span s USING (span_id)
            WHERE span_id IN (SELECT span_id FROM pmu) GROUP BY op ORDER BY sum(s.dur_ns) DESC, op"""
        ).fetchall()
    )


def there(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether the run is of one operator alone."""
    return bool(con.execute("SELECT count(*) > 0 FROM summary WHERE source LIKE 'OPPROF%'").fetchall()[0][0])


def inside(con: duckdb.DuckDBPyConnection, op: str | None = None) -> Inside | None:
    """What is known of the inside of an operator, by its name or type; None where nothing is counted."""
    alone = there(con) or _simulated(con)
    if alone and not con.execute("SELECT 1 FROM kernel LIMIT 1").fetchall():
        return _simulation(con) if _simulated(con) or op is None else None
    chosen = con.execute(
        """SELECT s.span_id, s.name, k.op_type, s.dur_ns, k.rank, k.block_num, k.mix_block_num
        FROM kernel k JOIN span s USING (span_id)
        WHERE $op IS NULL AND $alone OR s.name = $op OR k.op_type = $op ORDER BY s.dur_ns DESC, s.span_id""",
        {"op": op, "alone": alone},
    ).fetchall()
    if not chosen:
        return None
    units = _blocks(con) if alone else {}
    unit = "block" if units else "kernel"
    units = units or _kernels(con, op, alone)
    if not units:
        return None
    durations = [row[3] for row in chosen]
    dur_ns = sum(durations) / len(durations)
    here = device(Run.of(con), chosen[0][4])
    basic = _basic(con) if alone else {}
    return Inside(
        op or chosen[0][1], None if op == chosen[0][2] else chosen[0][2], unit, len(durations), dur_ns,
        chosen[0][5], chosen[0][6],
        _number(basic.get("Current Freq")), _number(basic.get("Rated Freq")), _named(here),
        None if here is None else here.memory_bytes_per_s, _cores(units) if alone else (), _pipes(units), _waits(units),
        _caches(units) or (() if alone else _l2(con, op)), _paths(units, dur_ns) if alone else (), _rates(units),
        _lines(con, "OPPROF line", "source"), _lines(con, "OPPROF instruction", "pipe"),
    )  # fmt: skip


def _blocks(con: duckdb.DuckDBPyConnection) -> Rows:
    """Every block's counters, those of all files together."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    rows = con.execute(
        """SELECT coalesce(category, ''), args FROM summary WHERE source LIKE 'OPPROF %'
        AND source NOT IN ('OPPROF line', 'OPPROF instruction') ORDER BY source, category"""
    ).fetchall()
    for block, args in rows:
        for name, text in json.loads(args).items():
            if (value := _number(text)) is not None:
                found[block].setdefault(name, value)
    return found


def _kernels(con: duckdb.DuckDBPyConnection, op: str | None, alone: bool) -> Rows:
    """The counters of every kernel of the name."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    rows = con.execute(
        """SELECT p.span_id, p.metric, p.value, s.dur_ns FROM pmu p JOIN span s USING (span_id)
        JOIN kernel k USING (span_id) WHERE isfinite(p.value) AND
            ($op IS NULL AND $alone OR s.name = $op OR k.op_type = $op) ORDER BY p.span_id, p.metric""",
        {"op": op, "alone": alone},
    ).fetchall()
    for span_id, metric, value, dur_ns in rows:
        found[str(span_id)][metric] = value
        found[str(span_id)].setdefault("time(us)", dur_ns / _MS)
    return found


def _time(values: Mapping[str, float], core: str) -> float | None:
    """How long a unit ran on a kind of core, in us."""
    own = values.get(f"{core}_time(us)" if core else "aicore_time(us)")
    return own if own is not None else values.get("time(us)")


def _cores(units: Rows) -> tuple[Cores, ...]:
    times: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for unit, values in units.items():
        for name, value in values.items():
            if match := _TIME.fullmatch(name):
                times[match[1] or ""].append((value * _MS, unit))
    found = []
    for core, every in sorted(times.items()):
        mean, (most, slowest) = sum(ns for ns, _ in every) / len(every), max(every)
        if mean > 0:
            found.append(Cores(core, len(every), mean, most, slowest, most / mean))
    return tuple(found)


def _shares(units: Rows, pattern: re.Pattern[str], *, times: bool) -> dict[tuple[str, str], tuple[float, float, float]]:
    """By core and name: of the units' whole time, the highest, and the mean time in ns. `times`: counters are times."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for values in units.values():
        for name, value in values.items():
            if match := pattern.fullmatch(name):
                core = match[1] or ""
                whole = _time(values, core)
                if whole:
                    found[core, match[2]].append((value / whole if times else value, whole))
    summed = {key: sum(share * whole for share, whole in every) for key, every in found.items()}
    return {
        key: (summed[key] / sum(whole for _, whole in every), max(share for share, _ in every),
              summed[key] * _MS / len(every))
        for key, every in found.items()
    }  # fmt: skip


def _pipes(units: Rows) -> tuple[Pipe, ...]:
    found = [Pipe(core, pipe, PIPES[pipe], *shares) for (core, pipe), shares in
             _shares(units, _PIPE, times=False).items()]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-one.share, one.core, one.pipe)))


def _waits(units: Rows) -> tuple[Wait, ...]:
    found = {**_shares(units, _STALL, times=True), **_shares(units, _WAIT, times=False)}
    every = [Wait(core, name, share, most) for (core, name), (share, most, _) in found.items() if most > 0]
    return tuple(sorted(every, key=lambda one: (-one.share, one.core, one.name)))


def _caches(units: Rows) -> tuple[Cache, ...]:
    counts: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: {"hit": 0, "miss": 0})
    rates: dict[str, list[float]] = defaultdict(list)
    for values in units.values():
        for name, value in values.items():
            if match := _CACHE.fullmatch(name):
                counts[match[1] or "", match[2]][match[3]] += round(value)
            elif match := _HIT.fullmatch(name):
                rates[match[1] or ""].append(value / 100)
    found = [
        Cache(core, access, each["hit"], each["miss"], each["hit"] / (each["hit"] + each["miss"]))
        for (core, access), each in sorted(counts.items()) if each["hit"] + each["miss"]
    ]  # fmt: skip
    return (*found, *(Cache(core, "all", None, None, sum(every) / len(every)) for core, every in rates.items()))


def _l2(con: duckdb.DuckDBPyConnection, op: str | None) -> tuple[Cache, ...]:
    """Hit rates that a job's profile holds by task."""
    row = con.execute(
        """SELECT sum(l.hit_share * s.dur_ns) / sum(s.dur_ns) FROM l2_cache l JOIN span s USING (span_id)
        JOIN kernel k USING (span_id) WHERE l.hit_share IS NOT NULL AND (s.name = $op OR k.op_type = $op)""",
        {"op": op},
    ).fetchall()[0][0]
    return () if row is None else (Cache("", "all", None, None, row),)


def _paths(units: Rows, dur_ns: float) -> tuple[Path, ...]:
    moved: dict[str, list[float]] = defaultdict(list)
    used: dict[str, list[float]] = defaultdict(list)
    for values in units.values():
        for name, value in values.items():
            if match := _MOVED.fullmatch(name):
                moved[match[1]].append(value)
                estimate = "(estimate)" if name.endswith("(estimate)") else ""
                share = values.get(f"{match[1]}_bw_usage_rate(%){estimate}")
                if share is not None:
                    used[match[1]].append(share / 100)
    return tuple(
        Path(name, round(sum(every) * _KIB), sum(every) * _KIB * 1e9 / dur_ns if dur_ns else None,
             sum(used[name]) / len(used[name]) if name in used else None)
        for name, every in moved.items() if any(every)
    )  # fmt: skip


def _rates(units: Rows) -> tuple[Rate, ...]:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for values in units.values():
        for name, value in values.items():
            if match := _RATE.fullmatch(name):
                found[match[1] or "", match[2]].append(value)
    return tuple(
        Rate(core, name, sum(every) / len(every), max(every)) for (core, name), every in sorted(found.items())
        if any(every)
    )  # fmt: skip


def _basic(con: duckdb.DuckDBPyConnection) -> Mapping[str, object]:
    rows = con.execute("SELECT args FROM summary WHERE source = 'OPPROF'").fetchall()
    found = json.loads(rows[0][0]) if len(rows) == 1 else {}
    return found if isinstance(found, dict) else {}


def _named(found: Device | None) -> str | None:
    return None if found is None or found.name == UNNAMED else found.name


def _number(text: object) -> float | None:
    try:
        found = float(text) if isinstance(text, str | int | float) else None
    except ValueError:
        return None
    return found if found is not None and abs(found) < 1e300 else None


# SQL: lines and instructions over all cores.
_LINES = """
    SELECT name, any_value(json_extract_string(args, $of)) AS of, count(DISTINCT category) AS cores,
        try_cast(sum(count) AS BIGINT) AS calls,
        try_cast(sum(try_cast(json_extract_string(args, '$.cycles') AS BIGINT)) AS BIGINT) AS cycles,
        try_cast(sum(total_ns) AS BIGINT) AS ns, max(total_ns) AS most_ns,
        try_cast(sum(nullif(try_cast(json_extract_string(args, '$."Process Bytes"') AS BIGINT), -1)) AS BIGINT)
            AS bytes,
        avg(try_cast(json_extract_string(args, '$."L2Cache Hit Rate"') AS DOUBLE)) / 100 AS hit
    FROM (SELECT *, CASE WHEN source = 'OPPROF instruction' THEN json_extract_string(args, '$.pipe') END AS part
        FROM summary WHERE source = $source AND json_valid(args))
    GROUP BY name, part ORDER BY coalesce(cycles, ns, calls) DESC, ns DESC, name LIMIT $most
"""


def _lines(con: duckdb.DuckDBPyConnection, source: str, of: str) -> tuple[Line, ...]:
    rows = con.execute(_LINES, {"source": source, "of": f"$.{of}", "most": _MOST}).fetchall()
    return tuple(Line(*row) for row in rows)


def _simulated(con: duckdb.DuckDBPyConnection) -> bool:
    query = "SELECT count(*) > 0 FROM (SELECT unnest(formats) AS format FROM rank) WHERE format = 'opprof_simulator'"
    return bool(con.execute(query).fetchall()[0][0])


# SQL: how long each lane of the simulator is busy, overlaps counted once, and each core's window.
_BUSY = """
    WITH spans AS (
        SELECT t.process AS core, t.name AS lane, s.kind, s.ts_ns, s.ts_ns + s.dur_ns AS until
        FROM span s JOIN track t USING (track)
    ), windows AS (
        SELECT core, max(until) - min(ts_ns) AS whole FROM spans GROUP BY core
    ), marked AS (
        SELECT core, lane, ts_ns, until,
            max(until) OVER (PARTITION BY core, lane ORDER BY ts_ns, until
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM spans WHERE kind <> 'wait'
    ), busy AS (
        SELECT core, lane,
            coalesce(try_cast(sum(greatest(0, until - greatest(ts_ns, coalesce(before, ts_ns)))) AS BIGINT), 0) AS ns
        FROM marked GROUP BY core, lane
    )
    SELECT core, whole, lane, ns FROM windows LEFT JOIN busy USING (core) ORDER BY core, lane
"""


def _simulation(con: duckdb.DuckDBPyConnection) -> Inside:
    """Pipes by the union of their instructions, without those that only wait."""
    windows: dict[str, int] = {}
    busy: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for core, whole, lane, ns in con.execute(_BUSY).fetchall():
        windows[core] = whole
        if lane in _LANES and whole:
            busy[_kind(core), _LANES[lane]].append((ns, whole))
    count = Counter(map(_kind, windows))
    pipes = [
        Pipe(core, pipe, PIPES[pipe], sum(ns for ns, _ in every) / _whole(windows, core),
             max(ns / whole for ns, whole in every), sum(ns for ns, _ in every) / count[core])
        for (core, pipe), every in busy.items()
    ]  # fmt: skip
    run = Run.of(con)
    here = device(run, run.ranks[0])
    times = {name: {f"{_kind(name)}_time(us)": whole / _MS} for name, whole in windows.items()}
    return Inside(
        None, None, "core", 0, float(max(windows.values(), default=0)), None, None, None, None,
        _named(here), None if here is None else here.memory_bytes_per_s, _cores(times),
        tuple(sorted(pipes, key=lambda one: (-one.share, one.core, one.pipe))), (), (), (), (),
        _lines(con, "OPPROF line", "source"), _lines(con, "OPPROF instruction", "pipe"),
    )  # fmt: skip


def _kind(core: str) -> str:
    return "aic" if "cubecore" in core else "aiv"


def _whole(windows: Mapping[str, int], kind: str) -> int:
    return sum(whole for core, whole in windows.items() if _kind(core) == kind)
