"""The CSV files of ASCEND_PROFILER_OUTPUT, with the tools' columns, line ends, tabs behind stamps and quotes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from npulens.collectors.simulator.job import NONE_ID, CommOp, HostOp, Kernel, MemoryState, RankRecord, Runtime, Span
from npulens.collectors.writers.ascend import AscendOptions
from npulens.collectors.writers.json_text import us
from npulens.collectors.writers.profiler_rules import KernelRow, kernel_rows, text_step_times

Cell = str | int | float | None
Row = Sequence[Cell]
MIB = 1 << 20

_PMU = (
    "aicore_time(us),aic_total_cycles,aic_mac_time(us),aic_mac_ratio,aic_scalar_time(us),aic_scalar_ratio,"
    "aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,aic_fixpipe_time(us),aic_fixpipe_ratio,"
    "aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),"
    "aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte3_time(us),aiv_mte3_ratio,aiv_icache_miss_rate"
)
_OLD_PMU = (
    "aicore_time(us),total_cycles,vec_time(us),vec_ratio,mac_time(us),mac_ratio,scalar_time(us),scalar_ratio,"
    "mte1_time(us),mte1_ratio,mte2_time(us),mte2_ratio,mte3_time(us),mte3_ratio,icache_miss_rate,memory_bound,"
    "cube_utilization(%)"
)
_TENSORS = "Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats"
_MEMORY = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type"
)
STREAM_POINTER = 187_650_944


def write_csv(path: Path, header: str, rows: Iterable[Row], *, crlf: bool = True) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\r\n" if crlf else "\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def stamp(ns: int) -> str:
    """A stamp in us; the tab keeps spreadsheets from rounding it."""
    return us(ns) + "\t"


def write_tables(record: RankRecord, out: Path, options: AscendOptions) -> None:
    """All CSV files that the options ask for."""
    extra = "" if options.old else "Device_id,"
    write_kernels(record, out, options)
    head: list[Cell] = [] if options.old else [record.device]
    steps = ([*head, row.step, *(ns / 1000 for ns in row[1:])] for row in text_step_times(record))
    header = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    header += "Communication(Not Overlapped and Exclude Receive),Preparing"
    write_csv(out / "step_trace_time.csv", extra + header, steps)
    if options.first:
        _write_memory(record, out, options)
        return
    header = "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),"
    header += "Device Total Duration(us),Device Self Duration With AICore(us),Device Total Duration With AICore(us)"
    write_csv(out / "operator_details.csv", header, operators(record), crlf=False)
    write_csv(out / "l2_cache.csv", "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name", _l2(record), crlf=False)
    _write_memory(record, out, options)
    if options.api:
        header = "OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)"
        write_csv(out / "op_statistic.csv", extra + header, _op_statistic(record, options), crlf=False)
        header = "Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance"
        write_csv(out / "api_statistic.csv", extra + header, _api_statistic(record, options), crlf=False)


def write_kernels(
    record: RankRecord, out: Path, options: AscendOptions, laps: int = 1, lap_ns: int = 0, lap_steps: int = 0
) -> None:
    """kernel_details.csv; more than one lap where the trace beside it is laid end to end."""
    device = "" if options.old else "Device_id,"
    block = "Block Dim" if options.old else "Block Num"
    if not options.api:
        header = f"Step Id,{device}Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),{block}"
    else:
        header = f"Step Id,{device}Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),"
        header += f"Duration(us),Wait Time(us),{block},Mix {block},HF32 Eligible,{_TENSORS},Context ID,{_PMU},"
        header += "cube_utilization(%)"
        if options.first:
            header = header.replace(f"Mix {block},", "").replace(f",Context ID,{_PMU},cube_utilization(%)", "")
            header += f",{_OLD_PMU}"
    first = [(row.span.ts_ns, _kernel(row, record, options)) for row in kernel_rows(record)]
    column = header.split(",").index("Start Time(us)")

    def shifted(ts: int, cells: list[Cell], lap: int) -> list[Cell]:
        step = cells[0] + lap * lap_steps if isinstance(cells[0], int) else cells[0]
        return [step, *cells[1:column], stamp(ts + lap * lap_ns), *cells[column + 1 :]]

    rows = (shifted(ts, cells, lap) for lap in range(laps) for ts, cells in first)
    write_csv(out / "kernel_details.csv", header, rows)


def _kernel(row: KernelRow, record: RankRecord, options: AscendOptions) -> list[Cell]:
    detail = row.span.detail
    head: list[Cell] = ["" if row.step is None else row.step, *([] if options.old else [record.device])]
    times: list[Cell] = [stamp(row.span.ts_ns), row.span.dur_ns / 1000, row.wait_ns / 1000]
    communication = "HCCL" if options.old else "COMMUNICATION"
    if isinstance(detail, CommOp):
        kind = row.span.name.split("__")[0] + "_"
        if not options.api:
            return [*head, row.span.name, kind, communication, *times, 0]
        ids: list[Cell] = [NONE_ID, "N/A", "N/A", row.span.name, kind, "N/A", communication]
        return [*head, *ids, *times, 0, *["N/A"] * (7 + len(_OLD_PMU.split(",")) if options.first else 34)]
    assert isinstance(detail, Kernel)
    if not options.api:
        return [*head, row.span.name, "N/A", "N/A", *times, 0]
    tensors: list[Cell] = []
    for side in (detail.inputs, detail.outputs):
        tensors += [f'"{side.shapes}"' if side.shapes else "N/A", side.dtypes or "N/A", side.formats or "N/A"]
    context = "N/A" if detail.context == NONE_ID else detail.context
    model, state = (detail.graph, "static") if detail.graph else (NONE_ID, "dynamic")
    ids = [model, detail.task, detail.stream, row.span.name, detail.op_type, state, detail.core]
    if options.first:
        return [*head, *ids, *times, detail.block_num, detail.hf32, *tensors, *_old_counters(row.span, detail)]
    blocks: list[Cell] = [detail.block_num, detail.mix_block_num, detail.hf32]
    return [*head, *ids, *times, *blocks, *tensors, context, *_counters(row.span, detail)]


def _counters(span: Span, kernel: Kernel) -> list[Cell]:
    """Times in us here, in ns in the database."""
    if not kernel.pmu:
        return ["N/A"] * 25
    cells: list[Cell] = [value / 1000 if name.endswith("_time") else value for name, value in kernel.pmu]
    cycles = dict(kernel.pmu)["aic_total_cycles"]
    return [*cells, round(100 * cycles / (1.8 * 24 * span.dur_ns), 3)]


def _old_counters(span: Span, kernel: Kernel) -> list[Cell]:
    """One side of the core where there is but one kind of core."""
    counters = {name.partition("_")[2]: value for name, value in kernel.pmu if value}
    if not counters:
        return ["N/A"] * len(_OLD_PMU.split(","))
    counters["aicore_time"] = counters.get("total_time", 0)
    counters["total_cycles"] = int(counters["aicore_time"]) * kernel.block_num  # at 1,000 MHz
    cells: list[Cell] = []
    for column in _OLD_PMU.split(","):
        value = counters.get(column.removesuffix("(us)"), 0)
        cells.append(value / 1000 if column.endswith("(us)") else value)
    return cells


def _l2(record: RankRecord) -> Iterator[Row]:
    for span in record.of("kernel", "memset"):
        assert isinstance(span.detail, Kernel)
        if span.detail.core == "AI_CPU":
            continue  # it does not go through the cache of the AI cores
        hit = span.detail.l2_hit
        yield span.detail.stream, span.detail.task, hit, round((1 - hit) / 3, 6), span.name


def operators(record: RankRecord) -> Iterator[Row]:
    """Every operator with its own time and its children's, on the host and through what it launched on the device."""
    device: dict[int, list[int]] = {}
    for link in record.links:
        if link.route == "torch_to_npu":
            target = record.by_id[link.dst]
            core = isinstance(target.detail, Kernel) and target.detail.core not in ("DSA_SQE", "AI_CPU")
            times = device.setdefault(link.src, [0, 0])
            times[0] += target.dur_ns
            times[1] += target.dur_ns if core else 0
    spans = [span for span in record.spans if span.kind in ("cpu_op", "annotation") and span.track.startswith("thread")]
    own = {span.id: [span.dur_ns, *device.get(span.id, (0, 0))] for span in spans}
    total = {number: list(times) for number, times in own.items()}
    parents: dict[int, int] = {}
    open_spans: dict[str, list[Span]] = {}
    for span in spans:
        stack = open_spans.setdefault(span.track, [])
        while stack and stack[-1].end_ns <= span.ts_ns:
            stack.pop()
        if stack:
            parents[span.id] = stack[-1].id
            own[stack[-1].id][0] -= span.dur_ns
        stack.append(span)
    for span in reversed(spans):
        if span.id in parents:
            for side in (1, 2):
                total[parents[span.id]][side] += total[span.id][side]
    for span in spans:
        assert isinstance(span.detail, HostOp)
        shapes = ";\n".join(span.detail.shapes or ())
        stack_text = ";\n".join(span.detail.stack)
        mine, every = own[span.id], total[span.id]
        numbers = (mine[0], every[0], mine[1], every[1], mine[2], every[2])
        yield [span.name, shapes, stack_text, *(ns / 1000 for ns in numbers)]


def _op_statistic(record: RankRecord, options: AscendOptions) -> list[list[Cell]]:
    times: dict[tuple[str, str], list[int]] = {}
    for span in record.of("kernel", "memset"):
        assert isinstance(span.detail, Kernel)
        times.setdefault((span.detail.op_type, span.detail.core), []).append(span.dur_ns)
    every = sum(map(sum, times.values()))
    rows: list[list[Cell]] = []
    for (kind, core), all_ns in sorted(times.items(), key=lambda item: (-sum(item[1]), item[0])):
        total, count = sum(all_ns), len(all_ns)
        numbers: list[Cell] = [total / 1000, min(all_ns) / 1000, round(total / count / 1000, 3), max(all_ns) / 1000]
        ratio = round(100 * total / every, 3)
        rows.append(([] if options.old else [record.device]) + [kind, core, count, *numbers, ratio])
    return rows


def _api_statistic(record: RankRecord, options: AscendOptions) -> list[list[Cell]]:
    times: dict[tuple[str, str], list[int]] = {}
    for span in record.of("runtime"):
        call = span.detail
        assert isinstance(call, Runtime)
        if options.shows(call):
            level = "communication" if call.level == "hccl" and not options.old else call.level
            times.setdefault((level, "launch" if call.level == "node" else call.item), []).append(span.dur_ns)
    rows: list[list[Cell]] = []
    for (level, name), all_ns in sorted(times.items()):
        total, count = sum(all_ns), len(all_ns)
        variance = sum((ns * count - total) ** 2 for ns in all_ns) / count**3 / 1e6
        numbers: list[Cell] = [total / 1000, count, round(total / count / 1000, 3), min(all_ns) / 1000]
        head: list[Cell] = [] if options.old else ["host"]
        rows.append([*head, level, name, *numbers, max(all_ns) / 1000, round(variance, 3)])
    return rows


def _write_memory(record: RankRecord, out: Path, options: AscendOptions) -> None:
    device = f"NPU:{record.device}"

    def state(row: MemoryState) -> list[Cell]:
        allocated, reserved, active = (None if size is None else size / MIB for size in row.totals)
        pointer = None if allocated is None else STREAM_POINTER
        return [row.component, stamp(row.ts_ns), allocated, reserved, active, pointer, device]

    header = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type"
    write_csv(out / "memory_record.csv", header, map(state, record.memory_states))
    write_csv(out / "operator_memory.csv", _MEMORY, _blocks(record, device))
    header = "Component,Timestamp(us),Total Reserved(MB),Device"
    rows: list[list[Cell]] = [
        [*([] if options.old else [record.device]), name, stamp(ts), totals[1] / MIB, device]
        for name, ts, totals in sorted(record.module_states, key=lambda state: state.component)
    ]
    extra = "" if options.old else "Device_id,"
    write_csv(out / "npu_module_mem.csv", extra + header, rows, crlf=False)


def _blocks(record: RankRecord, device: str) -> Iterator[Row]:
    for block in record.memory:
        row: list[Cell] = [block.name, block.bytes / 1024, stamp(block.ts_ns)]
        if block.release_ns is None:
            row += [None] * 4
        else:
            row += [stamp(block.release_ns)] * 2 + [stamp(block.release_ns - block.ts_ns)] * 2
        for totals in (block.totals, block.release_totals or (None, None, None)):
            row += [None if size is None else size / MIB for size in totals]
        yield [*row, STREAM_POINTER, device]
