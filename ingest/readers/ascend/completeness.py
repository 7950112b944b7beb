"""What the settings of a capture ask an export to hold, and what of it is not there.

analyse.done says nothing about it: it is written also where every parser failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from npulens.ingest.messages import Message, joined
from npulens.ingest.readers.ascend import commands, prof_dir
from npulens.ingest.readers.ascend.small_json import mapping

_TRACE = re.compile(r"^(trace_view|msprof.*)\.json(\.gz)?$")
_KERNELS = re.compile(r"^(kernel_details|op_summary.*)\.csv$")
_DATABASE = re.compile(r"^(ascend_(pytorch|mindspore)_profiler.*|msprof_.*)\.(db|dat)$")


def missing(config: Mapping[str, object], root: Path, output: Path) -> Message | None:
    """A sentence about the files that an export lacks and how to get them; None if it lacks none or says nothing."""
    try:
        there = {path.name for path in output.iterdir()}
        empty = {path.name for path in output.iterdir() if path.is_file() and not path.stat().st_size}
    except OSError:
        return None
    if not there:
        return None
    lacking = [
        name
        for name, pattern in _expected(config, root, there)
        if not any(pattern.match(found) for found in there - empty)
    ]
    if not lacking:
        return None
    return joined([Message("export_lacks_its_analysis_did", {"files": ", ".join(lacking)}), again(root)])


def again(root: Path) -> Message:
    """How to bring back what an export lacks."""
    if (root / commands.FRAMEWORK).is_dir():
        return Message("analyse_it_again_on_npu", {"command": commands.analyse(root)})
    raw = [prof for prof in sorted(root.glob("PROF_*")) if prof_dir.NAME.match(prof.name) and prof_dir.has_raw(prof)]
    if raw:
        return Message("device_part_can_be_exported", {"command": commands.export(root.name, raw[0].name)})
    return Message("its_raw_data_is_not")


def _expected(config: Mapping[str, object], root: Path, there: set[str]) -> list[tuple[str, re.Pattern[str]]]:
    """File and the names it goes by, for what every version writes under these settings."""
    common, more = mapping(config.get("common_config")), mapping(config.get("experimental_config"))
    kinds, level = more.get("_export_type"), more.get("_profiler_level")
    exports = kinds if isinstance(kinds, list) else [kinds]
    device = any("NPU" in str(name) for name in _list(common.get("activities")))
    if not device or level == "Level_none":
        return []
    found: list[tuple[str, re.Pattern[str]]] = []
    # A capture can be analysed again into the other kind of export; what it then holds is complete in itself.
    text, database = (any(kind.match(name) for name in there) for kind in (_TRACE, _DATABASE))
    if "text" in exports and (text or not database or "db" in exports):
        found += [("trace_view.json", _TRACE), ("kernel_details.csv", _KERNELS)]
        named = ["step_trace_time.csv"]
        if level in ("Level1", "Level2"):
            named.append("op_statistic.csv")
        if common.get("profile_memory") is True:
            named += ["operator_memory.csv", "memory_record.csv"]
        if more.get("_l2_cache") is True:
            named.append("l2_cache.csv")
        if any("CPU" in str(name) for name in _list(common.get("activities"))) and not root.name.endswith("_ascend_ms"):
            named.append("operator_details.csv")
        found += [(name, re.compile(re.escape(name))) for name in named]
    if "db" in exports and (database or not text or "text" in exports):
        found.append(("ascend_pytorch_profiler.db", _DATABASE))
    return found


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
