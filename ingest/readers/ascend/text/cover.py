"""What a text export holds of the rank it is of, what it lost, what it lacks and which setting records that."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from npulens.ingest.messages import Message, at_level, listed
from npulens.ingest.readers import Claim
from npulens.ingest.readers.ascend import prof_dir, rankdir
from npulens.ingest.readers.ascend.text import exports
from npulens.ingest.readers.ascend.text.trace_view import Pass
from npulens.ingest.tables.draft import Draft

_TRACE = re.compile(r"^(trace_view|msprof).*\.json(\.gz)?$")
#: Stamps before 2001 are no wall clock.
_WALL_CLOCK_NS = 10**18
#: What msprof appends to the names of its files.
_NUMBERS = re.compile(r"(_slice)?(_\d+)+(?=\.)")
#: Names of passed over files that are listed.
_LISTED = 20
_STATISTICS = ("op_statistic.csv", "api_statistic.csv", "operator_details.csv")
_LEVEL1 = "profiler_level=Level1"
_DEVICE = "activities=[CPU, NPU]"


def facts(root: Path, draft: Draft) -> None:
    """Columns of ``rank`` that only the files themselves can tell."""
    both = "SELECT min(ts) AS ts FROM x UNION ALL SELECT min(ts) FROM kd UNION ALL SELECT min(ts) FROM op_json"
    first = draft.con.execute(f"SELECT min(ts) FROM ({both})").fetchall()[0][0]
    if first is not None:
        draft.fact("clock", "unix" if first >= _WALL_CLOCK_NS else "monotonic")
    devices = draft.con.execute("SELECT DISTINCT device FROM kd WHERE device BETWEEN 0 AND 2147483647").fetchall()
    if len(devices) == 1:
        draft.fact("device_id", devices[0][0])
    named = rankdir.worker(root)
    if named and draft.facts.get("pid") in (None, named[1]):
        draft.fact("host", named[0])


def tell(claim: Claim, draft: Draft, done: Pass, lanes: Sequence[Mapping[str, object]]) -> None:
    """Coverage of everything the files of a claim gave."""
    for reason, number in done.lost.items():
        draft.drop("span", reason, number)
    for reason in done.damage:
        draft.partial("span", reason)
        draft.partial(None, reason)
    if done.repeated:
        draft.note("arg", Message("arguments_that_repeat_span_s", {"n": done.repeated}))
    unnamed = sorted({str(lane["pid"]) for lane in lanes if lane["unnamed"]})
    if unnamed:
        listed = ", ".join(unnamed[:5])
        draft.note("track", Message("trace_names_no_process_for", {"pids": listed}))
    _absent(claim, draft)


def unread(claim: Claim, reasons: Sequence[str], draft: Draft) -> None:
    """Files of the export that are passed over, and why."""
    for reason in reasons:
        draft.note("arg", Message("not_read", {"reason": reason}))
    if not claim.root.is_dir():
        return
    others = {
        _NUMBERS.sub("", path.name)
        for directory in {path.parent for path in claim.files}
        for path in directory.iterdir()
        if path.suffix in (".csv", ".json") and path not in claim.files
    }
    if others:
        draft.note("arg", Message("not_read_no_table_holds", {"files": listed(sorted(others), _LISTED)}))


def _absent(claim: Claim, draft: Draft) -> None:
    """Every table that has nothing says why, and what would record it."""
    level = rankdir.level(claim.root)
    has_trace = any(_TRACE.match(path.name) for path in claim.files)
    no_trace = None if has_trace else Message("there_is_no_trace_view")
    framework = (Message("msprof_records_no_operators_framework") if prof_dir.NAME.match(claim.root.name) else None)
    for table, rows, reason, setting in (
        ("kernel", "dev WHERE kind IN ('kernel', 'memset')", Message("no_device_tasks_were_recorded"), _DEVICE),
        ("host_op", "x_host WHERE sequence IS NOT NULL OR connection IS NOT NULL OR correlation IS NOT NULL",
         framework or no_trace or Message("no_operators_were_recorded"), _DEVICE),
        ("link", "arrow WHERE src <> dst", no_trace or at_level(level, "no_cann_calls_were_recorded"), _LEVEL1),
        ("stack", "(SELECT stack FROM x_host UNION ALL SELECT frames FROM detail) s(f) WHERE f IS NOT NULL",
         framework or no_trace or Message("no_call_stacks_were_recorded"), "with_stack=True"),
        ("sample", "(SELECT name FROM counter UNION ALL SELECT name FROM counter_rest)",
         no_trace or Message("no_counters_were_recorded"), _DEVICE),
        ("clock", "rankdir_clock", Message("profiler_info_says_nothing_about"), None),
    ):  # fmt: skip
        if not draft.con.execute(f"SELECT 1 FROM {rows} LIMIT 1").fetchall():
            draft.absent(table, reason, setting)
    if no_trace:
        draft.absent("transfer", Message("and_no_other_file_names", {"reason": no_trace}), None)
    names = {named.base for path in claim.files if (named := exports.name(path.name))}
    for table, wanted, reason, setting in (
        (
            "memory_sample",
            ("memory_record.csv", "npu_module_mem.csv"),
            Message("no_memory_was_recorded"),
            "profile_memory=True",
        ),
        ("memory_event", ("operator_memory.csv",), Message("no_memory_was_recorded"), "profile_memory=True"),
        ("l2_cache", ("l2_cache.csv",), Message("no_l2_cache_rates_were"), "l2_cache=True"),
        (
            "comm_link",
            ("communication_matrix.json",),
            at_level(level, "no_bandwidth_between_ranks_was"),
            _LEVEL1,
        ),
        (
            "profiler_step",
            ("step_trace_time.csv",),
            Message("no_step_trace_time_csv"),
            "schedule(...) and prof.step()",
        ),
        ("summary", _STATISTICS, at_level(level, "no_statistics_were_exported"), _LEVEL1),
    ):
        if names.isdisjoint(wanted):
            draft.absent(table, reason, setting)
    if "pmu" not in draft.selects:
        draft.absent(
            "pmu", at_level(level, "no_ai_core_counters_were"), f"{_LEVEL1}, aic_metrics=PipeUtilization"
        )
