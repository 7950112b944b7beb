"""Writes a simulated job as torch_npu writes it with export type db: one database per rank, and analysis.db."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from npulens.collectors.simulator.job import Job, RankRecord
from npulens.collectors.writers.ascend import MODULES, AscendOptions
from npulens.collectors.writers.comm_files import MB, Analysis, analyse, by_step, matrix_links, rate
from npulens.collectors.writers.db_device import write_device
from npulens.collectors.writers.db_host import write_host
from npulens.collectors.writers.db_schema import GC_RECORD, Database, Value, analysis_tables, enums, tables
from npulens.collectors.writers.db_strings import Strings
from npulens.collectors.writers.profiler_rules import db_step_times
from npulens.collectors.writers.torch_npu_csv import STREAM_POINTER
from npulens.collectors.writers.torch_npu_text import chosen, metadata, rank_directory, write_text_rank

MIB = 1 << 20
_MEMORY_STRINGS = 2 << 28


def write_db(
    job: Job, directory: Path, options: AscendOptions | None = None, ranks: Iterable[int] | None = None
) -> list[Path]:
    """Writes the chosen ranks (all where none are named) and returns their directories."""
    options = options or AscendOptions()
    return [_write_rank(job, record, directory, options, ("db",)) for record in chosen(job, ranks)]


def write_both(
    job: Job, directory: Path, options: AscendOptions | None = None, ranks: Iterable[int] | None = None
) -> list[Path]:
    """Text and db in the same directories, as with both export types."""
    options, exports = options or AscendOptions(), ("db", "text")
    records = chosen(job, ranks)
    for record in records:
        write_text_rank(job, record, directory, options, exports)
    return [_write_rank(job, record, directory, options, exports) for record in records]


def _write_rank(
    job: Job, record: RankRecord, directory: Path, options: AscendOptions, exports: tuple[str, ...]
) -> Path:
    output = rank_directory(job, record, directory, options, exports)
    indexes = (
        "CommunicationTaskIndex ON COMMUNICATION_TASK_INFO (globalTaskId)",
        "TaskIndex ON TASK (startNs,globalTaskId)",
    )
    path, schema = output / f"ascend_pytorch_profiler_{record.rank}.db", tables(options)
    if job.config.gc_threshold_ms is not None:
        schema["GC_RECORD"] = GC_RECORD
    db = Database(path, schema, indexes)
    strings = Strings()
    _facts(job, record, db, options)
    write_device(job, record, db, strings, options)
    _counters(record, db, strings, options)
    write_host(record, db, strings, options)
    _memory(record, db, strings)
    db.insert("STRING_IDS", strings.rows())
    db.close()
    _write_analysis(job, record, output, options)
    return output.parent


def _facts(job: Job, record: RankRecord, db: Database, options: AscendOptions) -> None:
    db.insert("SESSION_TIME_INFO", [(record.begin_ns, record.end_ns)])
    db.insert("NPU_INFO", [(record.device, "Ascend910A" if options.first else "Ascend910B3")])
    db.insert("HOST_INFO", [("3517662419847701523", record.host)])
    for table, names in enums(options).items():
        db.insert(table, names.items())
    db.insert("ENUM_MODULE", MODULES.items())
    version = ("1", "0", "0") if options.old else ("1", "2", "0")
    rows = [
        ("SCHEMA_VERSION_MICRO", version[2]),
        ("SCHEMA_VERSION_MINOR", version[1]),
        ("SCHEMA_VERSION_MAJOR", version[0]),
        ("SCHEMA_VERSION", ".".join(version)),
    ]
    known = metadata(job, record).items()
    rows += [(name, json.dumps(value)) for name, value in known if not options.first or name == "ENV_VARIABLES"]
    db.insert("META_DATA", rows)
    db.insert("RANK_DEVICE_MAP", [(record.rank, record.device)])
    db.insert("STEP_TIME", [(mark.step, mark.ts_ns, mark.end_ns) for mark in record.steps])


def _counters(record: RankRecord, db: Database, strings: Strings, options: AscendOptions) -> None:
    """What trace_view.json draws as counters; KB and MB/s there are bytes here."""
    device = record.device
    memory: dict[tuple[str, int], dict[str, int]] = {}
    llc: dict[int, dict[str, float]] = {}
    die: tuple[Value, ...] = () if options.old else (0,)
    for sample in record.samples:
        owner, _, what = sample.counter.partition("/")
        if sample.series == "MHz":
            if not options.first:
                db.insert("AICORE_FREQ", [(device, sample.ts_ns, sample.value, *die)])
        elif sample.series == "KB":
            memory.setdefault((owner.lower(), sample.ts_ns), {})[what] = int(sample.value) * 1024
        elif owner.startswith("HBM"):
            row = (device, sample.ts_ns, sample.value * MIB, int(owner.split()[1]), strings[what.lower()])
            db.insert("HBM", [row])
        else:
            llc.setdefault(sample.ts_ns, {})[what] = sample.value
    db.insert("NPU_MEM", [(strings[key[0]], kb["DDR"], kb["HBM"], key[1], device) for key, kb in memory.items()])
    rows = [
        (device, 0, ts, round(100 * what["Hit Rate"], 1), what["Throughput"] * MIB, strings["read"])
        for ts, what in sorted(llc.items())
    ]
    db.insert("LLC", rows)


def _memory(record: RankRecord, db: Database, strings: Strings) -> None:
    strings.start(_MEMORY_STRINGS)
    states = [state for state in record.memory_states if state.component != "APP"]
    rows = [(strings[state.component], state.ts_ns, *state.totals, STREAM_POINTER, record.device) for state in states]
    db.insert("MEMORY_RECORD", rows)
    db.insert("OP_MEMORY", _blocks(record, strings))
    ids = {name: number for number, name in MODULES.items()}
    modules = [(ids[state.component], state.ts_ns, state.totals[1], record.device) for state in record.module_states]
    db.insert("NPU_MODULE_MEM", modules)


def _blocks(record: RankRecord, strings: Strings) -> Iterator[tuple[Value, ...]]:
    for block in record.memory:
        freed = block.release_ns
        ns = None if freed is None else freed - block.ts_ns
        totals = (*block.totals, *(block.release_totals or (None, None, None)))
        head = (strings[block.name], block.bytes, block.ts_ns, freed, freed, ns, ns)
        yield (*head, *totals, STREAM_POINTER, record.device)


def _write_analysis(job: Job, record: RankRecord, output: Path, options: AscendOptions) -> None:
    """analysis.db; its times are us for steps and ms for communication."""
    db = Database(output / "analysis.db", analysis_tables(options))
    head: tuple[Value, ...] = () if options.old else (record.device,)
    for row in db_step_times(record):
        step = "" if row.step is None else str(row.step)
        db.insert("StepTraceTime", [(*head, step, *(ns / 1000 for ns in row[1:]))])
    if "CommAnalyzerTime" in db:
        steps = by_step(analyse(record, {group.name: group.hash for group in job.groups}))
        for step, mine in steps.items():
            for one in mine:
                db.insert("CommAnalyzerTime", [_time(one, step)])
                db.insert("CommAnalyzerBandwidth", _bandwidth(one, step))
            db.insert("CommAnalyzerMatrix", _matrix(mine, step))
    db.close()


def _time(one: Analysis, step: str) -> tuple[Value, ...]:
    numbers = (one.elapse / 1e6, one.transit / 1e6, one.wait / 1e6, one.synchronization / 1e6, one.idle / 1e6)
    return one.span.name, str(one.hash), round(one.span.ts_ns / 1000, 1), *numbers, step, one.scope


def _bandwidth(one: Analysis, step: str) -> Iterator[tuple[Value, ...]]:
    for transport in ("HCCS", "SDMA"):
        sums = (one.bytes / MB, one.link_ns / 1e6, rate(one.bytes, one.link_ns), 0)
        sizes = one.sizes.items() if transport == "HCCS" else [(0, (0, 0))]
        for size, (count, ns) in sizes:
            packets = (size / MB, count, ns / 1e6)
            yield one.span.name, str(one.hash), transport, *sums, *packets, step, one.scope


def _matrix(mine: list[Analysis], step: str) -> Iterator[tuple[Value, ...]]:
    for link in matrix_links(mine):
        ends = (str(link.hash), str(link.source), str(link.target), link.transport)
        numbers = (link.bytes / MB, link.ns / 1e6, rate(link.bytes, link.ns))
        yield link.key, *ends, *numbers, step, link.scope, link.operator
