"""What a database says about its rank, and what it does not hold and how to record that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from npulens.ingest.messages import Message, at_level
from npulens.ingest.readers import Claim
from npulens.ingest.readers.ascend import rankdir
from npulens.ingest.readers.sqlite import Database, wanted
from npulens.ingest.tables.draft import Draft

GROUP = pa.schema(
    [("group_name", pa.string()), ("kind", pa.string()), ("ranks", pa.list_(pa.int32())), ("source", pa.string())]
)
_WORLD = ("default_group", "hccl_world_group")
#: How far to look for the groups of a rank before its database is read.
_GROUP_ROWS = 1000

Groups = Mapping[str, tuple[str | None, tuple[int, ...]]]


def rank_of(database: Database) -> int | None:
    """The rank that torch_npu wrote; msprof alone writes -1."""
    rows = database.rows("RANK_DEVICE_MAP", wanted("rankId:i"))
    found = {row["rankId"] for row in rows if isinstance(row["rankId"], int) and 0 <= row["rankId"] < 2**31}
    rank = found.pop() if len(found) == 1 else None
    return rank if isinstance(rank, int) else None


def devices(database: Database) -> dict[int, int | None]:
    """The devices that an msprof database is about, each with its rank if that was known."""
    found: dict[int, int | None] = {}
    for row in database.rows("RANK_DEVICE_MAP", wanted("rankId:i deviceId:i")):
        device, rank = row["deviceId"], row["rankId"]
        if isinstance(device, int) and 0 <= device < 2**15:
            found[device] = rank if isinstance(rank, int) and 0 <= rank < 2**31 else None
    return found


def window(database: Database) -> tuple[int | None, int | None]:
    """Begin and end of the session; a profiler that died writes begin + 30 minutes."""
    for row in database.rows("SESSION_TIME_INFO", wanted("startTimeNs:i endTimeNs:i")):
        begin, end = row["startTimeNs"], row["endTimeNs"]
        if isinstance(begin, int) and isinstance(end, int) and 0 < begin <= end < 4 * 10**18:
            return begin, end
    return None, None


def group_names(database: Database) -> set[str]:
    """Communication groups of the first operators."""
    ids: set[int] = set()
    if "COMMUNICATION_OP" in database.tables:
        for row in database.rows("COMMUNICATION_OP", wanted("groupName:i"), limit=_GROUP_ROWS):
            if isinstance(row["groupName"], int):
                ids.add(row["groupName"])
    if not ids:
        return set()
    strings = database.rows("STRING_IDS", wanted("id:i value:s"), among=("id", sorted(ids)))
    return {str(row["value"]) for row in strings if row["value"] not in (None, "", "N/A")}


def metadata(database: Database) -> dict[str, object]:
    """META_DATA with its JSON values read; what is no JSON stays text."""
    found: dict[str, object] = {}
    for row in database.rows("META_DATA", wanted("name:s value:s")):
        name, value = row["name"], row["value"]
        if isinstance(name, str) and isinstance(value, str):
            found[name] = _json(value)
    return found


def groups(told: Mapping[str, object]) -> Groups:
    """Group name -> its kind (tp, dp...) and its global ranks."""
    listed = told.get("parallel_group_info")
    found = {}
    for name, group in (listed if isinstance(listed, dict) else {}).items():
        if isinstance(group, dict):
            kind, ranks = group.get("group_name"), group.get("global_ranks")
            numbers = [rank for rank in (ranks if isinstance(ranks, list) else []) if _is_rank(rank)]
            found[str(name)] = (kind if isinstance(kind, str) and kind else None, tuple(numbers))
    return found


def world_size(told: Mapping[str, object]) -> int | None:
    """Ranks of the job, by its arguments or its widest group."""
    arguments = told.get("distributed_args")
    size = arguments.get("world_size") if isinstance(arguments, dict) else None
    if _is_rank(size) and isinstance(size, int) and size > 0:
        return size
    return max((len(ranks) for kind, ranks in groups(told).values() if kind in _WORLD and ranks), default=None)


def describe(draft: Draft, claim: Claim, told: Mapping[str, object], found: Iterable[tuple[str, object]]) -> None:
    """Columns of ``rank``, and the parallel groups. ``found``: what the tables say."""
    rankdir.describe(claim.root, draft, claim.device, claim.files)
    draft.fact("backend", "npu")
    draft.fact("clock", "unix")
    draft.fact("world_size", world_size(told))
    environment = told.get("ENV_VARIABLES")
    if isinstance(environment, dict):
        draft.fact("environment", msgspec.json.encode(environment).decode())
    for key, value in found:
        draft.fact(key, value)


def in_tables(draft: Draft) -> list[tuple[str, object]]:
    """What the tables of a database say about its rank."""
    asked = (
        ("device_id", "SELECT min(deviceId) FROM (SELECT deviceId FROM raw_RANK_DEVICE_MAP UNION ALL SELECT deviceId "
         "FROM raw_TASK) WHERE deviceId BETWEEN 0 AND 2147483647 HAVING count(DISTINCT deviceId) = 1"),
        ("device_name", "SELECT min(name) FROM raw_NPU_INFO WHERE id >= 0 HAVING count(DISTINCT name) = 1"),
        ("host", "SELECT min(coalesce(nullif(hostName, ''), hostUid)) FROM raw_HOST_INFO"),
        ("pid", "SELECT min(globalPid) FROM raw_TASK WHERE globalPid > 0 HAVING count(DISTINCT globalPid) = 1"),
        ("pid", "SELECT min(x >> 32) FROM db_api WHERE x > 0 HAVING count(DISTINCT x >> 32) = 1"),
    )  # fmt: skip
    found = draft.con.execute(f"SELECT {', '.join(f'({query})' for _, query in asked)}").fetchall()[0]
    return [(key, value) for (key, _), value in zip(asked, found, strict=True)]


def group_rows(root: Path, found: Groups) -> list[tuple[str, str | None, Sequence[int]]]:
    """Name, kind and ranks of the groups: META_DATA's, then those that only profiler_metadata.json has."""
    told = [(name, kind, ranks) for name, (kind, ranks) in found.items()]
    return [*told, *((name, None, ranks) for name, ranks in rankdir.groups_of(root).values() if name not in found)]


def say_groups(draft: Draft, root: Path, groups: Sequence[tuple[str, str | None, Sequence[int]]], told: Groups) -> None:
    """Provide the groups, unless the directory's own file has them: torch_npu copies META_DATA from it."""
    rows = [
        {"group_name": name, "kind": kind, "ranks": list(ranks),
         "source": "META_DATA" if name in told else "profiler_metadata.json"}
        for name, kind, ranks in groups
    ]  # fmt: skip
    if not rankdir.groups_of(root):
        draft.give("parallel_group", "db_group", rows, GROUP)
    elif not draft.gives:
        draft.table("db_group", rows, GROUP)


def cover(draft: Draft, root: Path, rows: Mapping[str, int], counts: Sequence[int]) -> None:
    """Say what is absent, and the torch_npu setting that records it. ``counts``: those of `counted`."""
    level1, level = "profiler_level=Level1", rankdir.level(root)
    for table, sources, reason, setting in (
        ("kernel", ("TASK",), Message("no_device_tasks_were_recorded"), "activities=[CPU, NPU]"),
        ("host_op", ("PYTORCH_API",), Message("no_framework_operators_were_recorded"), "activities=[CPU, NPU]"),
        ("link", ("CANN_API",), at_level(level, "no_cann_calls_were_recorded"), level1),
        (
            "pmu",
            ("TASK_PMU_INFO",),
            at_level(level, "no_ai_core_counters_were"),
            f"{level1}, aic_metrics=PipeUtilization",
        ),
        ("stack", ("PYTORCH_CALLCHAINS",), Message("no_call_stacks_were_recorded"), "with_stack=True"),
        (
            "memory_sample",
            ("MEMORY_RECORD", "NPU_MODULE_MEM"),
            Message("no_memory_was_recorded"),
            "profile_memory=True",
        ),
        ("memory_event", ("OP_MEMORY", "NPU_OP_MEM"), Message("no_memory_was_recorded"), "profile_memory=True"),
        ("transfer", ("TASK",), Message("no_device_tasks_were_recorded"), "activities=[CPU, NPU]"),
        (
            "comm",
            ("COMMUNICATION_OP", "COMMUNICATION_TASK_INFO", "TASK"),
            Message("no_device_tasks_were_recorded"),
            "activities=[CPU, NPU]",
        ),
        (
            "step",
            ("STEP_TIME", "PYTORCH_API"),
            Message("no_steps_were_marked"),
            Message("after_each_step", {"setting": "schedule=..., prof.step()"}),
        ),
    ):
        if not any(rows[source] for source in sources):
            draft.absent(table, reason, setting)
    for table, source in (("comm_link", "CommAnalyzerMatrix"), ("profiler_step", "StepTraceTime")):
        if not rows[source]:
            draft.absent(table, at_level(level, "analysis_db_is_missing_or", {"source": source}), level1)
    _cover_parts(draft, rows, level, counts)
    draft.absent("l2_cache", Message("db_export_does_not_hold"), "l2_cache=True, export_type=[Text]")
    draft.absent("summary", Message("db_export_does_not_hold_it"), "export_type=[Text]")


def counted(draft: Draft) -> Sequence[int]:
    """Communication tasks without a plane, copies, operators, those with shapes, kernels, those with types."""
    found: tuple[int, ...] = draft.con.execute(
        "SELECT (SELECT count(*) FROM db_task WHERE kind = 'comm_task' AND source = 2 AND NOT helps), "
        "(SELECT count(*) FROM db_task WHERE kind = 'memcpy'), "
        "(SELECT count(*) FROM db_api WHERE kind = 'cpu_op'), "
        "(SELECT count(*) FROM raw_PYTORCH_API WHERE inputShapes IS NOT NULL), "
        "(SELECT count(*) FROM db_task WHERE kind = 'kernel'), "
        "(SELECT count(*) FROM raw_COMPUTE_TASK_INFO WHERE told(opType) IS NOT NULL)"
    ).fetchall()[0]
    return found


def _cover_parts(draft: Draft, rows: Mapping[str, int], level: str | None, counts: Sequence[int]) -> None:
    """Tables that are there without some of their columns."""
    without_plane, copies, operators, shapes, kernels, types = counts
    if rows["COMMUNICATION_TASK_INFO"] and not rows["COMMUNICATION_OP"]:
        tasks = rows["COMMUNICATION_TASK_INFO"]
        draft.partial("comm", Message("communication_op_is_empty_beside", {"n": tasks}))
    if without_plane:
        reason = at_level(level, "communication_tasks_without_plane_peer", {"n": without_plane})
        _lacks(draft, "comm", reason, "profiler_level=Level1")
    if kernels and not types:
        reason = at_level(level, "types_shapes_and_block_counts")
        _lacks(draft, "kernel", reason, "profiler_level=Level1")
    if copies and not rows["MEMCPY_INFO"]:
        reason = Message("this_version_does_not_record")
        _lacks(draft, "transfer", reason, "profiler_level=Level2, export_type=[Text]")
    if operators and not shapes:
        _lacks(draft, "host_op", Message("input_shapes_and_types_were"), "record_shapes=True")


def _lacks(draft: Draft, table: str, reason: Message, setting: str) -> None:
    draft.partial(table, reason)
    draft.absent(table, reason, setting)


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return text
