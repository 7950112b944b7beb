"""kernel_details.csv and op_summary: what each device task was, under every set of columns a version wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.ascend.text.trace_view import LATEST
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import literal

# The names of kernel_details, of op_summary, and of task_time.
_START = ("Start Time(us)", "Task Start Time(us)", "task_start(us)")
_DURATION = ("Duration(us)", "Task Duration(us)", "task_time(us)")
_WAIT = ("Wait Time(us)", "Task Wait Time(us)")
_NAME = ("Name", "Op Name", "kernel_name")
_TYPE = ("Type", "OP Type")
_CORE = ("Accelerator Core", "Task Type", "kernel_type")
_STREAM, _TASK = ("Stream ID", "stream_id"), ("Task ID", "task_id")
_BLOCK = ("Block Num", "Block Dim")
_MIX = ("Mix Block Num", "Mix Block Dim")
_TENSORS = {
    f"{side.lower()}_{what}": f"{side} {title}"
    for side in ("Input", "Output")
    for what, title in (("shapes", "Shapes"), ("dtypes", "Data Types"), ("formats", "Formats"))
}
_PLAIN = ("Step Id", "Device_id", "Model ID", *_STREAM, *_TASK, "OP State", "HF32 Eligible", "Context ID")
#: Columns that are no measurement of a core.
_NOT_PMU = (
    *_START, *_DURATION, *_WAIT, *_NAME, *_TYPE, *_CORE, *_BLOCK, *_MIX, *_PLAIN, *_TENSORS.values(),
    "Model Name", "Infer ID", "Iteration ID", "Index ID", "Op ID", "Thread ID", "Batch ID",
    "task_stop(us)",
)  # fmt: skip


def read_kernels(paths: Sequence[Path], draft: Draft, device: int | None = None) -> tuple[str, ...]:
    """Make the view ``kd``, one row per line of the files, and name the measurements it has as ``pmu_N``.

    ``device``: of files about several devices the one that is meant.
    """
    files: list[Csv] = []
    for at, path in enumerate(paths):
        if found := read_csv(path, draft, f"kernel_csv_{at}"):
            files.append(found)
        else:
            draft.partial("kernel", Message("is_empty", {"file": path.name}))
    metrics = tuple(dict.fromkeys(name for file in files for name in file.others(*_NOT_PMU)))
    for file in files:
        if file.damage:
            draft.partial("kernel", file.damage)
        if file.padded:
            draft.note("kernel", Message("rows_have_too_few_or", {"n": file.padded, "file": file.path.name}))
    selects = [_select(file, metrics, at) for at, file in enumerate(files)] or [_nothing()]
    draft.keep("kd_all", " UNION ALL BY NAME ".join(selects))
    whole = f"ts BETWEEN {-LATEST} AND {LATEST} AND dur BETWEEN 0 AND {LATEST} AND name IS NOT NULL"
    ours = "true" if device is None else f"coalesce(device, {device}) = {device}"
    broken = count(draft, f"SELECT count(*) FROM kd_all WHERE {ours} AND ({whole}) IS NOT TRUE")
    draft.drop("kernel", Message("row_without_name_start_or"), broken)
    draft.con.execute(f"CREATE VIEW kd AS FROM kd_all WHERE {ours} AND {whole}")
    return metrics


def pmu(metrics: Sequence[str], spans: str) -> str:
    """SQL of the pmu table for rows of ``spans`` (span_id, kd)."""
    names = ", ".join(literal(name) for name in metrics)
    values = ", ".join(f"pmu_{at}" for at in range(len(metrics)))
    return (
        f"SELECT * FROM (SELECT s.span_id, unnest([{names}]) AS metric, unnest([{values}]) AS value "
        f"FROM {spans} s JOIN kd k ON k.row = s.kd) WHERE value IS NOT NULL"
    )


def _select(file: Csv, metrics: Sequence[str], at: int) -> str:
    name, core = file.said(*_NAME), file.said(*_CORE)
    columns = {
        "row": f"row + {at << 36}",
        "ts": file.ns(*_START),
        "dur": file.ns(*_DURATION),
        "name": name,
        "step": file.whole("Step Id"),
        "device": file.whole("Device_id"),
        "model": file.whole("Model ID"),
        "task": file.whole(*_TASK),
        "stream": file.whole(*_STREAM),
        "context": file.whole("Context ID"),
        # task_time lists every task, op_summary and kernel_details operators only
        "is_task": "true" if file.has("kernel_type") else "false",
        "op_type": file.said(*_TYPE),
        "core": core,
        "comm": f"coalesce(upper({core}) IN ('HCCL', 'COMMUNICATION'), starts_with({name}, 'hcom_'), false)",
        "op_state": file.said("OP State"),
        "hf32": file.said("HF32 Eligible"),
        "block": file.whole(*_BLOCK),
        "mix": file.whole(*_MIX),
        "wait": file.ns(*_WAIT),
        **{ours: f"nullif(trim({file.said(theirs)}, '\"'), '')" for ours, theirs in _TENSORS.items()},
        **{f"pmu_{n}": f"approx({file.cell(metric)})" for n, metric in enumerate(metrics)},
    }
    listed = ", ".join(f"{expression} AS {ours}" for ours, expression in columns.items())
    return f"SELECT {listed} FROM {file.name}"


def _nothing() -> str:
    """No rows, with every column."""
    return _select(Csv(Path(), "(SELECT 0::BIGINT AS row WHERE false)", ()), (), 0)
