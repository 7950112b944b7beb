"""Writes a simulated job as torch_npu writes it with export type db: one database per rank, and analysis.db."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from npulens.collectors.simulator.items import Tensors
from npulens.collectors.simulator.job import (
    NONE_ID,
    UNKNOWN,
    CommOp,
    CommTask,
    Copy,
    HostOp,
    Job,
    Kernel,
    PyFrame,
    Queued,
    RankRecord,
    Runtime,
    Span,
    Task,
)
from npulens.collectors.writers.ascend import HARDWARE, MODULES, UNTYPED, AscendOptions
from npulens.collectors.writers.comm_files import MB, Analysis, analyse, by_step, matrix_links, rate
from npulens.collectors.writers.db_schema import (
    DATA_TYPES,
    GC_RECORD,
    LINK_TYPES,
    TRANSPORTS,
    Database,
    Value,
    analysis_tables,
    enums,
    tables,
)
from npulens.collectors.writers.profiler_rules import db_step_times
from npulens.collectors.writers.torch_npu_csv import STREAM_POINTER
from npulens.collectors.writers.torch_npu_text import chosen, metadata, rank_directory, write_text_rank

MIB = 1 << 20
_MEMORY_STRINGS = 2 << 28


class Strings:
    """STRING_IDS in the making: every tool numbers its strings from a start of its own."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, str]] = []
        self.start(0)

    def start(self, first: int) -> None:
        """Another tool writes from here on; it knows nothing of the strings before."""
        self._ids: dict[str, int] = {}
        self._first = first

    def __getitem__(self, text: str) -> int:
        number = self._ids.get(text)
        if number is None:
            number = self._ids[text] = self._first + len(self._ids)
            self._rows.append((number, text))
        return number

    def rows(self) -> Iterator[tuple[int, str]]:
        return iter(self._rows)


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
    db.insert("NPU_INFO", [(record.device, "Ascend910A" if options.first else "Ascend910B2")])
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


# The framework's tables: PYTORCH_API with operators, queue and Python functions, their connections and call chains.
_STRINGS = 1 << 28
_OP, _QUEUE, _TRACE = 50001, 50002, 50003
_FORWARD = 50_000_000  # connection of a forward operator with its backward, beside those of the queue


class _Connections:
    """CONNECTION_IDS: one id may stand for several connections."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self._next = 0

    def add(self, connections: list[int]) -> int | None:
        if not connections:
            return None
        number = self._next
        self._next += 1
        self.rows += [(number, connection) for connection in connections]
        return number


def write_host(record: RankRecord, db: Database, strings: Strings, options: AscendOptions) -> None:
    strings.start(_STRINGS)
    base = 1 << 24 if options.old else 5 << 28
    connections = _Connections()
    tids = {key: record.pid << 32 | track.tid for key, track in record.tracks.items()}
    db.insert("PYTORCH_API", _simple(record.of("python"), tids, strings, None, base))
    for kind in ("enqueue", "dequeue"):
        db.insert("PYTORCH_API", _simple(record.of(kind), tids, strings, connections, base))
    chains: list[tuple[int, ...]] = []
    launched = _launched(record)
    for span in record.of("cpu_op", "annotation", "step_mark"):
        assert isinstance(span.detail, HostOp)
        mine = [base + _FORWARD + span.detail.sequence] if span.detail.sequence >= 0 else []
        mine += launched.get(span.id, [])
        db.insert("PYTORCH_API", [_operator(span, span.detail, tids, strings, connections.add(mine), chains)])
    if "GC_RECORD" in db:
        db.insert("GC_RECORD", [(span.ts_ns, span.end_ns, tids[span.track]) for span in record.of("gc")])
    db.insert("CONNECTION_IDS", connections.rows)
    db.insert("PYTORCH_CALLCHAINS", chains)


def _launched(record: RankRecord) -> dict[int, list[int]]:
    """Operator -> connections of its node-level launches; copies are not launched through a node."""
    found: dict[int, list[int]] = {}
    for link in record.links:
        if link.route == "torch_to_npu":
            target = record.by_id[link.dst]
            if target.kind == "comm_op" or isinstance(target.detail, Kernel):
                found.setdefault(link.src, []).append(target.detail.connection)  # type: ignore[union-attr]
    return found


def _simple(
    spans: list[Span], tids: dict[str, int], strings: Strings, connections: _Connections | None, base: int
) -> Iterator[tuple[Value, ...]]:
    for span in spans:
        assert isinstance(span.detail, PyFrame | Queued)
        number, kind = None, _TRACE
        if connections is not None and isinstance(span.detail, Queued):
            number, kind = connections.add([base + span.detail.correlation]), _QUEUE
        head = (str(span.ts_ns), str(span.end_ns), tids[span.track], number, strings[span.name])
        yield (*head, None, None, None, None, None, kind)


def _operator(
    span: Span, op: HostOp, tids: dict[str, int], strings: Strings, number: int | None, chains: list[tuple[int, ...]]
) -> tuple[Value, ...]:
    chain = None
    if op.stack:
        chain = chains[-1][0] + 1 if chains else 0
        chains += [(chain, strings[frame], depth) for depth, frame in enumerate(op.stack)]
    dtypes = None if op.dtypes is None else strings[";\r\n".join(op.dtypes)]
    shapes = None if op.shapes is None else strings[";\r\n".join(op.shapes)]
    head = (str(span.ts_ns), str(span.end_ns), tids[span.track], number, strings[span.name])
    return (*head, op.sequence, op.fwd_thread, dtypes, shapes, chain, _OP)


# CANN's tables: calls, tasks, what each task computed, copied or communicated, and its counters.
_LEVELS = {"acl": 20000, "node": 10000, "hccl": 5500, "runtime": 5000}
_OPERATIONS = {"h2d": 1, "d2h": 2, "d2d": 3}
_TASK_TYPES = {
    "AI_CORE": "KERNEL_AICORE",
    "AI_VECTOR_CORE": "KERNEL_AIVEC",
    "AI_CPU": "KERNEL_AICPU",
    "MIX_AIC": "MIX_AIC",
    "MIX_AIV": "MIX_AIV",
    "DSA_SQE": "STARS_COMMON",
}
_INVALID = 65535
_NOT_KNOWN = 65534


def write_device(job: Job, record: RankRecord, db: Database, strings: Strings, options: AscendOptions) -> None:
    tids = {key: record.pid << 32 | track.tid for key, track in record.tracks.items()}
    calls = []
    for span in record.of("runtime"):
        call = span.detail
        assert isinstance(call, Runtime)
        if call.level != "runtime" or options.level == "Level2":
            name = "launch" if call.level == "node" else call.item
            row = (span.ts_ns, span.end_ns, _LEVELS[call.level], tids[span.track], call.connection, strings[name])
            calls.append(row)
    db.insert("CANN_API", calls)
    writer = _Tasks(job, record, db, strings, options)
    for span in record.of("kernel", "memset", "memcpy", "wait", "device_other", "comm_op", "comm_task"):
        writer.add(span)
    writer.flush()


class _Tasks:
    """Numbers the tasks by start and files each under its tables."""

    def __init__(self, job: Job, record: RankRecord, db: Database, strings: Strings, options: AscendOptions) -> None:
        self.record, self.db, self.strings, self.options = record, db, strings, options
        self.rows: dict[str, list[tuple[Value, ...]]] = {}
        self.ops: dict[int, int] = {}
        self.next_task = 0

    def put(self, table: str, *row: Value) -> None:
        self.rows.setdefault(table, []).append(row)

    def flush(self) -> None:
        for table, rows in self.rows.items():
            self.db.insert(table, rows)

    def add(self, span: Span) -> None:
        detail = span.detail
        if isinstance(detail, CommOp):
            self._comm_op(span, detail)
            return
        assert isinstance(detail, Kernel | Copy | Task | CommTask)
        number = self.next_task
        self.next_task += 1
        kind, context = span.name, NONE_ID
        if isinstance(detail, Kernel):
            kind, context = _TASK_TYPES[detail.core], detail.context
            self._kernel(span, detail, number)
        elif isinstance(detail, Copy):
            if "MEMCPY_INFO" in self.db:
                self.put("MEMCPY_INFO", number, detail.bytes, _OPERATIONS[detail.direction])
        elif isinstance(detail, CommTask):
            kind, context = (UNTYPED if self.options.first else HARDWARE)[detail.task_type], detail.context
            self._comm_task(span, detail, number)
        self.put(
            "TASK",
            span.ts_ns,
            span.end_ns,
            self.record.device,
            NONE_ID if detail.connection == UNKNOWN else detail.connection,
            number,
            self.record.pid,
            self.strings[kind],
            context,
            detail.stream,
            detail.task,
            (isinstance(detail, Kernel) and detail.graph) or NONE_ID,
        )

    def _kernel(self, span: Span, kernel: Kernel, number: int) -> None:
        api, ids = self.options.api, self.strings
        unknown = ids["N/A"]
        core, op_type = (ids[kernel.core], ids[kernel.op_type]) if api else (unknown, unknown)
        blocks = (kernel.block_num, kernel.mix_block_num) if api else (0, 0)
        tensors: list[Value] = []
        for side in (kernel.inputs, kernel.outputs):
            tensors += self._tensors(side) if api else [unknown] * 3
        tail: list[Value] = []
        if not self.options.old:
            tail = [ids["dynamic"] if api else unknown, ids[kernel.hf32] if api else unknown, unknown, unknown]
        self.put("COMPUTE_TASK_INFO", ids[span.name], number, *blocks, core, op_type, *tensors, unknown, *tail)
        if api:
            for name, value in kernel.pmu:
                self.put("TASK_PMU_INFO", number, ids[name], value)

    def _tensors(self, side: Tensors) -> list[Value]:
        shapes = f'"{side.shapes}"' if side.shapes else ""
        return [self.strings[text or "N/A"] for text in (side.formats, side.dtypes, shapes)]

    def _comm_op(self, span: Span, op: CommOp) -> None:
        ids = self.strings
        number = self.ops[span.id] = len(self.ops) + 1
        kind = span.name.split("__")[0] + "_"
        tail = () if self.options.old else (self.record.device, op.ranks)
        connection = NONE_ID if op.connection == UNKNOWN else op.connection
        head = (ids[span.name], span.ts_ns, span.end_ns, connection, ids[op.group], number, 0, 0)
        data = (_code(DATA_TYPES, op.dtype), ids[op.algorithm], op.elements, ids[kind])
        self.put("COMMUNICATION_OP", *head, *data, *tail)

    def _comm_task(self, span: Span, task: CommTask, number: int) -> None:
        """Level0 knows the tasks but nothing about them."""
        ids, api = self.strings, self.options.api
        name = self.record.by_id[task.op].name
        row: list[Value] = [ids[name], number, ids[task.task_type]]
        if api:
            notify = min(task.notify, 2**63 - 1)
            row += [task.plane, ids[task.group], notify, _INVALID, task.src, task.dst]
            row += [_code(TRANSPORTS, task.transport), task.bytes, _code(DATA_TYPES, task.dtype)]
            row += [_code(LINK_TYPES, task.link), self.ops[task.op]]
        else:
            row += [NONE_ID, ids[task.group], 0, _NOT_KNOWN, NONE_ID, NONE_ID, _NOT_KNOWN, -1, _NOT_KNOWN, _NOT_KNOWN]
            row += [self.ops[task.op]]
        if not self.options.old:
            speed = task.bytes * 1e9 / span.dur_ns if span.dur_ns else 0
            row += [int(task.plane == 1), speed if api else -1]
        self.put("COMMUNICATION_TASK_INFO", *row)


def _code(names: dict[int, str], name: str) -> int:
    return next((number for number, text in names.items() if text == name), _INVALID)
