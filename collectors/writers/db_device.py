"""CANN's tables: calls, tasks, what each task computed, copied or communicated, and its counters."""

from __future__ import annotations

from npulens.collectors.simulator.items import Tensors
from npulens.collectors.simulator.job import (
    NONE_ID,
    UNKNOWN,
    CommOp,
    CommTask,
    Copy,
    Job,
    Kernel,
    RankRecord,
    Runtime,
    Span,
    Task,
)
from npulens.collectors.writers.ascend import HARDWARE, UNTYPED, AscendOptions
from npulens.collectors.writers.db_schema import DATA_TYPES, LINK_TYPES, TRANSPORTS, Database, Value
from npulens.collectors.writers.db_strings import Strings

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
