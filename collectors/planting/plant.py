"""From a seed and the names of scenarios to a capture on disk and the truth beside it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from npulens.collectors import scenarios as planted
from npulens.collectors.planting.base import base_config, capture_of, fit
from npulens.collectors.planting.fault import Capture, Fault, SimConfig
from npulens.collectors.planting.truth import Truth, configured, truths, wall, without
from npulens.collectors.simulator.dialect import ALL, DIALECTS, Dialect
from npulens.collectors.simulator.job import Job
from npulens.collectors.simulator.simulate import simulate
from npulens.collectors.writers.ascend import AscendOptions
from npulens.collectors.writers.kineto import write_kineto
from npulens.collectors.writers.torch_npu_db import write_db
from npulens.collectors.writers.torch_npu_text import write_text

LEVELS = ("Level0", "Level1", "Level2")
LEAST_SHARE = 0.02  # of the step: what costs less is not worth finding
ATTEMPTS = 8
#: What leaves the device idle by something that the host does or does not do.
OF_HOST = frozenset((
    "host_late", "sync_stall", "launch_overhead", "dataloader", "gc", "compile", "memory_alloc", "profiler_overhead",
    "step_jitter", "shape_churn", "environment", "memory_pressure",
))  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What is asked for instead of being drawn; None where the seed decides."""

    ranks: int | None = None
    steps: int | None = None
    level: int | None = None
    format: str | None = None
    missing_ranks: int | None = None
    skew_ns: int | None = None
    clean: bool = False  # the same job without its faults
    dialect: str = "plain"


DRAWN = Options()


@dataclass(frozen=True)
class Case:
    seed: int
    config: SimConfig  # healthy
    faults: tuple[Fault, ...]
    capture: Capture
    job: Job
    truths: tuple[Truth, ...]

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.config.dialect]

    @cached_property
    def step_ns(self) -> int:
        """Of the mean step, without what happens once in the process."""
        job = self.job
        if self.config.first_use_ns:
            job = simulate(replace(job.config, first_use_ns=0))
        return wall(job, self.capture.ranks) // self.config.steps


def scenarios() -> dict[str, ModuleType]:
    """Every file of collectors/scenarios: each plants a fault."""
    names = sorted(m.name for m in pkgutil.iter_modules(planted.__path__) if not m.name.startswith("_"))
    return {name: importlib.import_module(f"{planted.__name__}.{name}") for name in names}


def possible(names: Sequence[str], dialect: str) -> bool:
    """Whether some format shows all these faults in that dialect, apart from what every capture of it holds."""
    limits = [set(getattr(scenario, "FORMATS", ALL)) for name, scenario in scenarios().items() if name in names]
    return bool(set(DIALECTS[dialect].formats_of(names)).intersection(*limits))


def plan(names: Sequence[str], seed: int, options: Options = DRAWN) -> Case:
    """The job with these faults and what they cost; ``clean`` leaves the faults out and nothing else.

    Base job, capture and each fault draw from numbers of their own, so that one can change without the others. A fault
    that another one hides (on a rank that is not the last to come) is drawn again.
    """
    known, dialect = scenarios(), DIALECTS[options.dialect]
    chosen = sorted((known[name] for name in names), key=lambda scenario: getattr(scenario, "ORDER", 0))
    config = base_config(random.Random(f"{seed}/base"))
    config = replace(config, **{key: value for key in ("ranks", "steps") if (value := getattr(options, key))})
    for scenario in chosen:
        config = replace(config, ranks=max(config.ranks, getattr(scenario, "RANKS", 1)))
        if hasattr(scenario, "suit"):
            config = scenario.suit(random.Random(f"{seed}/{scenario.CAUSE}/suit"), config)
    if options.dialect != "plain":
        config = dialect.configured(options.dialect, config)
    config, capture = capture_of(random.Random(f"{seed}/capture"), config, _allowed(chosen, options))
    for attempt in range(ATTEMPTS):
        made = _planted(chosen, seed, attempt, config, capture, options)
        if all(truth.gain_ns > LEAST_SHARE * made.step_ns for truth in made.truths):
            break
    if options.clean:
        return replace(made, faults=(), truths=(), job=simulate(without(made.config, (), made.faults)))
    return made


def _planted(
    chosen: Sequence[ModuleType], seed: int, attempt: int, config: SimConfig, capture: Capture, options: Options
) -> Case:
    faults: list[Fault] = []
    for scenario in chosen:
        job_so_far = configured(config, faults)
        if getattr(scenario, "ORDER", 0) <= 0:
            job_so_far = replace(job_so_far, faults=())
        draw = random.Random(f"{seed}/{scenario.CAUSE}/{attempt}")
        faults.append(scenario.plant(draw, job_so_far))
    config, capture = fit(config, capture, faults, options.missing_ranks, options.skew_ns)
    job = simulate(configured(config, faults))
    dialect = DIALECTS[config.dialect]
    found = tuple(_as_seen(truth, capture, dialect) for truth in truths(config, faults, job, capture))
    return Case(seed, config, tuple(faults), capture, job, found)


def _allowed(chosen: Sequence[ModuleType], options: Options) -> dict[str, tuple[Any, ...]]:
    """Formats and levels of captures that show all of them; what is asked for is not argued with."""
    dialect, names = DIALECTS[options.dialect], [scenario.CAUSE for scenario in chosen]
    if options.format and options.format not in dialect.formats:
        raise ValueError(f"the dialect {options.dialect} is written as {', '.join(dialect.formats)} only")
    allowed: dict[str, tuple[Any, ...]] = {"formats": dialect.formats_of(names), "levels": (0, 1, 2)}
    for scenario in chosen:
        for key in allowed:
            limits = getattr(scenario, key.upper(), allowed[key])
            allowed[key] = tuple(value for value in allowed[key] if value in limits)
    if not possible(names, options.dialect):
        raise ValueError(f"no capture in the dialect {options.dialect} shows {', '.join(names)}")
    if options.format:
        allowed["formats"] = (options.format,)
    if options.level is not None:
        allowed["levels"] = (options.level,)
    return allowed


def _as_seen(truth: Truth, capture: Capture, dialect: Dialect) -> Truth:
    """A cause that the capture cannot show has another name there: what it looks like."""
    fault = truth.fault
    cause = fault.cause if fault.seen is None else fault.seen(capture)
    cause = "host_late" if cause in dialect.unnamed else cause
    instead = dialect.instead if cause in OF_HOST else ()
    shown = (fault.own,) if fault.own else ()
    if fault.rank is not None and fault.rank not in capture.ranks:
        cause, instead, shown = "late_rank", dialect.absent, ("comm_exposed",) if fault.own else ()
    also = tuple(name for name in (*truth.also, *instead, *shown) if name != cause)
    return replace(truth, fault=replace(fault, cause=cause), also=also)


def write(case: Case, directory: Path) -> dict[str, Any]:
    """DIR/capture and DIR/truth.json, whatever lay there before."""
    home, capture = emptied(directory), case.capture
    job = case.dialect.written(case.job, capture.format)
    options = AscendOptions(LEVELS[capture.level], "2024-09" if case.config.dialect == "910a" else "current")  # type: ignore[arg-type]
    if capture.format == "kineto":
        write_kineto(job, home, "cuda", gz=True, ranks=capture.ranks)
    else:
        (write_text if capture.format == "text" else write_db)(job, home, options, capture.ranks)
    for name in capture.dropped:
        for path in home.rglob(name):
            path.unlink()
    if case.config.dialect == "renamed":
        _rename(home, random.Random(f"{case.seed}/names"))
    return say(directory, truth_of(case))


def _rename(home: Path, draw: random.Random) -> None:
    """Every file and directory gets a name that says nothing; what kind of file it is stays."""
    for path in sorted(home.rglob("*"), reverse=True):  # what lies deeper comes first
        ending = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]) if path.is_file() else ""
        path.rename(path.with_name(f"{draw.randrange(1 << 40):010x}{ending}"))


def emptied(directory: Path) -> Path:
    home = directory / "capture"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    return home


def say(directory: Path, truth: dict[str, Any]) -> dict[str, Any]:
    (directory / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return truth


def truth_of(case: Case) -> dict[str, Any]:
    """truth.json; times count from the earliest stamp of any captured rank, as in a loaded run."""
    origin = min(case.job.ranks[rank].begin_ns for rank in case.capture.ranks)
    return {
        "seed": case.seed,
        "step_ns": case.step_ns,
        "faults": [_as_dict(truth, origin) for truth in case.truths],
        "capture": {"format": case.capture.format, "level": case.capture.level, "ranks": list(case.capture.ranks)},
        **_of_dialect(case),
    }


def _of_dialect(case: Case) -> dict[str, Any]:
    """What there is to say where the dialect is not the plain one."""
    if case.config.dialect == "plain":
        return {}
    about = {"dialect": case.config.dialect, "steps": case.config.steps}
    return about | {"present": list(case.dialect.present)}


def _as_dict(truth: Truth, origin: int) -> Mapping[str, Any]:
    return {
        "cause": truth.fault.cause,
        "also": list(truth.also),
        "rank": truth.fault.rank,
        "windows": [{"rank": w.rank, "ts_ns": w.ts_ns - origin, "dur_ns": w.dur_ns} for w in truth.windows],
        "gain_ns": truth.gain_ns,
    }
