"""The parts of a step, each measured for its own sake. A change hides in the noise of a step and not in that of a part.

On a real job of eight NPUs the steps vary by 49 % and the computing in them by 0.17 %. It is a MindSpore capture with
ten steps. A kernel that costs 1 % of the step more is invisible in the first and thirty deviations in the second.

`measure` gives the exact table. A window is a step of a rank. Kernels own its time as analysis/regression/pieces.py
gives it out. So the families of a window sum to its computing time to the nanosecond. Work counts where it runs. `told`
makes one number of each part:

* over ranks the mean. Parts then sum as the step does, and one late rank is no news of a kernel;
* over steps the median, because a step that compiles or saves is no news either. Medians do not sum: the parts of one
  step do, their medians nearly.

Beside the families of kernels (families.py) there are modules, where frames were recorded (the innermost, by class).
There is what communication operators take without waiting for peers, added, and there are copies. There is the time in
which the device idles because the host or the data loader is late. The last is the step without waits for peers and,
where the host was recorded, for data. A part is missing wherever one window did not record it: missing is not zero.

Where the clock of the cores was recorded, kernels are counted in cycles. A lower clock then does not look like a slower
kernel. The clock itself is a condition of the run. A kernel that memory limits takes fewer cycles at a lower clock;
then the condition explains the change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.kernels import LAUNCHED_BY
from npulens.analysis.idle.pieces import CODE, CODES, idle
from npulens.analysis.intervals import Ints
from npulens.analysis.modules.names import MODULE, spoken
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.waits import UNKNOWN, waits
from npulens.analysis.regression.families import KEPT, OTHERS, family, recurring
from npulens.analysis.regression.pieces import WRAPPERS, cut, first_come, launchers
from npulens.analysis.regression.verdict import stretch_of
from npulens.analysis.run import Run
from npulens.analysis.selection.blocks import edges_of

Floats = NDArray[np.float64]
T = TypeVar("T", np.int64, np.float64)

KERNEL_NS, KERNEL_CYCLES, MODULE_NS = "kernel_ns ", "kernel_cycles ", "module_ns "
#: Fewer steps say nothing of their own spread.
LEAST_STEPS = 5
#: A family below this share of the step has no name of its own: doubled it would cost a thousandth.
LEAST_SHARE = 0.001
#: The error of a median is that of a mean times this, for normal noise.
_OF_MEDIAN = math.sqrt(math.pi / 2)
#: Idle time that is not the host's: it waits for other work, for data, for the profiler, or nothing says why.
_NOT_HOST = ("dependency", "backlog", "unknown", "dataloader", "profiler_overhead")

_TASKS = f"""
    SELECT s.span_id, s.rank, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns, s.name, k.op_type, o.name AS operator,
        coalesce(k.input_shapes, h.input_shapes) AS shapes,
        hash(s.name, k.op_type, o.name, coalesce(k.input_shapes, h.input_shapes)) AS code
    FROM span s LEFT JOIN kernel k USING (span_id) LEFT JOIN ({LAUNCHED_BY}) l ON l.span_id = s.span_id
    LEFT JOIN span o ON o.span_id = l.host_id LEFT JOIN host_op h ON h.span_id = l.host_id
    WHERE s.kind IN ('kernel', 'memset')
"""
_KERNELS = f"SELECT span_id, rank, ts_ns, end_ns, code FROM ({_TASKS}) ORDER BY rank, ts_ns, end_ns DESC, span_id"
_TEXTS = f"""
    SELECT code, any_value(name), any_value(op_type), any_value(operator), any_value(shapes) FROM ({_TASKS})
    GROUP BY code ORDER BY code
"""
_WINDOWS = """
    SELECT rank, step, ts_ns, dur_ns, copy_ns, only_waiting_ns, idle_ns
    FROM device_time WHERE step IS NOT NULL AND dur_ns > 0 AND computing_ns IS NOT NULL ORDER BY rank, ts_ns
"""
_CLOCK = "SELECT ts_ns, value FROM sample WHERE counter = 'AI Core Freq' AND rank = ? AND value > 0 ORDER BY ts_ns"


@dataclass(frozen=True)
class Windows:
    """The steps of all ranks, rank by rank in order of time."""

    rank: Ints
    step: Ints
    start: Ints
    ns: Ints

    def of(self, rank: int) -> Ints:
        """The places of a rank's windows."""
        return np.flatnonzero(self.rank == rank)


@dataclass(frozen=True)
class Table:
    """What fills each window: a row a name, a column a window."""

    windows: Windows
    families: Mapping[str, Ints]  # ns; they sum to the computing time of the window
    cycles: Mapping[str, Floats] | None  # the same in cycles of the cores, where every rank recorded its clock
    modules: Mapping[str, Ints]  # ns; what no module launched is in none
    others: Mapping[str, Ints]  # parts that every window knows: their metric -> ns


@dataclass(frozen=True)
class Part:
    """One part of the step of a run."""

    metric: str
    unit: str
    value: float
    error: float | None  # standard error of value, as a share of it; None: too few steps
    share: float  # of the step


def told(table: Table) -> list[Part]:
    """The parts of a run, the largest kernels first; nothing for a run without steps."""
    steps = np.unique(table.windows.step)
    if not len(steps):
        return []
    whole = float(np.median(_over_ranks(table.windows, table.windows.ns)))

    def part(metric: str, unit: str, values: Ints | Floats, ns: Ints) -> Part:
        series = _over_ranks(table.windows, values)
        value, mine = float(np.median(series)), float(np.median(_over_ranks(table.windows, ns)))
        return Part(metric, unit, value, error_of(series), mine / whole)

    counted, prefix, unit = table.families, KERNEL_NS, "ns"
    kernels: Mapping[str, Ints | Floats] = counted
    if table.cycles is not None:
        kernels, prefix, unit = table.cycles, KERNEL_CYCLES, "cycles"
    named, rest = _largest(table.windows, counted, LEAST_SHARE * whole)
    found = [part(prefix + name, unit, kernels[name], counted[name]) for name in named]
    others = part(prefix + OTHERS, unit, *(
        np.sum([rows[name] for name in rest], axis=0) if rest else np.zeros(len(table.windows.ns), np.int64)
        for rows in (kernels, counted)
    ))  # fmt: skip
    found += [others] if others.value > 0 else []
    found += [part(MODULE_NS + name, "ns", table.modules[name], table.modules[name])
              for name in _largest(table.windows, table.modules, LEAST_SHARE * whole)[0]]  # fmt: skip
    return found + [part(metric, "ns", ns, ns) for metric, ns in table.others.items()]


def _largest(windows: Windows, rows: Mapping[str, Ints], least_ns: float) -> tuple[list[str], list[str]]:
    """The names that are kept, the largest first, and the rest. What most steps do not have has no median to judge."""
    size = {name: float(np.median(_over_ranks(windows, ns))) for name, ns in rows.items()}
    order = sorted(rows, key=lambda name: (-size[name], name))
    kept = [name for name in order if size[name] > least_ns][:KEPT]
    return kept, [name for name in order if name not in kept]


def _over_ranks(windows: Windows, values: Ints | Floats) -> Floats:
    """The mean of the ranks of each step, in order of the steps."""
    _, of = np.unique(windows.step, return_inverse=True)
    return np.bincount(of, np.asarray(values, np.float64)) / np.bincount(of)


def error_of(steps: Sequence[float] | Floats) -> float | None:
    """The standard error of the median of some steps as a share of it; neighbours that resemble each other widen it."""
    series = np.asarray(steps, np.float64)
    middle = float(np.median(series)) if len(series) else 0.0
    if len(series) < LEAST_STEPS or middle <= 0:
        return None
    edges = edges_of(len(series))
    blocks = np.array([np.median(series[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)])
    spread = float(np.std(blocks, ddof=1)) * math.sqrt(stretch_of([blocks]))
    return _OF_MEDIAN * spread / math.sqrt(len(blocks)) / middle


def measure(con: duckdb.DuckDBPyConnection) -> Table:
    """The exact table of a run."""
    run = Run.of(con)
    held = con.execute(_WINDOWS).fetchall()
    rank, step, start, ns = np.array([row[:4] for row in held], np.int64).reshape(-1, 4).T
    windows = Windows(rank, step, start, ns)
    if not held:
        return Table(windows, {}, None, {}, {})
    families, cycles, modules = _kernels(run, windows)
    copies, waiting, gaps = ([row[place] for row in held] for place in (4, 5, 6))
    others = {"copy_ns": np.array(copies, np.int64)} if None not in copies else {}
    if (transfer := _transfers(run, windows)) is not None:
        others["transfer_ns"] = transfer
    launched = {found for (found,) in con.execute("SELECT DISTINCT rank FROM link").fetchall()}
    if None not in gaps and launched.issuperset(rank.tolist()):
        causes = _idle(run, windows)
        others["host_ns"] = causes[[CODE[name] for name in CODES if name not in _NOT_HOST]].sum(0)
        others["dataloader_ns"] = causes[CODE["dataloader"]]
    if None not in waiting:
        others["step_net_ns"] = ns - np.array(waiting, np.int64) - others.get("dataloader_ns", 0)
    return Table(windows, families, cycles, modules, others)


def _kernels(run: Run, windows: Windows) -> tuple[dict[str, Ints], dict[str, Floats] | None, dict[str, Ints]]:
    """Families in ns, the same in cycles, and modules."""
    rows = run.columns(_KERNELS)
    texts = run.con.execute(_TEXTS).fetchall()
    codes = np.array([row[0] for row in texts], np.uint64)
    at = np.searchsorted(codes, rows["code"].astype(np.uint64))
    count = len(windows.ns)
    ns, cycles = np.zeros((len(codes), count), np.int64), np.zeros((len(codes), count))
    clocked, modules, names = True, dict[str, Ints](), _modules(run)
    for rank in np.unique(windows.rank).tolist():
        mine = slice(*np.searchsorted(rows["rank"], (rank, rank + 1)).tolist())
        code, ids, ends = at[mine], rows["span_id"][mine], rows["end_ns"][mine]
        begins = first_come(rows["ts_ns"][mine], ends)
        keep = ends > begins
        places = windows.of(rank)
        start = windows.start[places]
        of, window, inside, until = cut(begins[keep], ends[keep], start, start + windows.ns[places])
        of, window = np.flatnonzero(keep)[of], places[window]
        np.add.at(ns, (code[of], window), until - inside)
        clock = run.columns(_CLOCK, [rank])
        clocked &= len(clock["ts_ns"]) > 0
        if clocked:
            np.add.at(cycles, (code[of], window), _cycles(clock["ts_ns"], clock["value"], inside, until))
        if names:
            by = launchers(run, rank, ids).module[of]
            for module in np.unique(by[by >= 0]).tolist():
                here = by == module
                total = modules.setdefault(names[module], np.zeros(count, np.int64))
                np.add.at(total, window[here], (until - inside)[here])
    called = recurring(
        [family(name, op_type, None if (operator or "").startswith(WRAPPERS) else operator, shapes)
         for _, name, op_type, operator, shapes in texts],
        [len(np.unique(windows.step[row > 0])) for row in ns],
        len(np.unique(windows.step)),
    )  # fmt: skip
    return _together(called, ns), _together(called, cycles) if clocked else None, modules


def _together(called: list[str], rows: NDArray[T]) -> dict[str, NDArray[T]]:
    """Rows of one name added."""
    found: dict[str, NDArray[T]] = {}
    for name, row in zip(called, rows, strict=True):
        found[name] = found[name] + row if name in found else row
    return found


def _modules(run: Run) -> dict[int, str]:
    """The spans of modules by class: "nn.Module: Linear_3" is a Linear."""
    found = run.con.execute("SELECT span_id, name FROM span WHERE starts_with(name, ?)", [MODULE]).fetchall()
    return {span: spoken(name)[0] for span, name in found}


def _cycles(at: Ints, mhz: Floats, begins: Ints, ends: Ints) -> Floats:
    """Cycles between two moments. A sample holds until the next, the first also before it."""
    low, high = min(at[0], begins.min(initial=at[0])), max(at[-1], ends.max(initial=at[-1])) + 1
    edges = np.concatenate(([low], at[1:], [high])).astype(np.float64)
    passed = np.concatenate(([0.0], np.cumsum(np.diff(edges) * np.asarray(mhz, np.float64)))) / 1e3
    return np.asarray(np.interp(ends, edges, passed) - np.interp(begins, edges, passed))


def _transfers(run: Run, windows: Windows) -> Ints | None:
    """What the communication operators that start in each window take without waiting, added; None: not known."""
    operators, found = run.get(collectives), run.get(waits)
    total = np.zeros(len(windows.ns), np.int64)
    for rank in np.unique(windows.rank).tolist():
        places = windows.of(rank)
        mine = np.flatnonzero(operators.rank == rank)
        at = np.searchsorted(windows.start[places], operators.ts[mine], side="right") - 1
        inside = at >= 0
        inside[inside] = operators.ts[mine][inside] < (windows.start + windows.ns)[places][at[inside]]
        mine, at = mine[inside], places[at[inside]]
        if (found.how[mine] == UNKNOWN).any() or (found.wait_ns[mine] < 0).any():
            return None
        np.add.at(total, at, np.maximum(operators.end[mine] - operators.ts[mine] - found.wait_ns[mine], 0))
    return total if len(operators) else None


def _idle(run: Run, windows: Windows) -> Ints:
    """Idle time by cause and window."""
    found = run.get(idle)
    total = np.zeros((len(CODES), len(windows.ns)), np.int64)
    for rank in np.unique(windows.rank).tolist():
        mine = slice(*np.searchsorted(found.rank, (rank, rank + 1)).tolist())
        places = windows.of(rank)
        start = windows.start[places]
        of, window, inside, until = cut(found.start[mine], found.end[mine], start, start + windows.ns[places])
        np.add.at(total, (found.cause[mine][of], places[window]), until - inside)
    return total
