"""kernel_details.csv and op_summary: what each device task was, under every set of columns a version wrote.

The names are those of kernel_details, of op_summary, and of task_time.
"""

from __future__ import annotations

START = ("Start Time(us)", "Task Start Time(us)", "task_start(us)")
DURATION = ("Duration(us)", "Task Duration(us)", "task_time(us)")
WAIT = ("Wait Time(us)", "Task Wait Time(us)")
NAME = ("Name", "Op Name", "kernel_name")
TYPE = ("Type", "OP Type")
CORE = ("Accelerator Core", "Task Type", "kernel_type")
STREAM, TASK = ("Stream ID", "stream_id"), ("Task ID", "task_id")
BLOCK = ("Block Num", "Block Dim")
MIX = ("Mix Block Num", "Mix Block Dim")
TENSORS = {
    f"{side.lower()}_{what}": f"{side} {title}"
    for side in ("Input", "Output")
    for what, title in (("shapes", "Shapes"), ("dtypes", "Data Types"), ("formats", "Formats"))
}
PLAIN = ("Step Id", "Device_id", "Model ID", *STREAM, *TASK, "OP State", "HF32 Eligible", "Context ID")
#: Columns that are no measurement of a core.
NOT_PMU = (
    *START, *DURATION, *WAIT, *NAME, *TYPE, *CORE, *BLOCK, *MIX, *PLAIN, *TENSORS.values(),
    "Model Name", "Infer ID", "Iteration ID", "Index ID", "Op ID", "Thread ID", "Batch ID",
    "task_stop(us)",
)  # fmt: skip

#: A large number that lost whole digits: 1.77710E+15. Spreadsheets write stamps so.
ROUNDED = r"^\s*\d((\.\d{0,8})?[eE]\+?0?(9|1[0-4])|(\.\d{0,14})?[eE]\+?1[5-9])\s*$"
