"""What a rank's device can do: facts of analysis/device/device_facts.toml, narrowed and overruled by the capture.

Profilers name devices by families (Ascend910B is any of 910B1 to 910B4) or not at all. So every
model the name allows is held against what the capture shows: how many cores its kernels were split
over, and the highest clock. A fact stands where all models that are left agree; the highest clock
seen is a rating too, because a device never runs faster than it can. What nobody knows is None. How
many blocks kernels had only chooses among models: kernels of few blocks do not make a small device.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from npulens.analysis.device.family import by_msprof, by_msprof_op, family, on_npu
from npulens.analysis.run import Run
from npulens.ingest.messages import Message

#: How a device is called whose capture does not name it.
UNNAMED = "an unnamed device"
FACTS_FILE = Path(__file__).with_name("device_facts.toml")
_FACTS = (
    "cube_cores", "vector_cores", "clock_mhz", "flops", "vector", "memory_bytes", "memory_bytes_per_s", "l2_bytes",
    "l2_bytes_per_s", "links", "unified_buffer_bytes",
)  # fmt: skip
#: Backends that torch calls by another name.
_AS_TORCH = {"rocm": "cuda"}
#: Cores that hold the matrix unit, and those that do not. Where one kind of core does both it is called AI_CORE.
CUBE, VECTOR = ("AI_CORE", "MIX_AIC"), ("AI_VECTOR_CORE", "MIX_AIV")
#: Of so many us at least a counter tells the clock to a thousandth; a clock is between these.
_LONG_US, _CLOCKS_MHZ = 10.0, (300.0, 4_000.0)
#: The largest device known has 72 vector cores; more blocks than this are waves of blocks, not cores.
MOST_CORES = 96
#: Fewer blocks than this are what shapes give: alone they tell no device that nobody names.
TELLING_BLOCKS = 20


@dataclass(frozen=True)
class Seen:
    """What the capture itself shows of a device."""

    cube_cores: int | None = None
    vector_cores: int | None = None
    clock_mhz: float | None = None

    @property
    def count(self) -> int:
        """How many of them are known."""
        return sum(value is not None for value in (self.cube_cores, self.vector_cores, self.clock_mhz))


NOTHING = Seen()


@dataclass(frozen=True)
class Measured:
    """What was measured on the machine itself (`npulens doctor --roofs`) before the capture was made."""

    device: str
    when: str
    flops: Mapping[str, float]  # by precision
    memory_bytes_per_s: float | None
    launch_ns: float | None
    threads: int | None


@dataclass(frozen=True)
class Device:
    """What is known of one rank's device."""

    name: str
    cube_cores: int | None = None
    vector_cores: int | None = None
    clock_mhz: float | None = None
    flops: Mapping[str, float] = field(default_factory=dict)  # of the matrix units, by precision
    vector: Mapping[str, float] = field(default_factory=dict)  # of the other units
    memory_bytes: int | None = None
    memory_bytes_per_s: float | None = None
    l2_bytes: int | None = None
    l2_bytes_per_s: float | None = None
    links: Mapping[str, float] = field(default_factory=dict)  # bytes per second and direction
    unified_buffer_bytes: int | None = None  # of one vector core
    sources: tuple[str, ...] = ()
    measured: Measured | None = None
    #: The fewest and the most cores of all models that a name stands for.
    cube_between: tuple[int, int] | None = None
    vector_between: tuple[int, int] | None = None

    def cores(self, core: str | None) -> int | None:
        """How many cores of the kind that a kernel runs on."""
        return self.vector_cores if core in VECTOR else self.cube_cores

    def between(self, core: str | None) -> tuple[int, int] | None:
        """The fewest and the most cores that it may have of the kind that a kernel runs on."""
        sure = self.cores(core)
        return (sure, sure) if sure else self.vector_between if core in VECTOR else self.cube_between


@dataclass(frozen=True)
class Model:
    """One entry of the file."""

    model: str
    name: re.Pattern[str]
    family: str | None
    backend: str
    facts: Mapping[str, Any]
    source: str

    def fits(self, seen: Seen) -> bool:
        """Whether the capture could come from it: it has the cores seen, and runs at least as fast."""
        mine = self.facts
        split = mine.get("vector_cores") != mine.get("cube_cores")
        return not (
            (seen.vector_cores is not None and not split)
            or (seen.clock_mhz or 0) > mine.get("clock_mhz", float("inf"))
            or (seen.cube_cores or 0) > mine.get("cube_cores", float("inf"))
            or (seen.vector_cores or 0) > mine.get("vector_cores", float("inf"))
        )

    def equals(self, seen: Seen) -> int:
        """How many things seen are exactly its own."""
        return sum(
            value is not None and value == self.facts.get(name)
            for name, value in (
                ("cube_cores", seen.cube_cores), ("vector_cores", seen.vector_cores), ("clock_mhz", seen.clock_mhz),
            )
        )  # fmt: skip


@cache
def models() -> tuple[Model, ...]:
    """Every device of the file."""
    found = tomllib.loads(FACTS_FILE.read_text("utf-8"))["device"]
    return tuple(
        Model(
            entry["model"], re.compile(entry["name"]), entry.get("family"), entry["backend"],
            {name: entry[name] for name in _FACTS if name in entry}, f"{entry['source']} ({entry['date']})",
        )
        for entry in found
    )  # fmt: skip


def device(run: Run, rank: int) -> Device | None:
    """What is known of the rank's device; None where neither its name nor the capture says anything."""
    return run.get(devices).get(rank)


def title(run: Run, rank: int) -> str:
    """What the rank's device is called: as the facts do, else as the capture does, which may name one nobody knows."""
    found = device(run, rank)
    if found is not None:
        return found.name
    rows: list[tuple[str | None]] = run.con.execute("SELECT device_name FROM rank WHERE rank = ?", [rank]).fetchall()
    return next((name for (name,) in rows if name), UNNAMED)


def devices(run: Run) -> dict[int, Device]:
    """Every rank's device that anything is known of."""
    seen, told = _seen(run), _told(run)
    rows = run.con.execute("SELECT rank, device_name, backend FROM rank").fetchall()
    keys = {rank: (name, backend, told[rank]) for rank, name, backend in rows}
    alike = {key: known(key[0], key[1], _most(seen[rank] for rank, own in keys.items() if own == key), key[2])
             for key in set(keys.values())}  # fmt: skip
    found = {rank: alike[key] for rank, key in keys.items()}
    for rank, own in _measured(run).items():
        found[rank] = replace(found[rank] or Device(own.device), measured=own)
    return {rank: one for rank, one in found.items() if one is not None}


def _measured(run: Run) -> dict[int, Measured]:
    """Per rank: the roofs among its settings, where they are of the kind of device that it ran on."""
    found = {}
    for rank, backend, formats, told in run.con.execute(
        "SELECT rank, backend, formats, json_extract(settings, '$.npulens_roofs')::VARCHAR FROM rank "
        "WHERE json_valid(settings) AND json_extract(settings, '$.npulens_roofs') IS NOT NULL"
    ).fetchall():
        said = json.loads(told)
        kind = "npu" if on_npu(backend, formats) else _AS_TORCH.get(backend, backend)
        if kind == said["backend"]:
            matmul, memory, launch = (
                {each["name"]: float(each["best"]) for each in said["roofs"] if each["kind"] == of}
                for of in ("matmul", "memory", "launch")
            )
            found[rank] = Measured(
                said["device"], said["measured_at"], matmul, max(memory.values(), default=None),
                launch.get("launch"), said["threads"],
            )  # fmt: skip
    return found


def memory_bytes(run: Run, rank: int) -> int | None:
    """How much memory the rank's device has: as the capture's own device properties say, else as the facts do."""
    told = run.get(_own_memory).get(rank)
    if told:
        return int(told)
    found = device(run, rank)
    return None if found is None else found.memory_bytes


def _own_memory(run: Run) -> dict[int, int | None]:
    """What each rank's capture says of its device's memory."""
    return dict(
        run.con.execute(
            "SELECT rank, try_cast(json_extract_string(settings, '$.totalGlobalMem') AS BIGINT) FROM rank"
        ).fetchall()
    )


def _told(run: Run) -> dict[int, Seen]:
    """Per rank: what info.json of msprof, or the properties that torch lists, say of its device."""
    names = (("ai_core_num", "numSms"), ("aiv_num",), ("aic_frequency",))
    asked = ", ".join(
        "coalesce(" + ", ".join(
            f"try_cast(json_extract_string(settings, '$.{name}') AS DECIMAL(12, 3))::DOUBLE" for name in same
        ) + ")"
        for same in names
    )  # fmt: skip
    rows = run.con.execute(f"SELECT rank, {asked} FROM rank WHERE json_valid(settings)").fetchall()
    found = {}
    for rank, *numbers in rows:
        cube, vector, clock = (number if number is not None and number > 0 else None for number in numbers)
        found[rank] = Seen(None if cube is None else int(cube), None if vector is None else int(vector), clock)
    return {rank: found.get(rank, NOTHING) for rank in run.ranks}


def known(name: str | None, backend: str | None, seen: Seen, told: Seen = NOTHING) -> Device | None:
    """The facts on which all models agree that bear the name and fit what the capture shows.

    What the capture says in so many words (`told`) stands, and a model that says otherwise is not it.
    """
    if name is None:
        named = [model for model in models() if model.backend == "npu"] if backend == "npu" else []
    else:
        named = [model for model in models() if model.name.fullmatch(name) or model.family == name]
    fitting = [model for model in named if model.fits(seen)]
    if not fitting:  # more blocks than any of them has cores are waves of blocks
        seen = replace(seen, cube_cores=None, vector_cores=None)
        fitting = [model for model in named if model.fits(seen)]
    exact = [model for model in fitting if model.equals(told) == told.count]
    fitting = exact if exact or name is None else fitting
    best = max((model.equals(seen) for model in fitting), default=0)
    left = [model for model in fitting if model.equals(seen) == best]
    if name is None and told == NOTHING and not _tells(seen, best, left):
        left = []
    facts = {key: value for key in _FACTS
             if (value := _common(model.facts.get(key) for model in left)) is not None}  # fmt: skip
    if left and "clock_mhz" not in facts and all("clock_mhz" in model.facts for model in left):
        facts["clock_mhz"] = min(model.facts["clock_mhz"] for model in left)  # no lower than any of them
    if not facts and seen == told == NOTHING:
        return None
    facts |= {key: value for key, value in vars(told).items() if value is not None}
    for kind in ("cube", "vector") if name is not None else ():
        between = facts[f"{kind}_between"] = _between(fitting or named, f"{kind}_cores")
        if between is not None and between[0] == between[1]:
            facts.setdefault(f"{kind}_cores", between[0])
    if seen.clock_mhz is not None:
        facts["clock_mhz"] = max(seen.clock_mhz, facts.get("clock_mhz", 0.0))
    title = left[0].model if len(left) == 1 else name or UNNAMED
    return Device(title, **facts, sources=tuple(model.source for model in left))


def _tells(seen: Seen, equal: int, left: Iterable[Model]) -> bool:
    """Whether what is seen tells which device it is, where nobody names it. `equal`: how much each of `left` shares."""
    clocked = any(model.facts.get("clock_mhz") == seen.clock_mhz for model in left)
    many = max(seen.cube_cores or 0, seen.vector_cores or 0) >= TELLING_BLOCKS
    return equal > 1 or (equal == 1 and (clocked or many))


def _between(every: Iterable[Model], cores: str) -> tuple[int, int] | None:
    """The fewest and the most cores among them; None where one does not say."""
    counts = [model.facts.get(cores) for model in every]
    known = [count for count in counts if count is not None]
    return (min(known), max(known)) if known and len(known) == len(counts) else None


def fewest(run: Run, rank: int, core: str | None) -> tuple[int, float | None]:
    """How many cores every Ascend chip of the file has that the rank's device can be, and at which clock it ran."""
    found = device(run, rank)
    clock = found.clock_mhz if found else None
    cores = "vector_cores" if core in VECTOR else "cube_cores"
    facts = [model.facts for model in models() if model.backend == "npu" and cores in model.facts]
    return min((one[cores] for one in facts if one["clock_mhz"] >= (clock or 0)), default=0), clock


def named_by(run: Run) -> Message | None:
    """What would name the device, where no rank's capture does; None where one does."""
    ((names,),) = run.con.execute("SELECT count(device_name) FROM rank").fetchall()
    if names:
        return None
    if run.get(family) != "npu":
        files = "deviceProperties"
    elif run.get(by_msprof_op):
        files = "visualize_data.bin"
    else:
        files = "PROF_*/device_*/info.json.*"
        ((read,),) = run.con.execute(
            "SELECT count(*) FROM rank WHERE list_contains(formats, 'torch_npu_db')"
        ).fetchall()
        if not read:  # a database that is here and names none holds no name
            files = f"{'msprof' if run.get(by_msprof) else 'ascend_*_profiler'}_*.db, {files}"
    return Message("setting_names_device", {"files": files})


def _most(seen: Iterable[Seen]) -> Seen:
    """What devices of one name show together: a rank that is slow throughout does not lower its own rating."""
    every = list(seen)

    def most(name: str) -> Any:
        return max((value for one in every if (value := getattr(one, name)) is not None), default=None)

    return Seen(most("cube_cores"), most("vector_cores"), most("clock_mhz"))


def _common(values: Iterable[Any]) -> Any:
    """What all of them say, or None."""
    every = list(values)
    return every[0] if every and all(value == every[0] for value in every) else None


def _seen(run: Run) -> dict[int, Seen]:
    """Per rank: the block count at which its kernels pile up per kind of core, and the highest clock."""
    blocks: dict[tuple[int, bool], int] = {}
    for rank, vector, count in run.con.execute(
        # Tiling cuts a kernel into as many blocks as there are cores where its data allows: the largest block
        # count that several kernels share is the number of cores, if a model has so many. Far more are waves.
        # CANN of 2023 calls both kinds of a divided device AI_CORE: where the cube counted no cycle it was the other.
        "SELECT rank, vector, max(block_num) FROM ("
        "  SELECT rank, vector, core, block_num FROM ("
        "    SELECT rank, core, block_num, list_contains(?, core) OR span_id IN ("
        "      SELECT span_id FROM pmu WHERE metric = 'aic_total_cycles' AND value = 0"
        "    ) AS vector FROM kernel WHERE list_contains(?, core) AND block_num BETWEEN 2 AND ?"
        "  ) GROUP BY ALL HAVING count(*) > 1"
        ") GROUP BY ALL",
        [list(VECTOR), [*CUBE, *VECTOR], MOST_CORES],
    ).fetchall():
        blocks[rank, vector] = count
    clocks = dict(
        run.con.execute(
            "SELECT rank, max(value) FROM sample WHERE counter ILIKE '%core freq%' GROUP BY rank"
        ).fetchall()
    )
    unnamed = {rank for (rank,) in run.con.execute(
        "SELECT rank FROM rank WHERE device_name IS NULL AND backend = 'npu'"
    ).fetchall()}  # fmt: skip
    if unnamed - set(clocks):
        clocks = _counted(run) | clocks
    return {rank: Seen(blocks.get((rank, False)), blocks.get((rank, True)), clocks.get(rank)) for rank in run.ranks}


def _counted(run: Run) -> dict[int, float]:
    """Per rank the clock, in whole MHz, by which the profiler turned the cycles of all cores into time.

    A kernel of more blocks than cores shows less than that, so the highest is it. Short kernels say it too coarsely.
    """
    sides = " UNION ALL ".join(
        f"SELECT span_id, max(value) FILTER (metric = '{cycles}') AS cycles, max(value) FILTER (metric = '{time}') AS "
        f"us, '{core}' AS core FROM pmu WHERE metric IN ('{cycles}', '{time}') GROUP BY span_id"
        for core, cycles, time in (("AI_CORE", "aic_total_cycles", "aicore_time(us)"),
                                   ("MIX_AIC", "aic_total_cycles", "aicore_time(us)"),
                                   ("AI_VECTOR_CORE", "aiv_total_cycles", "aiv_time(us)"))
    )  # fmt: skip
    rows: list[tuple[int, float]] = run.con.execute(
        f"SELECT rank, max(round(cycles / us / block_num)) FROM ({sides}) JOIN kernel USING (span_id, core) "
        "WHERE us >= ? AND block_num > 0 GROUP BY rank HAVING max(round(cycles / us / block_num)) BETWEEN ? AND ?",
        [_LONG_US, *_CLOCKS_MHZ],
    ).fetchall()
    return dict(rows)
